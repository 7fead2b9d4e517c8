"""Requests to a server: one connection pool, no redirects, a bounded number of attempts, and Omnigraph's errors.

`GET` and `HEAD` requests are sent again after a connection error or a busy server; all others are sent once. If the
response of a write is lost, the error says that it is unknown whether the write was applied.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import Applied, ErrorKind, OmnigraphError, UsageError
from omnigraph.base.hints import Argument, action, hint
from omnigraph.base.interrupts import commit_started
from omnigraph.client.errors import KINDS_OF_STATUSES, RemoteError, error_of_document

CONTRACT: Final = "Omnigraph-Http-Api"
CONTRACT_VERSION: Final = "0.13"
CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 120.0
_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 10.0
_BUSY: Final = frozenset({429, 502, 503, 504})
_CHUNK_BYTES: Final = 64 * 1024
_LOG: Final = logging.getLogger("omnigraph.client")


Document = TypeVar("Document")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. `is_write`: it changes something, so its errors say whether it was applied."""

    method: str
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_write: bool = False
    wait_seconds: float = 0.0
    """How long the server may wait before it answers."""


class Connection:
    """A server by its address, with the token for it."""

    def __init__(self, url: str, token: str | None = None, *, is_insecure: bool = False) -> None:
        self.url = normalize_url(url)
        if token is not None and not is_insecure:
            require_secure(self.url)
        self._headers = {CONTRACT: CONTRACT_VERSION, "Accept-Encoding": "gzip"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(retries=False)
        self._warned = False

    def close(self) -> None:
        """Close the connections to the server; the next request opens one again."""
        self._pool.clear()

    def send(self, request: HttpRequest) -> bytes:
        """Return the body of a response; raise the error that the server sent, or an error if it did not answer."""
        response = self._open(request, preload=True)
        return bytes(response.data)

    def read_headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the headers of a response; raise as `send` does."""
        return self._open(request, preload=True).headers

    def stream(self, request: HttpRequest) -> Iterator[bytes]:
        """Yield the body of a response while it arrives; raise if it is incomplete."""
        response = self._open(request, preload=False)
        try:
            yield from response.stream(_CHUNK_BYTES, decode_content=True)
        except HTTPError as error:
            raise self._make_unreachable_error(request, error) from error
        finally:
            response.release_conn()

    def _open(self, request: HttpRequest, *, preload: bool) -> urllib3.BaseHTTPResponse:
        attempts = _ATTEMPTS if request.method in ("GET", "HEAD") else 1
        if request.is_write:
            commit_started.set()
        for attempt in range(1, attempts + 1):
            is_last = attempt == attempts
            try:
                response = self._send(request, preload=preload)
            except KeyboardInterrupt as interrupt:
                self._pool.clear()
                if request.is_write:
                    interrupt.add_note("the server may still apply the write")
                raise
            except HTTPError as error:
                if is_last:
                    raise self._make_unreachable_error(request, error) from error
                SYSTEM_CLOCK.sleep(attempt * _PAUSE_SECONDS)
                continue
            if response.status == (206 if "Range" in request.headers else 200):
                self._check_contract(request, response)
                return response
            if response.status in _BUSY and not is_last:
                response.drain_conn()
                SYSTEM_CLOCK.sleep(_pause_seconds(response, attempt))
                continue
            raise self._make_response_error(request, response)
        raise AssertionError("every attempt returns or raises")

    def _send(self, request: HttpRequest, *, preload: bool) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers, "X-Request-Id": uuid4().hex, **request.headers}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        fields = [(name, text) for name, value in request.parameters.items() for text in _parameter_texts(value)]
        query = "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in fields)
        return self._pool.request(
            request.method,
            self.url + request.path + (f"?{query}" if query else ""),
            body=request.body,
            headers=headers,
            redirect=False,
            preload_content=preload,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS + request.wait_seconds),
        )

    def _check_contract(self, request: HttpRequest, response: urllib3.BaseHTTPResponse) -> None:
        version = response.headers.get(CONTRACT)
        if version == CONTRACT_VERSION:
            return
        if not request.is_write and not self._warned:
            self._warned = True
            _LOG.warning(
                "the server at %s has another version of the HTTP interface: expected %s, got %s",
                self.url,
                CONTRACT_VERSION,
                version or "none",
            )
        if request.is_write:
            failure = RemoteError(
                f"the server at {self.url} has another version of the HTTP interface: expected {CONTRACT_VERSION}, "
                f"got {version or 'none'}",
                code="contract_mismatch",
                kind=ErrorKind.CONFLICT,
                hint="The write was applied. Install the release of Omnigraph that the server runs.",
            )
            failure.applied = Applied.YES
            raise failure

    def _make_response_error(self, request: HttpRequest, response: urllib3.BaseHTTPResponse) -> OmnigraphError:
        """Return the error that a response describes."""
        try:
            document = msgspec.json.decode(response.data, type=dict[str, Any])
            message = str(document.pop("error"))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, HTTPError):
            failure = RemoteError(
                f"the server at {self.url} answered {request.method} {request.path} with status {response.status} and "
                "without an error document of Omnigraph",
                code="server_answer",
                kind=KINDS_OF_STATUSES.get(response.status, ErrorKind.INTERNAL),
                hint="Pass the address of the service root, with the prefix of a proxy if it has one.",
            )
            if request.is_write and response.status >= 500:
                failure.applied, failure.advice = Applied.UNKNOWN, _UNKNOWN_ADVICE
            return failure
        if response.status == 401 and "Authorization" not in self._headers:
            return RemoteError(
                f"the server at {self.url} requires a token",
                code="credentials_missing",
                kind=ErrorKind.UNAUTHORIZED,
                hint="Run `omnigraph login NAME` for a server of the operator file, or set OMNIGRAPH_BEARER_TOKEN.",
            )
        return error_of_document(message, document, response.status)

    def decode(self, request: HttpRequest, body: bytes, kind: type[Document]) -> Document:
        """Return the document of a response; raise if it is not a document of this type."""
        try:
            return decode_json(body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            failure = RemoteError(
                f"the server at {self.url} answered {request.method} {request.path} with an unexpected "
                f"document: {error}",
                code="server_answer",
                kind=ErrorKind.INTERNAL,
                hint="Install the release of Omnigraph that the server runs.",
            )
            if request.is_write:
                failure.applied, failure.advice = Applied.UNKNOWN, _UNKNOWN_ADVICE
            raise failure from error

    def _make_unreachable_error(self, request: HttpRequest, error: HTTPError) -> RemoteError:
        cause = error.__cause__  # the text of urllib3's own error begins with the representation of a connection
        reason = " ".join((getattr(cause, "strerror", None) or str(cause or error)).split())[:200]
        failure = RemoteError(
            f"the server at {self.url} did not answer {request.method} {request.path}: {reason}",
            code="server_unreachable",
            kind=ErrorKind.UNAVAILABLE,
            hint="Check the address, and that the server runs.",
        )
        if request.is_write and isinstance(error, _NOT_CONNECTED):
            failure.applied = Applied.NO
        elif request.is_write:
            failure.applied, failure.advice = Applied.UNKNOWN, _UNKNOWN_ADVICE
        return failure


_NOT_CONNECTED: Final = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_UNKNOWN_ADVICE: Final = hint("It is unknown whether the write was applied: run {} first.", action("commit list"))


def normalize_url(url: str) -> str:
    """Return the address of a server without a slash at its end; raise if it is not one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UsageError(
            f"invalid server address: expected http://HOST:PORT or https://HOST, got '{url}'",
            code="server_unknown",
            hint="Pass the service root, with the prefix of a proxy if it has one.",
        )
    return url.rstrip("/")


def require_secure(url: str) -> None:
    """Raise if a token would be sent unencrypted over a network."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(
            f"the token would be sent unencrypted to {parts.hostname}",
            code="token_unencrypted",
            hint=hint("Use https, or pass {} to send it anyway.", Argument("insecure")),
        )


def _pause_seconds(response: urllib3.BaseHTTPResponse, attempt: int) -> float:
    after = response.headers.get("Retry-After", "")
    return min(float(after) if after.isdecimal() else attempt * _PAUSE_SECONDS, _PAUSE_SECONDS_MAX)


def _parameter_texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _parameter_texts(item)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value)]
