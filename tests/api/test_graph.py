"""What holds for a graph once it is open: who writes, and what it may do when it is for reading only."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person { slug: String @key }"
ADD = "query add($slug: String) { insert Person { slug: $slug } }"


def test_the_actor_of_an_open_graph_writes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, actor="ada")
    graph.create_branch("b", from_="main").mutate(ADD, params={"slug": "a"})
    opened = og.open(tmp_path / "g", actor="eve")
    opened.merge("b")
    opened.apply_schema("node Person { slug: String @key  age: I32? }")
    opened.revert(opened.mutate(ADD, params={"slug": "b"}, actor="bob").commit.id)  # type: ignore[union-attr]
    assert [commit.actor for commit in opened.log(None)] == ["eve", "bob", "eve", "eve", "ada"]
    assert [commit.actor for commit in opened.checkout("b").log(None)] == ["ada", "ada"]
    assert [status.record.creator for status in opened.list_branches()] == ["ada", "ada"]


def test_a_graph_for_reading_shows_what_a_merge_would_do(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.create_branch("b", from_="main").mutate(ADD, params={"slug": "a"})
    reading = og.open(tmp_path / "g", read_only=True)
    assert [table.inserted for table in reading.merge("b", dry_run=True).tables] == [1]
    undone = reading.checkout("b").revert("HEAD", dry_run=True)
    assert ([table.table for table in undone.tables], undone.commit) == (["node:Person"], None)
    with pytest.raises(og.UsageError, match="reading only"):
        reading.merge("b")
    with pytest.raises(og.UsageError, match="reading only"):
        reading.checkout("b").revert("HEAD")
