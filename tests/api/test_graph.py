"""An open graph: the actor of its writes, and what a read-only graph can do."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person { slug: String @key }"
ADD = "query add($slug: String) { insert Person { slug: $slug } }"


def test_actor_of_an_open_graph_writes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, actor="ada")
    graph.create_branch("b", from_="main").mutate(ADD, params={"slug": "a"})
    opened = og.open(tmp_path / "g", actor="eve")
    opened.merge("b")
    opened.apply_schema("node Person { slug: String @key  age: I32? }")
    opened.revert(opened.mutate(ADD, params={"slug": "b"}, actor="bob").commit.id)  # type: ignore[union-attr]
    assert [commit.actor for commit in opened.log(None)] == ["eve", "bob", "eve", "eve", "ada"]
    assert [commit.actor for commit in opened.checkout("b").log(None)] == ["ada", "ada"]
    assert [status.record.creator for status in opened.list_branches()] == ["ada", "ada"]


def test_read_only_graph_shows_the_result_of_a_merge(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.create_branch("b", from_="main").mutate(ADD, params={"slug": "a"})
    reading = og.open(tmp_path / "g", read_only=True)
    assert [table.inserted for table in reading.merge("b", dry_run=True).tables] == [1]
    undone = reading.checkout("b").revert("HEAD", dry_run=True)
    assert ([table.table for table in undone.tables], undone.commit) == (["node:Person"], None)
    with pytest.raises(og.UsageError, match="read-only"):
        reading.merge("b")
    with pytest.raises(og.UsageError, match="read-only"):
        reading.checkout("b").revert("HEAD")
