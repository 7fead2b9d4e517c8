"""Calls a provider over HTTP: retries, a deadline, and batches that are split where a provider rejects a text.

In: settings and texts. Out: a vector or the reason of its rejection for each text. The key is read from its variable
when a request is sent, is sent only to the configured server, and is part of no message: text of a provider's response
that contains it is replaced. Redirects are not followed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.display import format_count
from omnigraph.base.errors import ErrorKind, Fact, MachineError, OmnigraphError
from omnigraph.embedding.kinds.gemini import make_gemini_request, parse_gemini_response
from omnigraph.embedding.kinds.openai import make_openai_request, parse_openai_response
from omnigraph.embedding.kinds.request import (
    EmbeddingBatch,
    InvalidResponseError,
    ProviderRequest,
    RejectedText,
    RequestCount,
    TextPurpose,
)
from omnigraph.embedding.normalize import InvalidVectorError, no_usable_vector, normalize
from omnigraph.embedding.pace import PacedClock
from omnigraph.embedding.retry import is_retried, is_split, pause_seconds
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind

_KINDS: Final = {
    ProviderKind.OPENAI_COMPATIBLE: (make_openai_request, parse_openai_response),
    ProviderKind.GEMINI: (make_gemini_request, parse_gemini_response),
}
_REASON_LENGTH_MAX: Final = 300


class EmbeddingFailedError(OmnigraphError):
    """A provider could not be used, also after the retries. Nothing was written."""

    kind = ErrorKind.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class _Failure:
    """A response that has no vectors. `status` is None if there was no complete response."""

    status: int | None
    reason: str
    retry_after: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEmbedder:
    """A provider that is called over HTTP."""

    settings: EmbeddingSettings
    environment: Mapping[str, str]
    clock: Clock = SYSTEM_CLOCK
    count: RequestCount = field(default_factory=RequestCount)
    pace: PacedClock | None = None
    before_request: Callable[[], None] = lambda: None
    """Raises if no other request may be sent."""
    pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False))

    def embed(self, batch: EmbeddingBatch) -> list[tuple[float, ...] | RejectedText]:
        """Return a vector or a rejection per text; raise if the provider cannot be used.

        If no vector has the right length, the model is the wrong one: the texts are not sent again.
        """
        answer = self._request(batch)
        if not isinstance(answer, _Failure):
            if all(len(vector) != batch.size for vector in answer):
                raise no_usable_vector(f"expected {batch.size:,} numbers, got {len(answer[0]):,}")
            return self._normalized(batch, answer)
        return self._split(batch, answer)

    def _embed_alone(self, batch: EmbeddingBatch) -> list[tuple[float, ...] | RejectedText]:
        """Return the vector or the rejection of a text of a batch that was split."""
        answer = self._request(batch)
        return self._split(batch, answer) if isinstance(answer, _Failure) else self._normalized(batch, answer)

    def _split(self, batch: EmbeddingBatch, answer: _Failure) -> list[tuple[float, ...] | RejectedText]:
        """Return the results of the texts alone if the provider rejected them together; raise for other failures."""
        if not is_split(answer.status):
            raise self._failed(answer)
        if len(batch.texts) == 1:
            return [RejectedText(f"the provider rejected the text with status {answer.status}: {answer.reason}")]
        return self._one_by_one(batch)

    def embed_documents(self, texts: tuple[str, ...], size: int) -> list[tuple[float, ...] | RejectedText]:
        """Return a vector or a rejection per stored text."""
        return self.embed(EmbeddingBatch(texts=texts, size=size, purpose=TextPurpose.DOCUMENT))

    def _normalized(
        self, batch: EmbeddingBatch, vectors: Sequence[Sequence[float]]
    ) -> list[tuple[float, ...] | RejectedText]:
        try:
            return [normalize(vector, batch.size) for vector in vectors]
        except InvalidVectorError as error:
            if len(batch.texts) == 1:
                return [RejectedText(f"invalid vector: {error}")]
        return self._one_by_one(batch)

    def _one_by_one(self, batch: EmbeddingBatch) -> list[tuple[float, ...] | RejectedText]:
        return [result for text in batch.texts for result in self._embed_alone(replace(batch, texts=(text,)))]

    def _request(self, batch: EmbeddingBatch) -> Sequence[Sequence[float]] | _Failure:
        """Return the vectors of a response, or the last failure after the retries."""
        started = self.clock.monotonic()
        make_request, parse_response = _KINDS[self.settings.kind]
        request = make_request(self.settings.model, batch)
        for attempt in range(1, self.settings.attempts + 1):
            if self.pace is not None:
                started += self.pace.wait()  # the deadline is for the provider, not for our own limit
            remaining = self._remaining_seconds(started)
            self.before_request()
            self.count.requests += 1
            self.count.retries += attempt > 1
            answer = self._send(request, remaining)
            if not isinstance(answer, _Failure):
                try:
                    return parse_response(answer, len(batch.texts))
                except InvalidResponseError as error:
                    answer = _Failure(None, f"the response is invalid: {error}")
            pause = pause_seconds(self.settings, attempt, answer.retry_after, random.random())
            is_last = attempt == self.settings.attempts or pause >= self._remaining_seconds(started)
            if is_last or not is_retried(answer.status):
                return replace(answer, attempts=attempt)
            self.clock.sleep(pause)
        raise AssertionError("a run has at least one attempt")

    def _send(self, request: ProviderRequest, remaining: float) -> Any:
        """Return the decoded body of one response, or a failure."""
        headers = {"Content-Type": "application/json", **self._key(request)}
        try:
            response = self.pool.request(
                "POST",
                f"{self.settings.base_url}{request.path}",
                body=msgspec.json.encode(request.body),
                headers=headers,
                timeout=urllib3.Timeout(total=max(0.001, min(self.settings.timeout_seconds, remaining))),
                redirect=False,
            )
        except HTTPError as error:
            return _Failure(None, self._describe(error))
        if response.status != 200:
            reason = " ".join(response.data.decode("utf-8", "replace").split())
            return _Failure(response.status, self._without_key(reason), response.headers.get("Retry-After"))
        return _decode(response.data)

    def _describe(self, error: HTTPError) -> str:
        """Return what went wrong with a connection, and the address without user and password."""
        url = urllib3.util.parse_url(self.settings.base_url)
        address = f"{url.scheme}://{url.netloc}"
        if isinstance(error, ReadTimeoutError):
            return f"{address} did not answer in time"
        if isinstance(error, ProtocolError):
            return f"{address} closed the connection before its response was complete"
        return f"{address} could not be reached"

    def _key(self, request: ProviderRequest) -> dict[str, str]:
        name = self.settings.key_variable
        if name is None:
            return {}
        key = self.environment.get(name, "").strip()
        if not key:
            names = " or ".join(self.settings.key_variables)
            raise MachineError(
                f"the key of the embedding provider is missing: expected it in the variable {names}",
                code="embedding_key_missing",
                hint=f"Set {names} in the environment of the process that embeds; on a cluster, of the executors.",
                facts={"variable": name},
            )
        return {request.key_header: f"{request.key_prefix}{key}"}

    def _remaining_seconds(self, started: float) -> float:
        deadline = self.settings.deadline_seconds
        return float("inf") if deadline is None else deadline - (self.clock.monotonic() - started)

    def _without_key(self, reason: str) -> str:
        key = self.environment.get(self.settings.key_variable or "", "").strip()
        return (reason.replace(key, "***") if key else reason)[:_REASON_LENGTH_MAX]

    def _failed(self, failure: _Failure) -> EmbeddingFailedError:
        facts: dict[str, Fact] = {
            "provider": self.settings.kind.value,
            "status": failure.status,
            "attempts": failure.attempts,
        }
        status = "" if failure.status is None else f" with status {failure.status}"
        attempts = format_count(failure.attempts, "attempt")
        return EmbeddingFailedError(
            f"the embedding provider failed{status} after {attempts}: {failure.reason}",
            code="embedding_failed",
            hint="Check OMNIGRAPH_EMBED_BASE_URL, the key and the model, then retry.",
            facts=facts,
        )


def _decode(data: bytes) -> Any:
    """Return a JSON document. NaN is not JSON, but some servers send it: only its vector is invalid."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            return json.loads(data)
        except ValueError:
            return _Failure(None, "the response is not JSON")
