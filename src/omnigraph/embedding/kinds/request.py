"""What a protocol of a provider gets and makes: a batch of texts, a request, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class TextPurpose(StrEnum):
    """Whether a text is a query or is stored; some models make different vectors for them."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingBatch:
    """Texts, the number of components of their vectors, and what they are for."""

    texts: tuple[str, ...]
    size: int
    purpose: TextPurpose


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """A POST request without the key: the path below the base URL, the header for the key, and the body."""

    path: str
    body: Mapping[str, Any]
    key_header: str
    key_prefix: str = ""


@dataclass(frozen=True, slots=True)
class RejectedText:
    """Why a provider gave no usable vector for one text."""

    reason: str


class RequestCount:
    """The requests of a run, and how many of them repeated an earlier one."""

    __slots__ = ("requests", "retries")

    def __init__(self) -> None:
        self.requests = 0
        self.retries = 0


class InvalidResponseError(ValueError):
    """A response does not follow the protocol. The text says what was expected."""


def require_rows(rows: object, count: int) -> Sequence[Any]:
    """Return the rows of a response if there is one per text."""
    if not isinstance(rows, list) or len(rows) != count:
        actual = len(rows) if isinstance(rows, list) else "no list"
        raise InvalidResponseError(f"expected {count:,} vectors, got {actual}")
    return rows
