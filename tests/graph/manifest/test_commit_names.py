"""A commit is named by `HEAD`, by its id, or by enough of the beginning or the end of it; never by a guess."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import name_commit
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.storage.location import Location

FIRST = CommitId("01KA1F0Z5Q8W9V3N7R2T4Y6B8D")
SECOND = CommitId("01KA1F0Z5R0000000000006B8D")
HEAD = CommitId("01KA1F1B7C3D9E5F1G7H3J9K5M")
IDS = (FIRST, SECOND, HEAD)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("HEAD", HEAD),
        (FIRST, FIRST),
        (FIRST.lower(), FIRST),
        ("01KA1F1", HEAD),
        ("01ka1f0z5q", FIRST),
        ("9k5m", HEAD),
        ("Y6B8D", FIRST),
        # What is no commit stays as it was typed, for the message of whoever asked.
        ("head", "head"),
        ("K5M", "K5M"),
        ("1F1B", "1F1B"),
        ("review/1", "review/1"),
        ("01KA1F0Z5Q8W9V3N7R2T4Y6B8X", "01KA1F0Z5Q8W9V3N7R2T4Y6B8X"),
    ],
)
def test_what_a_text_means(text: str, meant: str) -> None:
    assert name_commit(text, HEAD, lambda: IDS) == meant


@pytest.mark.parametrize(
    ("text", "candidates"), [("01KA1F", [HEAD, SECOND, FIRST]), ("6b8d", [SECOND, FIRST])]
)
def test_several_commits_are_listed_newest_first(text: str, candidates: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        name_commit(text, HEAD, lambda: IDS)
    assert (caught.value.code, caught.value.facts["candidates"]) == ("commit_ambiguous", candidates)
    assert all(one in caught.value.message for one in candidates)


def test_a_whole_id_reads_nothing() -> None:
    def never() -> tuple[CommitId, ...]:
        raise AssertionError("the ids are not needed")

    assert [name_commit(text, HEAD, never) for text in (FIRST, "HEAD", "a", "a-b-c")] == [
        FIRST, HEAD, "a", "a-b-c",
    ]  # fmt: skip


def test_every_call_that_takes_a_commit_takes_a_part_of_its_id(local_location: Location) -> None:
    graph = og.init(local_location.uri, "node P { k: String @key }")
    first = graph.mutate('query a() { insert P { k: "a" } }').commit
    branch = graph.create_branch("b", from_="main")
    there = branch.mutate('query b() { insert P { k: "b" } }').commit
    assert first is not None
    assert there is not None
    tail, other = first.id[-10:], there.id[-10:].lower()
    assert (
        graph.get_commit(tail).id
        == graph.get_commit("HEAD").id
        == graph.snapshot(as_of=tail).head
        == first.id
    )
    assert branch.snapshot(as_of=other).head == branch.get_commit("HEAD").id == there.id
    assert [change.id for change in graph.diff(tail)] == ["a"]
    assert [change.id for change in graph.diff("HEAD", other)] == ["b"]
    assert read_reference(local_location, other).head == there.id
    assert next(iter(branch.changes(tail).commits)).commit.id == there.id
    assert branch.changes("HEAD").cursor == there.id
    assert graph.create_branch("c", from_=other).snapshot().head == there.id
    assert branch.revert("HEAD", dry_run=True).source == there.id
    for call in (graph.get_commit, lambda name: graph.snapshot(as_of=name), graph.revert):
        with pytest.raises(OmnigraphError, match=f"there is no commit {other} on branch main"):
            call(other)
    with pytest.raises(UsageError) as caught:
        graph.mutate('query a() { insert P { k: "c" } }', if_commit=tail)
    assert caught.value.code == "commit_id_partial"
