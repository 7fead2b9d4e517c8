"""How many requests run at once: threads for reads and writes, streams, and changes per actor.

A request waits a short time for a place and is then rejected, so that a busy server answers quickly that it is busy.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind
from omnigraph.server.errors import RequestError

Work = TypeVar("Work")
_UNLIMITED: Final = anyio.CapacityLimiter(math.inf)


class Lane:
    """A number of threads for one kind of request."""

    def __init__(self, name: str, places: int, wait_seconds: float) -> None:
        self.name = name
        self._limiter = anyio.CapacityLimiter(places)
        self._wait_seconds = wait_seconds

    @property
    def running(self) -> int:
        """How many requests run."""
        return self._limiter.borrowed_tokens

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place; raise if none becomes free in time."""
        holder = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(holder)  # without a timer, which most requests do not need
        except anyio.WouldBlock:
            await self._wait_for_place(holder)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(holder)

    async def _wait_for_place(self, holder: object) -> None:
        with anyio.move_on_after(self._wait_seconds) as waiting:
            await self._limiter.acquire_on_behalf_of(holder)
        if waiting.cancelled_caught:
            raise RequestError(
                f"the server is busy: {self._limiter.total_tokens:g} requests of kind '{self.name}' are running",
                code="server_busy",
                kind=ErrorKind.UNAVAILABLE,
                hint="Repeat the request later.",
            )

    async def run(self, work: Callable[[], Work]) -> Work:
        """Run a function in a thread. It completes even if the request ends."""
        async with self.place():
            return await run_in_thread(work)


async def run_in_thread(work: Callable[[], Work]) -> Work:
    """Run a function in a thread; the lanes limit how many run."""
    return await anyio.to_thread.run_sync(work, limiter=_UNLIMITED)


class Admission:
    """The lanes of a server, and the running changes of each actor."""

    def __init__(self) -> None:
        cores = os.cpu_count() or 1
        low, high = limits.SERVER_READ_THREADS_MIN, limits.SERVER_READ_THREADS_MAX
        self.read_threads = min(max(2 * cores, low), high)
        self.reads = Lane("read", self.read_threads, limits.SERVER_THREAD_WAIT_SECONDS)
        self.writes = Lane("write", limits.SERVER_WRITE_THREADS, limits.SERVER_THREAD_WAIT_SECONDS)
        self.streams = Lane("stream", limits.SERVER_STREAMS, limits.SERVER_STREAM_WAIT_SECONDS)
        self._changes: Counter[str] = Counter()
        self._changes_max = int(os.environ.get("OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", limits.SERVER_CHANGES_PER_ACTOR))

    @asynccontextmanager
    async def change(self, actor: str) -> AsyncIterator[None]:
        """Count a running change of an actor; raise if there are too many."""
        if self._changes[actor] >= self._changes_max:
            raise RequestError(
                f"actor '{actor}' has {self._changes_max} running changes, which is the maximum",
                code="too_many_changes",
                kind=ErrorKind.TOO_MANY_REQUESTS,
                hint="Wait for some of them to end.",
                facts={"resource_limit": {"resource": "changes", "limit": self._changes_max, "unit": "requests"}},
            )
        self._changes[actor] += 1
        try:
            yield
        finally:
            self._changes[actor] -= 1
