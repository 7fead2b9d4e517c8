"""How many requests run at once: threads for reads and writes, streams, and changes per actor.

A request waits a short time for a place and is then rejected, so that a busy server answers quickly that it is busy.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind
from omnigraph.server.errors import RequestError

Work = TypeVar("Work")
_THREADS: Final = ThreadPoolExecutor(1_024, "omnigraph-request")
"""The threads of all requests, which start when they are first needed; the lanes limit how many run."""
_READ_THREADS: Final = ThreadPoolExecutor(2, "omnigraph-read")
"""The threads in which reads start: most are short, and more threads would compete for the lock of the interpreter."""
_QUEUED_SECONDS: Final = 0.005
"""How long a read waits for these threads, which longer reads may hold, before it gets another thread."""


class Lane:
    """A number of threads for one kind of request."""

    def __init__(self, name: str, places: int, wait_seconds: float, *, is_short: bool = False) -> None:
        self.name = name
        self.running = 0
        """How many requests run."""
        self._count = places
        self._places = asyncio.Semaphore(places)
        self._wait_seconds = wait_seconds
        self._is_short = is_short

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place; raise if none becomes free in time."""
        await self._take_place()
        try:
            yield
        finally:
            self._free_place()

    async def run(self, work: Callable[[], Work]) -> Work:
        """Run a function in a thread. It completes, and holds its place, even if the request ends."""
        await self._take_place()
        return await run_in_thread(work, self._free_place, is_short=self._is_short)

    async def _take_place(self) -> None:
        try:
            if self._places.locked():
                async with asyncio.timeout(self._wait_seconds):
                    await self._places.acquire()
            else:
                await self._places.acquire()  # without a timer, which most requests do not need
        except TimeoutError as error:
            raise RequestError(
                f"the server is busy: {self._count} requests of kind '{self.name}' are running",
                code="server_busy",
                kind=ErrorKind.UNAVAILABLE,
                hint="Repeat the request later.",
            ) from error
        self.running += 1

    def _free_place(self) -> None:
        self.running -= 1
        self._places.release()


async def run_in_thread(
    work: Callable[[], Work], ended: Callable[[], None] = lambda: None, *, is_short: bool = False
) -> Work:
    """Run a function in a thread, and call `ended` at its end, also if the caller is cancelled and does not wait."""
    loop = asyncio.get_running_loop()
    outcomes: list[asyncio.Future[Future[tuple[Work] | None]]] = [loop.create_future()]
    pending = [work]  # both are emptied: the slower of two pools may hold these functions for long

    def run() -> tuple[Work] | None:
        return (pending.pop()(),) if is_taken.acquire(blocking=False) else None

    def start(threads: ThreadPoolExecutor) -> None:
        threads.submit(run).add_done_callback(report)

    def report(done: Future[tuple[Work] | None]) -> None:
        if done.exception() is not None or done.result() is not None:
            loop.call_soon_threadsafe(finish, done)

    def end() -> None:
        ended()
        if timer is not None:
            timer.cancel()

    def finish(done: Future[tuple[Work] | None]) -> None:
        end()
        waited = outcomes.pop()
        if not waited.done():
            waited.set_result(done)  # not the error itself: a future of asyncio takes no StopIteration

    is_taken = threading.Lock()
    timer = loop.call_later(_QUEUED_SECONDS, start, _THREADS) if is_short else None
    try:
        start(_READ_THREADS if is_short else _THREADS)
    except RuntimeError:  # the system starts no more threads
        if is_taken.acquire(blocking=False):
            end()
        raise
    result = (await outcomes[0]).result()
    assert result is not None, "the thread that took the work reports its result"
    return result[0]


def end_threads() -> None:
    """Wait for the threads, also those of requests whose client disconnected; none starts again."""
    for threads in (_THREADS, _READ_THREADS):
        threads.shutdown()


class Admission:
    """The lanes of a server, and the running changes of each actor."""

    def __init__(self) -> None:
        cores = os.cpu_count() or 1
        low, high = limits.SERVER_READ_THREADS_MIN, limits.SERVER_READ_THREADS_MAX
        self.read_threads = min(max(2 * cores, low), high)
        self.reads = Lane("read", self.read_threads, limits.SERVER_THREAD_WAIT_SECONDS, is_short=True)
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
