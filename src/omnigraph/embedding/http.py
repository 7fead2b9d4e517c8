"""Calls a provider over HTTP: retries, a deadline, and batches that are split where a provider rejects a text.

In: settings and texts. Out: a vector or the reason of its rejection for each text. The key is read from its variable
when a request is sent, is sent only to the configured server, and is part of no message: text of a provider's response
that contains it is replaced. Redirects are not followed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from omnigraph.base.clock import SYSTEM_CLOCK, to_datetime
from omnigraph.base.display import format_count
from omnigraph.base.errors import ErrorKind, MachineError, OmnigraphError, UsageError
from omnigraph.embedding.protocols import PROTOCOLS, EmbeddingBatch, InvalidResponseError, ProviderRequest, RejectedText
from omnigraph.embedding.settings import EmbeddingSettings
from omnigraph.embedding.vectors import InvalidVectorError, Vector, normalize, require_length
from omnigraph.embedding.waits import RequestPace, is_retried, is_split, parse_retry_after, pause_seconds

_REASON_LENGTH_MAX: Final = 300
_PIECE_BYTES: Final = 64 * 1024


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


class HttpEmbedder:
    """A provider that is called over HTTP, by one thread. It counts its requests, and those that repeat another one.

    `wait` waits for seconds before a request; it raises if no other request may be sent. `raise_if_stopped` is called
    while a response is read; it raises if the response is not needed anymore.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        environment: Mapping[str, str],
        *,
        pace: RequestPace | None = None,
        wait: Callable[[float], None] = SYSTEM_CLOCK.sleep,
        raise_if_stopped: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings, self._environment = settings, environment
        self._pace, self._wait, self._raise_if_stopped = pace, wait, raise_if_stopped
        self.requests = self.retries = 0
        self._previous_request: float | None = None
        self._pool = urllib3.PoolManager(retries=False)

    def embed(self, batch: EmbeddingBatch) -> list[Vector | RejectedText]:
        """Return a vector or a rejection per text; raise if the provider cannot be used.

        If no vector has the right length, the model is the wrong one: the texts are not sent again.
        """
        answer = self._request(batch)
        if not isinstance(answer, _Failure):
            require_length(answer, batch.size)
        return self._read_results(batch, answer)

    def _read_results(
        self, batch: EmbeddingBatch, answer: Sequence[Sequence[float]] | _Failure
    ) -> list[Vector | RejectedText]:
        """Return the results of an answer. If it rejects the texts of a batch together, each is sent again alone."""
        if not isinstance(answer, _Failure):
            try:
                return [normalize(vector, batch.size) for vector in answer]
            except InvalidVectorError as error:
                reason = f"invalid vector: {error}"
        elif is_split(answer.status):
            reason = f"the provider rejected the text with status {answer.status}: {answer.reason}"
        else:
            raise self._failed(answer)
        if len(batch.texts) == 1:
            return [RejectedText(reason)]
        alone = [replace(batch, texts=(text,)) for text in batch.texts]
        return [result for part in alone for result in self._read_results(part, self._request(part))]

    def _request(self, batch: EmbeddingBatch) -> Sequence[Sequence[float]] | _Failure:
        """Return the vectors of a response, or the last failure after the retries."""
        protocol = PROTOCOLS[self.settings.kind]
        request = protocol.make_request(self.settings.model, batch)
        deadline = SYSTEM_CLOCK.monotonic() + (self.settings.deadline_seconds or float("inf"))
        for attempt in range(1, self.settings.attempts + 1):
            deadline += self._wait_for_turn()  # the deadline is for the provider, not for our own limit
            self.requests += 1
            self.retries += attempt > 1
            answer = self._send(request, deadline - SYSTEM_CLOCK.monotonic())
            if not isinstance(answer, _Failure):
                try:
                    return protocol.parse_response(answer, len(batch.texts))
                except InvalidResponseError as error:
                    answer = _Failure(None, self._without_key(f"the response is invalid: {error}"))
            requested = parse_retry_after(answer.retry_after, to_datetime(SYSTEM_CLOCK.now_us()))
            pause = pause_seconds(self.settings, attempt, requested, random.random())
            is_last = attempt == self.settings.attempts or pause >= deadline - SYSTEM_CLOCK.monotonic()
            if is_last or not is_retried(answer.status):
                return replace(answer, attempts=attempt)
            self._wait(pause)
        raise AssertionError("a run has at least one attempt")

    def _wait_for_turn(self) -> float:
        """Wait until the pace allows a request; return the seconds."""
        now = SYSTEM_CLOCK.monotonic()
        seconds = 0.0 if self._pace is None else self._pace.wait_seconds(self._previous_request, now)
        self._wait(seconds)
        self._previous_request = now + seconds
        return seconds

    def _send(self, request: ProviderRequest, remaining: float) -> Any:
        """Return the decoded body of one response, or a failure."""
        headers = {"Content-Type": "application/json", **self._key(request)}
        seconds = max(0.001, min(self.settings.timeout_seconds, remaining))
        end = SYSTEM_CLOCK.monotonic() + seconds
        try:
            response = self._pool.request(
                "POST",
                f"{self.settings.base_url}{request.path}",
                body=msgspec.json.encode(request.body),
                headers=headers,
                timeout=urllib3.Timeout(total=seconds),
                redirect=False,
                preload_content=False,
            )
            data = self._read_body(response, end)
        except HTTPError as error:
            return _Failure(None, self._describe(error))
        if data is None:
            return _Failure(None, self._describe(None))
        if response.status != 200:
            reason = " ".join(data.decode("utf-8", "replace").split())
            return _Failure(response.status, self._without_key(reason), response.headers.get("Retry-After"))
        return _decode(data)

    def _read_body(self, response: urllib3.BaseHTTPResponse, end: float) -> bytes | None:
        """Return the body of a response, or None if it is incomplete at `end`.

        The timeout of urllib3 is for each piece: a server that sends a byte now and then would never reach it. A
        connection whose response is incomplete is closed.
        """
        pieces: list[bytes] = []
        try:
            while piece := response.read1(_PIECE_BYTES):
                pieces.append(piece)
                self._raise_if_stopped()
                if SYSTEM_CLOCK.monotonic() >= end:
                    return None
        finally:
            response.close()
        return b"".join(pieces)

    def _describe(self, error: HTTPError | None) -> str:
        """Return what went wrong with a connection, and the address without user and password. None: it was slow."""
        url = urllib3.util.parse_url(self.settings.base_url)
        address = f"{url.scheme}://{url.netloc}"
        if error is None or isinstance(error, ReadTimeoutError):
            return f"{address} did not answer in time"
        if isinstance(error, ProtocolError):
            return f"{address} closed the connection before its response was complete"
        return f"{address} could not be reached"

    def _key(self, request: ProviderRequest) -> dict[str, str]:
        name = self.settings.key_variable
        if name is None:
            return {}
        key = self._environment.get(name, "")
        if not key.strip():
            names = " or ".join(self.settings.key_variables)
            raise MachineError(
                f"the key of the embedding provider is missing: expected it in the variable {names}",
                code="embedding_key_missing",
                hint=f"Set {names} in the environment of the process that embeds: on a cluster, of the executors, "
                "with a warm Spark server, of `omnigraph spark start`.",
                facts={"variable": name},
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(
                f"invalid key of the embedding provider in the variable {name}: expected printable ASCII characters "
                "without blanks",
                code="embedding_settings",
                hint=f"Set {name} to the key only. Blanks and newlines around it are not removed.",
                facts={"variable": name},
            )
        return {request.key_header: f"{request.key_prefix}{key}"}

    def _without_key(self, reason: str) -> str:
        key = self._environment.get(self.settings.key_variable or "", "").strip()
        return (reason.replace(key, "***") if key else reason)[:_REASON_LENGTH_MAX]

    def _failed(self, failure: _Failure) -> EmbeddingFailedError:
        status = "" if failure.status is None else f" with status {failure.status}"
        attempts = format_count(failure.attempts, "attempt")
        return EmbeddingFailedError(
            f"the embedding provider failed{status} after {attempts}: {failure.reason}",
            code="embedding_failed",
            hint="Check OMNIGRAPH_EMBED_BASE_URL, the key and the model, then retry.",
            facts={"provider": self.settings.kind.value, "status": failure.status, "attempts": failure.attempts},
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
