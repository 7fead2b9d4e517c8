"""Commits are named by `HEAD`, by their id, or by the beginning or end of it. Ambiguous names are an error."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import resolve_commit
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.storage.location import Location

FIRST = CommitId("01KA1F0Z5Q8W9V3N7R2T4Y6B8D")
SECOND = CommitId("01KA1F0Z5R0000000000006B8D")
HEAD = CommitId("01KA1F1B7C3D9E5F1G7H3J9K5M")
IDS = (FIRST, SECOND, HEAD)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HEAD", HEAD),
        (FIRST, FIRST),
        (FIRST.lower(), FIRST),
        ("01KA1F1", HEAD),
        ("01ka1f0z5q", FIRST),
        ("9k5m", HEAD),
        ("Y6B8D", FIRST),
        # Text that matches no commit is returned unchanged, for messages.
        ("head", "head"),
        ("K5M", "K5M"),
        ("1F1B", "1F1B"),
        ("review/1", "review/1"),
        ("01KA1F0Z5Q8W9V3N7R2T4Y6B8X", "01KA1F0Z5Q8W9V3N7R2T4Y6B8X"),
    ],
)
def test_resolve_commit(text: str, expected: str) -> None:
    assert resolve_commit(text, HEAD, lambda: IDS) == expected


@pytest.mark.parametrize(("text", "candidates"), [("01KA1F", [HEAD, SECOND, FIRST]), ("6b8d", [SECOND, FIRST])])
def test_several_commits_are_listed_newest_first(text: str, candidates: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_commit(text, HEAD, lambda: IDS)
    assert (caught.value.code, caught.value.facts["candidates"]) == ("commit_ambiguous", candidates)
    assert all(candidate in caught.value.message for candidate in candidates)


def test_full_id_reads_no_ids() -> None:
    def never() -> tuple[CommitId, ...]:
        raise AssertionError("the ids are not needed")

    assert [resolve_commit(text, HEAD, never) for text in (FIRST, "HEAD", "a", "a-b-c")] == [
        FIRST, HEAD, "a", "a-b-c",
    ]  # fmt: skip


def test_calls_accept_part_of_a_commit_id(local_location: Location) -> None:
    graph = og.init(local_location.uri, "node P { k: String @key }")
    first = graph.mutate('query a() { insert P { k: "a" } }').commit
    branch = graph.create_branch("b", from_="main")
    second = branch.mutate('query b() { insert P { k: "b" } }').commit
    assert first is not None
    assert second is not None
    tail, other = first.id[-10:], second.id[-10:].lower()
    assert graph.get_commit(tail).id == graph.get_commit("HEAD").id == graph.snapshot(as_of=tail).head == first.id
    assert branch.snapshot(as_of=other).head == branch.get_commit("HEAD").id == second.id
    assert [change.id for change in graph.diff(tail)] == ["a"]
    assert [change.id for change in graph.diff("HEAD", other)] == ["b"]
    assert read_reference(local_location, other).head == second.id
    assert next(iter(branch.changes(tail).commits)).commit.id == second.id
    assert branch.changes("HEAD").cursor == second.id
    assert graph.create_branch("c", from_=other).snapshot().head == second.id
    assert branch.revert("HEAD", dry_run=True).source == second.id
    for call in (graph.get_commit, lambda name: graph.snapshot(as_of=name), graph.revert):
        with pytest.raises(OmnigraphError, match=f"branch 'main' has no commit {other}"):
            call(other)
    with pytest.raises(UsageError) as caught:
        graph.mutate('query a() { insert P { k: "c" } }', if_commit=tail)
    assert caught.value.code == "commit_id_partial"
