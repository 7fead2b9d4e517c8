"""A pool of threads waits for all of them, also if an interrupt arrives while they start."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from omnigraph.base.threads import thread_pool
from tests.waiting import wait_until


def test_no_task_runs_after_an_interrupted_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start, count = threading.Thread.start, 0

    def start_and_interrupt(thread: threading.Thread) -> None:
        nonlocal count
        start(thread)
        count += 1
        if count == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    results: list[int] = []
    with suppress(KeyboardInterrupt), thread_pool(4, "interrupted") as threads:
        for number in range(4):
            threads.submit(results.append, number)
    assert (count, results) == (2, [])
    wait_until(lambda: not any("interrupted" in thread.name for thread in threading.enumerate()), "its threads ended")


def test_results_are_complete_at_the_end() -> None:
    with thread_pool(3) as threads:
        futures = [threads.submit(pow, number, 2) for number in range(20)]
    assert [future.result() for future in futures] == [number**2 for number in range(20)]
