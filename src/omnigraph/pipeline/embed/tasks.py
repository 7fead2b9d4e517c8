"""Embeds batches of texts: a task of `embed`, in this process or on an executor. Safe to repeat.

In: settings and texts. Out: vectors, and the texts that the provider rejected. The key is not part of a task: it is
read from its variable where the task runs. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from omnigraph.embedding.protocols import EmbeddingBatch, RejectedText, TextPurpose
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.embedding.vectors import Vector, make_mock_vector
from omnigraph.embedding.waits import RequestPace
from omnigraph.pipeline.runner import TaskSize, raise_if_stopped, task


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTask:
    """The requests of one task: each item of `requests` is the texts of one request."""

    settings: EmbeddingSettings
    size: int
    requests: tuple[tuple[str, ...], ...] = field(repr=False)
    pace: RequestPace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTexts:
    """A row of 32-bit numbers for each text, zeros for rejected ones, and the reasons by the number of the text."""

    vectors: Vector = field(repr=False)
    rejected: dict[int, str]
    requests: int = 0
    retries: int = 0


def _measure(result: EmbeddedTexts) -> TaskSize:
    return TaskSize(len(result.vectors), result.vectors.nbytes)


@task("embed", _measure)
def embed_requests(task: EmbedTask) -> EmbeddedTexts:
    """Send the requests one after another, until the run is stopped."""
    if task.settings.kind is ProviderKind.MOCK:
        return collect_vectors(
            [make_mock_vector(text, task.size) for texts in task.requests for text in texts], task.size
        )
    from omnigraph.embedding.http import HttpEmbedder

    embedder = HttpEmbedder(
        task.settings, os.environ, pace=task.pace, wait=raise_if_stopped, raise_if_stopped=raise_if_stopped
    )
    batches = [EmbeddingBatch(texts=texts, size=task.size, purpose=TextPurpose.DOCUMENT) for texts in task.requests]
    result = collect_vectors([result for batch in batches for result in embedder.embed(batch)], task.size)
    return replace(result, requests=embedder.requests, retries=embedder.retries)


def collect_vectors(results: Sequence[Vector | RejectedText], size: int) -> EmbeddedTexts:
    """Return the results of texts as one array."""
    rejected = {number: row.reason for number, row in enumerate(results) if isinstance(row, RejectedText)}
    vectors = np.zeros((len(results), size), np.float32)
    for number, row in enumerate(results):
        if not isinstance(row, RejectedText):
            vectors[number] = row
    return EmbeddedTexts(vectors=vectors, rejected=rejected)
