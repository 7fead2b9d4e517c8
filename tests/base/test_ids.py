"""New ULIDs, compared with the library python-ulid."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from ulid import ULID

from omnigraph.base.ids import crockford_text, new_ulid


def test_ulid_has_the_current_time() -> None:
    before = time.time_ns() // 1_000_000
    milliseconds = ULID.from_str(new_ulid()).milliseconds
    assert before <= milliseconds <= time.time_ns() // 1_000_000


def test_text_is_that_of_the_library() -> None:
    ulid = ULID()
    assert crockford_text(int(ulid), 26) == str(ulid)


def test_ulids_of_a_process_ascend() -> None:
    ulids = [new_ulid() for _ in range(10_000)]
    assert ulids == sorted(set(ulids))


def test_ulids_of_threads_are_different() -> None:
    with ThreadPoolExecutor(8) as pool:
        ulids = list(pool.map(lambda _: new_ulid(), range(10_000)))
    assert len(set(ulids)) == 10_000
