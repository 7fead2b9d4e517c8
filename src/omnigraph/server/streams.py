"""Streams: the lines of an export while they are produced, and reads that stop when their client disconnects.

A thread produces chunks into a short queue, so that a slow reader slows the producer and memory use is bounded. A
failure before the first chunk becomes an error response; a failure after it leaves the body incomplete, so that the
client notices.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Awaitable, Callable
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from omnigraph.base import limits
from omnigraph.server.admission import Lane, Work

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

_CHUNK_BYTES: Final = 64 * 1024
_QUEUED_CHUNKS: Final = 2
_UNWATCHED_SECONDS: Final = 0.02
"""How long a request runs before its connection is watched: most end before, and a task for each would cost time."""


async def run_until_disconnect(request: Request, cancelled: Event, work: Awaitable[Work]) -> Work:
    """Return the result of `work`; raise `ClientDisconnect` if the client disconnects first.

    `work` is then cancelled where it waits. A thread that it started ends by itself, because `cancelled` is set.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a request runs in a task"
    watching: list[asyncio.Task[None]] = []

    def cancel() -> None:
        cancelled.set()
        task.cancel()

    timer = loop.call_later(
        _UNWATCHED_SECONDS, lambda: watching.append(loop.create_task(_watch(request.receive, cancel)))
    )
    try:
        return await work
    except asyncio.CancelledError as error:
        if not cancelled.is_set():
            raise
        task.uncancel()
        raise ClientDisconnect from error
    finally:
        timer.cancel()
        for watcher in watching:
            watcher.cancel()


class NdjsonStream(Response):
    """The response to an export: lines of JSON, chunk by chunk."""

    media_type = "application/x-ndjson"

    def __init__(self, lane: Lane, produce: Callable[[BinaryIO], None]) -> None:
        super().__init__(None, 200, None, self.media_type)
        del self.headers["content-length"]
        self._lane = lane
        self._produce = produce
        self._is_started = False
        self._failure: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # the ASGI interface
        async with self._lane.place(), anyio.create_task_group() as tasks:
            sender, chunks = anyio.create_memory_object_stream[bytes](_QUEUED_CHUNKS)
            tasks.start_soon(_watch, receive, tasks.cancel_scope.cancel)
            tasks.start_soon(self._fill, sender)
            with chunks:
                await self._deliver(chunks, send)
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        await self._start(send)
        await send({"type": "http.response.body", "body": b""})

    async def _fill(self, sender: MemoryObjectSendStream[bytes]) -> None:
        """Produce the chunks until the client disconnects."""
        try:
            with sender:
                await anyio.to_thread.run_sync(
                    _write_chunks, self._produce, sender, limiter=anyio.CapacityLimiter(math.inf)
                )
        except anyio.BrokenResourceError:
            pass
        except Exception as failure:  # `__call__` raises it outside of the task group
            self._failure = failure

    async def _deliver(self, chunks: MemoryObjectReceiveStream[bytes], send: Send) -> None:
        try:
            async for chunk in chunks:
                await self._start(send)
                with anyio.fail_after(limits.SERVER_STREAM_IDLE_SECONDS_MAX):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError as failure:
            self._failure = failure

    async def _start(self, send: Send) -> None:
        if not self._is_started:
            self._is_started = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


async def _watch(receive: Receive, disconnected: Callable[[], None]) -> None:
    """Call a function when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected()


def _write_chunks(produce: Callable[[BinaryIO], None], sender: MemoryObjectSendStream[bytes]) -> None:
    with io.BufferedWriter(_ChunkWriter(sender), _CHUNK_BYTES) as writer:
        produce(cast("BinaryIO", writer))


class _ChunkWriter(io.RawIOBase):
    """A file whose bytes are sent to a queue in chunks. Writing waits while the queue is full."""

    def __init__(self, sender: MemoryObjectSendStream[bytes]) -> None:
        self._sender = sender

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        chunk = bytes(data[:_CHUNK_BYTES])
        anyio.from_thread.run(self._sender.send, chunk)
        return len(chunk)
