"""The protocols of providers: texts to a request, and a response to vectors. Pure.

`openai` is spoken by OpenAI, OpenRouter, vLLM, Ollama and LM Studio, `gemini` by Gemini.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from omnigraph.embedding.settings import ProviderKind


class TextPurpose(StrEnum):
    """Whether a text is a query or is stored; some models make different vectors for them."""

    QUERY = "RETRIEVAL_QUERY"
    DOCUMENT = "RETRIEVAL_DOCUMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingBatch:
    """Texts, the number of components of their vectors, and what they are for."""

    texts: tuple[str, ...]
    size: int
    purpose: TextPurpose


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """A POST request without the key: the path below the base URL, the body, and the header for the key."""

    path: str
    body: Mapping[str, Any]
    key_header: str
    key_prefix: str = ""


@dataclass(frozen=True, slots=True)
class RejectedText:
    """Why a provider gave no usable vector for one text."""

    reason: str


class InvalidResponseError(ValueError):
    """A response does not follow the protocol. The text says what was expected."""


def _make_openai_request(model: str, batch: EmbeddingBatch) -> ProviderRequest:
    body = {"model": model, "input": list(batch.texts), "dimensions": batch.size}
    return ProviderRequest(path="/embeddings", body=body, key_header="Authorization", key_prefix="Bearer ")


def _parse_openai_response(document: Any, count: int) -> list[Sequence[float]]:
    """Return a vector per text, in the order of the texts: the response may have another one."""
    vectors: dict[int, Sequence[float]] = {}
    for row in _rows(document, "data", count):
        index = row.get("index")
        if not isinstance(index, int) or index in vectors or not 0 <= index < count:
            raise InvalidResponseError(f"expected each index from 0 to {count - 1} once, got {index!r}")
        vectors[index] = _numbers(row, "embedding")
    return [vectors[index] for index in range(count)]


def _make_gemini_request(model: str, batch: EmbeddingBatch) -> ProviderRequest:
    options = {"model": f"models/{model}", "taskType": batch.purpose.value, "outputDimensionality": batch.size}
    body = {"requests": [{**options, "content": {"parts": [{"text": text}]}} for text in batch.texts]}
    return ProviderRequest(path=f"/models/{model}:batchEmbedContents", body=body, key_header="x-goog-api-key")


def _parse_gemini_response(document: Any, count: int) -> list[Sequence[float]]:
    return [_numbers(row, "values") for row in _rows(document, "embeddings", count)]


def _rows(document: Any, name: str, count: int) -> list[dict[str, Any]]:
    """Return the rows of a response; raise if there is not one per text."""
    rows = document.get(name) if isinstance(document, dict) else None
    if not isinstance(rows, list) or len(rows) != count or not all(isinstance(row, dict) for row in rows):
        actual = len(rows) if isinstance(rows, list) else "no list"
        raise InvalidResponseError(f"expected {count:,} vectors, got {actual}")
    return rows


def _numbers(row: dict[str, Any], name: str) -> Sequence[float]:
    values = row.get(name)
    if not isinstance(values, list):
        raise InvalidResponseError(f"expected a list of numbers as `{name}`")
    return values


@dataclass(frozen=True, slots=True)
class ProviderProtocol:
    """How requests of one kind of provider are made, and its responses read."""

    make_request: Callable[[str, EmbeddingBatch], ProviderRequest]
    parse_response: Callable[[Any, int], list[Sequence[float]]]
    """Return a vector per text, in the order of the texts."""


PROTOCOLS: Final = {
    ProviderKind.OPENAI_COMPATIBLE: ProviderProtocol(_make_openai_request, _parse_openai_response),
    ProviderKind.GEMINI: ProviderProtocol(_make_gemini_request, _parse_gemini_response),
}
