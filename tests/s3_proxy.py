"""A loopback proxy to the S3 server that loses responses, and fails or holds selected requests.

A `Fault` has a method, a pattern of the path and which of the matching requests it affects. Everything is bounded:
connections time out, and a fault acts a limited number of times. The proxy runs in the process of the test, so a Lance
call that does not release the interpreter while it waits for the store would wait forever.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from omnigraph.storage.location import Location, parse_location
from tests.conftest import S3Server
from tests.waiting import SECONDS_MAX

_YEAR: Final = re.compile(rb"<LastModified>\d{4}")
_PER_HOP: Final = ("host", "connection", "transfer-encoding", "content-length")


class Mode(Enum):
    """What happens to a request."""

    DROP_RESPONSE = "the server applies it, and the connection closes without a response"
    FAIL = "the server never gets it, and the response is 500"
    FORBID = "the server never gets it, and the response is 403"
    FAIL_APPLIED = "the server applies it, and the response is 500"
    HOLD = "the server gets it when the gate is opened"
    REFUSE = "the server never gets it, and the connection closes without a response"


@dataclass(slots=True)
class Fault:
    """Acts on the matching requests from the `first_hit`-th on, `times` times. An empty `method` is any.

    `acted` are the affected requests, `passed` those of them to which the server has responded.
    """

    mode: Mode
    path: str
    method: str = "PUT"
    first_hit: int = 1
    times: int = 1
    gate: threading.Event = field(default_factory=threading.Event)
    hits: int = 0
    acted: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)

    def takes(self, method: str, path: str) -> bool:
        if self.method not in ("", method) or re.search(self.path, path) is None:
            return False
        self.hits += 1
        is_now = self.first_hit <= self.hits < self.first_hit + self.times
        if is_now:
            self.acted.append(path)
        return is_now


class S3Proxy:
    """Forwards every request to the server, except those that a fault affects."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.is_old = False  # whether everything in the store looks years old
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def location(self, prefix: str, **settings: str) -> Location:
        """Return a location behind the proxy. `settings` are Lance's, such as `client_max_retries`."""
        options = {**self.server.options, "aws_endpoint": self.endpoint, **settings}
        return parse_location(f"s3://{self.server.bucket}/{prefix}", options)

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[Fault]:
        """Enable the fault within the block."""
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    @contextmanager
    def running(self) -> Iterator[S3Proxy]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join(SECONDS_MAX)

    def fault_for(self, method: str, path: str) -> Fault | None:
        with self._lock:
            return next((fault for fault in self._faults if fault.takes(method, path)), None)


def _handler(proxy: S3Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = SECONDS_MAX

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fault = proxy.fault_for(self.command, self.path)
            mode = None if fault is None else fault.mode
            if mode is Mode.REFUSE:
                self.close_connection = True
                return
            if mode in (Mode.FAIL, Mode.FORBID):
                self._answer(500 if mode is Mode.FAIL else 403, [], b"")
                return
            if fault is not None and mode is Mode.HOLD:
                fault.gate.wait(SECONDS_MAX)
            answer, content = self._forward(body)
            if fault is not None:
                fault.passed.append(self.path)
            if mode is Mode.DROP_RESPONSE:
                self.close_connection = True
            elif mode is Mode.FAIL_APPLIED:
                self._answer(500, [], b"")
            else:
                self._answer(answer.status, answer.getheaders(), content)

        def _forward(self, body: bytes) -> tuple[HTTPResponse, bytes]:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
            host = proxy.server.endpoint.removeprefix("http://")
            connection = HTTPConnection(host, timeout=SECONDS_MAX)
            try:
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                content = answer.read()
                return answer, _YEAR.sub(b"<LastModified>2020", content) if proxy.is_old else content
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            size = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length":
                    size = value
                elif name.lower() not in _PER_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", size)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

    return Handler
