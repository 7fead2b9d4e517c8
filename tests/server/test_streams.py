"""Streams over real sockets: bounded memory, slow readers, failures before and after the first chunk, too many at once.

The producers are functions of the tests, so that they can be endless or fail at a chosen byte.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, IncompleteRead
from typing import Any, BinaryIO

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from omnigraph.base import limits
from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.server.admission import Lane
from omnigraph.server.streams import NdjsonStream
from tests.waiting import SECONDS_MAX, wait_until

BLOCK = b"x" * 65_535 + b"\n"
AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""The queue of the stream, the buffers of the framework and those of the sockets of this machine."""


@dataclass
class Producer:
    """Writes blocks, endlessly or until it fails; `has_ended` says that its thread is free."""

    fails_after: int | None = None
    written: int = 0
    has_ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, stream: BinaryIO) -> None:
        try:
            while self.fails_after is None or self.written < self.fails_after:
                stream.write(BLOCK)
                self.written += len(BLOCK)
            raise NotFoundError("a file is missing", code="file_missing")
        finally:
            self.has_ended.set()


@contextmanager
def serve_streams(make: Callable[[], Callable[[BinaryIO], None]], places: int = 2) -> Iterator[str]:
    """Serve a stream at `/stream` and nothing at `/empty`."""
    lane = Lane("stream", places, 0.05)

    async def stream(_: Any) -> Response:
        return NdjsonStream(lane, make())

    async def empty(_: Any) -> Response:
        return Response(b"")

    async def fail(_: Any, error: Exception) -> Response:
        assert isinstance(error, OmnigraphError)
        return Response(error.code, 404 if isinstance(error, NotFoundError) else 503)

    handlers: Any = {OmnigraphError: fail}
    app = Starlette(routes=[Route("/stream", stream), Route("/empty", empty)], exception_handlers=handlers)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http="httptools", lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server listens")
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SECONDS_MAX)


def request(address: str, path: str) -> tuple[HTTPConnection, Any]:
    connection = HTTPConnection(address, timeout=SECONDS_MAX)
    connection.request("GET", path)
    return connection, connection.getresponse()


def get(address: str, path: str) -> tuple[int, bytes]:
    connection, response = request(address, path)
    with connection_closed(connection):
        return response.status, response.read()


@contextmanager
def connection_closed(connection: HTTPConnection) -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


def test_a_slow_reader_slows_the_producer_and_delays_no_other() -> None:
    producer = Producer()
    with serve_streams(lambda: producer) as address:
        connection, response = request(address, "/stream")
        with connection_closed(connection):
            assert response.status == 200
            assert len(response.read(1_000_000)) == 1_000_000
            for _ in range(50):
                assert get(address, "/empty") == (200, b"")
            assert producer.written < AHEAD_BYTES_MAX
            assert not producer.has_ended.is_set()
        response.close()
        assert producer.has_ended.wait(SECONDS_MAX), "a closed connection ends the producer"


def test_a_failure_after_the_first_chunk_makes_the_read_fail() -> None:
    with serve_streams(lambda: Producer(fails_after=1_000_000)) as address:
        connection, response = request(address, "/stream")
        with connection_closed(connection):
            assert response.status == 200
            with pytest.raises(IncompleteRead):
                response.read()


def test_a_failure_before_the_first_chunk_is_an_error() -> None:
    with serve_streams(lambda: Producer(fails_after=0)) as address:
        assert get(address, "/stream") == (404, b"file_missing")


def test_a_stream_above_the_number_of_places_is_rejected() -> None:
    producers: list[Producer] = []

    def make() -> Producer:
        producers.append(Producer())
        return producers[-1]

    with serve_streams(make, places=2) as address:
        open_streams = [request(address, "/stream") for _ in range(2)]
        assert [response.status for _, response in open_streams] == [200, 200]
        assert get(address, "/stream") == (503, b"server_busy")
        for connection, response in open_streams:
            connection.close()
            response.close()
        assert all(producer.has_ended.wait(SECONDS_MAX) for producer in producers[:2])
        connection, response = request(address, "/stream")
        assert response.status == 200
        connection.close()
        response.close()


def test_a_stream_without_a_reader_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_STREAM_IDLE_SECONDS_MAX", 0.05)
    producer = Producer()
    with serve_streams(lambda: producer) as address:
        connection, response = request(address, "/stream")
        assert response.status == 200
        assert producer.has_ended.wait(SECONDS_MAX), "the producer waits forever for its reader"
        with connection_closed(connection), pytest.raises((IncompleteRead, ConnectionError)):
            response.read()
