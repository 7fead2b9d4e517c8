"""A loopback proxy to the S3 server that can lose the response to an applied write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from omnigraph.storage.location import Location, parse_location
from tests.conftest import S3Server
from tests.waiting import SECONDS_MAX

_PER_HOP = ("host", "connection", "transfer-encoding", "content-length")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Losses:
    """The responses to lose, and the paths of lost ones. Only the first match of a path is lost."""

    method: str
    part: str
    paths: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.paths)

    def takes(self, method: str, path: str) -> bool:
        if method != self.method or self.part not in path or path in self.paths:
            return False
        self.paths.add(path)
        return True


class LossyProxy:
    """Forwards every request; within `losing_answers` the first response per matching path is a 500."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._losses: Losses | None = None
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def location(self, prefix: str, **settings: str) -> Location:
        options = {**self._server.options, "aws_endpoint": self.endpoint, **settings}
        return parse_location(f"s3://{self._server.bucket}/{prefix}", options)

    @contextmanager
    def losing_answers(self, method: str, part: str) -> Iterator[Losses]:
        self._losses = Losses(method, part)
        try:
            yield self._losses
        finally:
            self._losses = None

    @contextmanager
    def running(self) -> Iterator[LossyProxy]:
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join(SECONDS_MAX)

    def forward(self, request: Request) -> Answer:
        """Return the server's response, or a 500 instead."""
        connection = HTTPConnection(self._server.endpoint.removeprefix("http://"), timeout=SECONDS_MAX)
        try:
            connection.request(request.method, request.path, request.body or None, request.headers)
            response = connection.getresponse()
            answer = Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()
        if self._losses and 200 <= answer.status < 300 and self._losses.takes(request.method, request.path):
            return Answer(500, {}, b"")
        return answer


def _handler(proxy: LossyProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
            answer = proxy.forward(Request(self.command, self.path, headers, body))
            self.send_response_only(answer.status)
            size = str(len(answer.body))
            for name, value in answer.headers.items():
                if name.lower() == "content-length":
                    size = value
                elif name.lower() not in _PER_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", size)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815

    return Handler
