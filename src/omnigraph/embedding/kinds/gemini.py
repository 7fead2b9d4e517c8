"""The protocol of Gemini. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from omnigraph.embedding.kinds.request import (
    EmbeddingBatch,
    InvalidResponseError,
    ProviderRequest,
    TextPurpose,
    require_rows,
)

_TASKS: Final = {TextPurpose.QUERY: "RETRIEVAL_QUERY", TextPurpose.DOCUMENT: "RETRIEVAL_DOCUMENT"}


def make_gemini_request(model: str, batch: EmbeddingBatch) -> ProviderRequest:
    """Return the request for the vectors of a batch."""
    requests = [
        {
            "model": f"models/{model}",
            "content": {"parts": [{"text": text}]},
            "taskType": _TASKS[batch.purpose],
            "outputDimensionality": batch.size,
        }
        for text in batch.texts
    ]
    return ProviderRequest(
        path=f"/models/{model}:batchEmbedContents", body={"requests": requests}, key_header="x-goog-api-key"
    )


def parse_gemini_response(document: Any, count: int) -> list[Sequence[float]]:
    """Return a vector per text, in the order of the texts."""
    rows = require_rows(document.get("embeddings") if isinstance(document, dict) else None, count)
    vectors: list[Sequence[float]] = []
    for row in rows:
        values = row.get("values") if isinstance(row, dict) else None
        if not isinstance(values, list):
            raise InvalidResponseError("expected a list of numbers as `values`")
        vectors.append(values)
    return vectors
