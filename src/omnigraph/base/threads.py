"""Threads that a caller always waits for, also if Ctrl-C or SIGTERM interrupts it.

In: how many. Out: an executor. An executor of the standard library starts its threads while it takes tasks, and forgets
a thread if an interrupt arrives in between: the thread then writes files after the caller deleted them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager


@contextmanager
def thread_pool(count: int, name: str = "") -> Iterator[ThreadPoolExecutor]:
    """Start all threads before the first task; at the end, wait for every task."""
    all_started = threading.Barrier(count)
    with ThreadPoolExecutor(count, name) as threads:
        try:
            wait([threads.submit(all_started.wait) for _ in range(count)])
        except BaseException:
            all_started.abort()
            raise
        yield threads
