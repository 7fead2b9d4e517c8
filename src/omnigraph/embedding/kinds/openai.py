"""The protocol of OpenAI, which OpenRouter, vLLM, Ollama and LM Studio also speak. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.embedding.kinds.request import EmbeddingBatch, InvalidResponseError, ProviderRequest, require_rows


def make_openai_request(model: str, batch: EmbeddingBatch) -> ProviderRequest:
    """Return the request for the vectors of a batch."""
    body = {"model": model, "input": list(batch.texts), "dimensions": batch.size}
    return ProviderRequest(path="/embeddings", body=body, key_header="Authorization", key_prefix="Bearer ")


def parse_openai_response(document: Any, count: int) -> list[Sequence[float]]:
    """Return a vector per text, in the order of the texts: the response may have another one."""
    rows = require_rows(document.get("data") if isinstance(document, dict) else None, count)
    vectors: dict[int, Sequence[float]] = {}
    for row in rows:
        index, vector = (row.get("index"), row.get("embedding")) if isinstance(row, dict) else (None, None)
        if not isinstance(index, int) or index in vectors or not 0 <= index < count:
            raise InvalidResponseError(f"expected each index from 0 to {count - 1} once, got {index!r}")
        if not isinstance(vector, list):
            raise InvalidResponseError("expected a list of numbers as `embedding`")
        vectors[index] = vector
    return [vectors[index] for index in range(count)]
