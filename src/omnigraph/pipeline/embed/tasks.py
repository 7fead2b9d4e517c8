"""Embeds batches of texts: a task of `embed`, in this process or on an executor. Safe to repeat.

In: settings and texts. Out: vectors as bytes, and the texts that the provider rejected. The key is not part of a task:
it is read from its variable where the task runs. Nothing is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from omnigraph.embedding.kinds.request import RejectedText
from omnigraph.embedding.pace import RequestPace
from omnigraph.embedding.provider import TextEmbedder, make_embedder
from omnigraph.embedding.settings import EmbeddingSettings
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
    """A vector of 32-bit numbers for each text, zeros for rejected ones, and the reasons by the number of the text."""

    vectors: bytes = field(repr=False)
    rejected: dict[int, str]
    requests: int = 0
    retries: int = 0


def _measure(result: EmbeddedTexts) -> TaskSize:
    return TaskSize(bytes=len(result.vectors))


@task("embed", _measure)
def embed_requests(task: EmbedTask) -> EmbeddedTexts:
    """Send the requests one after another, until the run is stopped."""
    embedder = make_embedder(task.settings, os.environ, task.pace, raise_if_stopped)
    parts = [embed_documents(embedder, texts, task.size) for texts in task.requests]
    return EmbeddedTexts(
        vectors=b"".join(part.vectors for part in parts),
        rejected=_number_texts([part.rejected for part in parts], [len(texts) for texts in task.requests]),
        requests=embedder.count.requests,
        retries=embedder.count.retries,
    )


def embed_documents(embedder: TextEmbedder, texts: tuple[str, ...], size: int) -> EmbeddedTexts:
    """Return the vectors of one request."""
    vectors = np.zeros((len(texts), size), np.float32)
    rejected: dict[int, str] = {}
    for number, result in enumerate(embedder.embed_documents(texts, size)):
        if isinstance(result, RejectedText):
            rejected[number] = result.reason
        else:
            vectors[number] = result
    return EmbeddedTexts(vectors=vectors.tobytes(), rejected=rejected)


def _number_texts(rejected: list[dict[int, str]], sizes: list[int]) -> dict[int, str]:
    """Return the reasons by the number of the text among all texts."""
    numbered: dict[int, str] = {}
    start = 0
    for part, size in zip(rejected, sizes, strict=True):
        numbered |= {start + number: reason for number, reason in part.items()}
        start += size
    return numbered
