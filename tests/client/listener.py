"""A listener on loopback that answers every request as a test says, and records what it received."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(slots=True)
class Received:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass(slots=True)
class Reply:
    """What the listener sends. `status` 0: it closes the connection without a response."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"Omnigraph-Http-Api": "0.13"})
    missing_bytes: int = 0
    """How many bytes of the body it does not send before it closes the connection."""


@dataclass(slots=True)
class Listener:
    """A running listener."""

    url: str
    received: list[Received]


@contextmanager
def listen(answer: Callable[[Received], Reply]) -> Iterator[Listener]:
    """Answer requests until the block ends."""
    received: list[Received] = []

    class AnswerHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            request = Received(self.command, self.path, dict(self.headers))
            received.append(request)
            reply = answer(request)
            if reply.status == 0:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body) + reply.missing_bytes)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = reply.missing_bytes > 0

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815  # the names in http.server

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), AnswerHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Listener(f"http://127.0.0.1:{server.server_address[1]}", received)
    finally:
        server.shutdown()
        server.server_close()
