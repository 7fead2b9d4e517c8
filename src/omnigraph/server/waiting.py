"""Requests that wait for a commit, without a thread of their own.

Waiting requests of one branch share one look at its head per interval. A server that ends answers them at once.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind
from omnigraph.server.admission import run_in_thread
from omnigraph.server.errors import RequestError

if TYPE_CHECKING:
    from omnigraph.client.local import LocalGraph
    from omnigraph.client.paging import FeedWait

_LOOK_SECONDS: Final = 0.5


class Waiting:
    """The requests that wait, and the newest head of each branch that they wait for."""

    def __init__(self) -> None:
        self._waiting = 0
        self._heads: dict[tuple[str, str], tuple[float, str]] = {}
        self._is_ending = asyncio.Event()

    @property
    def count(self) -> int:
        """How many requests wait."""
        return self._waiting

    def end(self) -> None:
        """Let every request continue: the server ends."""
        self._is_ending.set()

    async def wait(self, graph: LocalGraph, wait: FeedWait) -> None:
        """Return when the head of a branch is another commit, or after some seconds."""
        if self._waiting >= limits.SERVER_WAITING_MAX:
            raise RequestError(
                f"{limits.SERVER_WAITING_MAX} requests are already waiting for a commit",
                code="server_busy",
                kind=ErrorKind.UNAVAILABLE,
                hint="Repeat the request later, or without `wait`.",
            )
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait.seconds, limits.SERVER_WAIT_SECONDS_MAX)):
                    while not self._is_ending.is_set() and await self._read_head(graph, wait.branch) == wait.head:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(self._is_ending.wait(), _LOOK_SECONDS)
        finally:
            self._waiting -= 1

    async def _read_head(self, graph: LocalGraph, branch: str) -> str:
        key = (graph.uri, branch)
        now = time.monotonic()
        looked, head = self._heads.get(key, (0.0, ""))
        if now - looked < _LOOK_SECONDS and head:
            return head
        if head:
            self._heads[key] = (now, head)  # other requests use the old head while this one looks
        head = await run_in_thread(lambda: graph.head(branch))
        self._heads[key] = (time.monotonic(), head)
        return head
