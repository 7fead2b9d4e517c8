"""A provider of vectors on loopback: answers like OpenAI or Gemini, with scripted faults, and counts its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from omnigraph.embedding.vectors import make_mock_vector

Fault = Callable[["ProviderHandler", dict[str, Any]], bool]
"""Answers a request in a wrong way and returns True, or returns False for the right answer."""


@dataclass
class ProviderServer:
    """A running provider: its address, what it received, and the faults of its next answers."""

    url: str
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [texts_of(body) for _, _, body in self.requests]


class ProviderHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    provider: ProviderServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.provider.requests.append((self.path, dict(self.headers), body))
        fault = self.provider.faults.pop(0) if self.provider.faults else self.provider.always
        with suppress(ConnectionError):  # the client has not waited for the answer
            if fault is None or not fault(self, body):
                self.answer(200, right_answer(body))

    def answer(self, status: int, document: Any, **headers: str) -> None:
        """Send a response."""
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name in the base class
        """Print nothing."""


def texts_of(body: dict[str, Any]) -> list[str]:
    if "input" in body:
        return list(body["input"])
    return [request["content"]["parts"][0]["text"] for request in body["requests"]]


def right_answer(body: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors of a request, longer than 1 and in another order than the texts."""
    texts = texts_of(body)
    size = body["dimensions"] if "input" in body else body["requests"][0]["outputDimensionality"]
    vectors = [(make_mock_vector(text, size) * 3).tolist() for text in texts]
    if "requests" in body:
        return {"embeddings": [{"values": vector} for vector in vectors]}
    rows = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"data": rows[::-1]}


def status(code: int, **headers: str) -> Fault:
    """Return a fault: a response with this status, whose body contains the key."""

    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        handler.answer(code, {"error": f"no {handler.headers['Authorization']}"}, **headers)
        return True

    return fault


def cut_off(handler: ProviderHandler, body: dict[str, Any]) -> bool:
    """Close the connection before the response is complete."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True
    return True


def drip(is_closed: threading.Event) -> Fault:
    """Return a fault: a response without an end, in single bytes, until the client closes the connection."""

    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not is_closed.wait(0.01):
                handler.wfile.write(b" ")
        except ConnectionError:
            is_closed.set()
        return True

    return fault


@contextmanager
def running_provider() -> Iterator[ProviderServer]:
    """Run a provider until the block ends."""
    handler = type("Handler", (ProviderHandler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    provider = ProviderServer(f"http://127.0.0.1:{server.server_port}/v1")
    handler.provider = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
