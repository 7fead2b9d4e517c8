"""The best common ancestors of live branches, also in criss-cross histories."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash
from omnigraph.graph.manifest.lineage import all_merge_bases, merge_bases
from omnigraph.graph.manifest.records import CommitRecord, Pin, WriteOperation

Parents = Mapping[str, tuple[str, ...]]


def records(parents: Parents) -> dict[CommitId, CommitRecord]:
    return {
        CommitId(name): CommitRecord(
            id=CommitId(name),
            parent=CommitId(parents_of_commit[0]) if parents_of_commit else None,
            merged_parent=CommitId(parents_of_commit[1]) if len(parents_of_commit) > 1 else None,
            branch="main",
            branch_id=BranchId("m"),
            actor="a",
            operation=WriteOperation.LOAD,
            operation_id=OperationId("o"),
            created_us=0,
            manifest_hint=Pin(None, 1),
            tables=(),
            counts={},
            schema_hash=SchemaHash("h"),
        )
        for name, parents_of_commit in parents.items()
    }


def bases(heads: str, parents: Parents) -> set[str]:
    return set(all_merge_bases([CommitId(head) for head in heads], records(parents)))


LINE: Parents = {"1": (), "2": ("1",), "3": ("2",), "4": ("3",)}


@pytest.mark.parametrize(
    ("heads", "parents", "expected"),
    [
        ("4", LINE, set()),
        ("42", LINE, {"2"}),
        ("ab", {**LINE, "a": ("2",), "b": ("4",)}, {"2"}),
        ("abc", {**LINE, "a": ("2",), "b": ("3",), "c": ("4",)}, {"2", "3"}),
        ("am", {"1": (), "a": ("1",), "m": ("1", "a")}, {"a"}),
        ("xy", {"1": (), "a": ("1",), "b": ("1",), "x": ("a", "b"), "y": ("b", "a")}, {"a", "b", "1"}),
        ("mc", {"1": (), "a": ("1",), "m": ("1", "a"), "c": ("1", "a")}, {"a"}),
        ("ab", {"a": ("missing",), "b": ("missing",)}, set()),
    ],
    ids=["one", "behind", "fork", "three", "merged", "criss_cross", "through_a_deleted_branch", "unknown_parent"],
)
def test_bases(heads: str, parents: Parents, expected: set[str]) -> None:
    assert bases(heads, parents) == expected


@given(st.data())
def test_bases_match_the_definition(data: st.DataObject) -> None:
    """Compare with the definition: a common ancestor of two that is not a proper ancestor of another one."""
    parents: dict[str, tuple[str, ...]] = {}
    for number in range(data.draw(st.integers(2, 9))):
        earlier = st.sampled_from(sorted(parents)) if parents else st.nothing()
        of = data.draw(st.lists(earlier, max_size=2, unique=True)) if parents else []
        parents[str(number)] = tuple(of)
    heads = data.draw(st.lists(st.sampled_from(sorted(parents)), min_size=2, max_size=4, unique=True))
    above = {name: _ancestors(parents, name) for name in parents}
    expected: set[str] = set()
    size = -1
    while len(expected) > size:
        size = len(expected)
        sides = {*heads, *expected}
        for commit in sides:
            for other in sides - {commit}:
                common = above[commit] & above[other]
                expected |= {c for c in common if not any(c in above[d] - {d} for d in common)}
    assert bases("".join(heads), parents) == expected
    ours, theirs = (set(half) for half in (heads[: len(heads) // 2], heads[len(heads) // 2 :]))
    common = set[str]().union(*(above[commit] for commit in ours)) & set[str]().union(
        *(above[commit] for commit in theirs)
    )
    best = {c for c in common if not any(c in above[d] - {d} for d in common)}
    tips = [[CommitId(commit) for commit in side] for side in (ours, theirs)]
    assert set(merge_bases(tips[0], tips[1], records(parents))) == best


def _ancestors(parents: Parents, name: str) -> set[str]:
    return {name}.union(*(_ancestors(parents, parent) for parent in parents[name]))
