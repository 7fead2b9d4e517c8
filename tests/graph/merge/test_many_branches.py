"""Branches that processes write concurrently, merged one after the other while main is written: no change is lost.

Each process changes its own entities, one that every branch changes in the same way, and one that it shares with its
neighbour, so that the model knows where the conflicts are.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.merge.run import MergeRequest, MergeResult, merge_branch
from omnigraph.storage.location import Location
from tests.graph.merge.model import conflict_set, merge_states
from tests.graph.writers import KNOWS, PERSON, Change, Contents, apply, create, read_contents, run

ATTEMPTS_MAX = 60


def changes_of(number: int) -> list[tuple[Change, ...]]:
    """Return the commits of the process of a branch, in order."""
    own, shared = f"own{number}", f"shared{number // 2}"
    return [
        (Change(PERSON, upsert=((own, number), ("same", 7))), Change(KNOWS, upsert=((own, number),))),
        (Change(PERSON, upsert=((shared, number),)),),
        (Change(PERSON, delete=(f"old{number}",)), Change(KNOWS, delete=(f"old{number}",))),
    ]


def write_branch(location: Location, number: int) -> None:
    create_branch(location, f"b{number}", "tester", read_snapshot(location))
    for changes in changes_of(number):
        run(location, changes, branch=f"b{number}")


def write_main(location: Location, commits: int) -> None:
    for number in range(commits):
        run(location, [Change(PERSON, upsert=((f"main{number}", number),))])


def merge_patiently(location: Location, request: MergeRequest) -> MergeResult:
    """Merge and retry: main is written at the same time, so a merge may have to be planned again."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return merge_branch(location, request)
        except ReadSetConflictError:
            continue
    raise AssertionError("a merge never succeeded")


def check(location: Location, branches: int, commits: int) -> None:
    create(location)
    names = [f"old{number}" for number in range(branches)]
    run(location, [Change(table, upsert=tuple((name, 0) for name in names)) for table in (PERSON, KNOWS)])
    start = read_contents(location)
    expected: Contents = apply(start, [])
    conflicts = 0
    with ProcessPoolExecutor(branches + 1, mp_context=get_context("spawn")) as pool:
        written = [pool.submit(write_branch, location, number) for number in range(branches)]
        for future in written:
            future.result()
        busy = pool.submit(write_main, location, commits)
        for number in range(branches):
            branch = apply(start, [change for commit in changes_of(number) for change in commit])
            merged, model_conflicts = merge_states(start, expected, branch)
            request = MergeRequest(source=f"b{number}", actor="tester")
            if model_conflicts:
                conflicts += 1
                with pytest.raises(MergeConflictError) as caught:
                    merge_patiently(location, request)
                assert conflict_set(caught.value.conflicts) == model_conflicts
            else:
                assert merge_patiently(location, request).commit is not None
                expected = merged
        busy.result()
    expected = apply(expected, [Change(PERSON, upsert=tuple((f"main{n}", n) for n in range(commits)))])
    assert read_contents(location) == expected
    assert conflicts == branches // 2
    assert {table.pin.branch for table in read_snapshot(location).tables.values()} == {None}


def test_four_concurrent_branches(local_location: Location) -> None:
    check(local_location, 4, 6)


@pytest.mark.soak
def test_sixteen_concurrent_branches(durable_location: Location) -> None:
    check(durable_location, 16, 60)
