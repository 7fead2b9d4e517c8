"""Commits, feeds, branches and times as values of Python, and what a traceback shows."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pytest

import omnigraph as og


def test_feed_is_a_sequence(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    graph.mutate('query add() { insert P { k: "a" } }')
    feed = graph.changes()
    assert (len(feed), feed[0], feed[-1:]) == (2, feed.commits[0], feed.commits[1:])
    changes = feed[1].changes
    assert [change.id for change in changes] == [change.id for change in changes] == ["a"]
    assert repr(changes).splitlines()[0] == "EntityChanges"
    assert isinstance(changes, Sequence)
    assert (len(changes), changes[0].id, changes[-1:][0].id, bool(changes)) == (1, "a", "a", True)
    assert (len(graph.diff("HEAD", "main")), bool(graph.diff("HEAD", "main"))) == (0, False)
    assert "<td>node:P</td><td>a</td><td>inserted</td>" in changes._repr_html_()


def test_changes_are_read_once_if_they_are_kept() -> None:
    names = ("a", "b", "c")
    reads: list[int] = []

    def read() -> Iterator[og.types.EntityChange]:
        reads.append(0)
        for name in names:
            reads[-1] += 1
            yield og.types.EntityChange(
                table="node:P",
                table_id="T",
                id=name,
                kind=og.types.ChangeKind.INSERTED,
                before=None,
                after={},
                properties=(),
            )

    changes = og.types.EntityChanges(read)
    assert (bool(changes), next(iter(changes)).id, reads) == (True, "a", [1, 1])
    assert [change.id for change in changes] == [change.id for change in changes] == [*names]
    assert reads == [1, 1, 3, 3]
    assert [change.id for change in list(changes)] == [change.id for change in changes[::-1]][::-1] == [*names]
    assert (len(changes), changes.index(changes[1]), reads) == (3, 1, [1, 1, 3, 3, 3])


def test_one_operation_has_one_type(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    (commit,) = graph.log()
    assert commit.operation is og.types.WriteOperation("init") is og.types.WriteOperation.INIT
    assert str(commit.operation) == "init"
    later = og.types.WriteOperation("tag")
    assert (later, later.value, str(later), copy.copy(later)) == ("tag", "tag", "tag", later)
    assert "tag" not in list(og.types.WriteOperation)


def test_as_of_text(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    first = graph.log()[0]
    assert graph.snapshot("2999-12-31").head == graph.snapshot(date(2999, 12, 31)).head == first.id
    assert graph.snapshot(first.created_at.isoformat()).head == first.id
    with pytest.raises(og.NotFoundError, match="has no commit at or before that time"):
        graph.snapshot("2020-01-01")
    with pytest.raises(og.NotFoundError, match="has no commit at or before that time"):
        graph.snapshot(date(2020, 1, 1))
    for text in ("2999-12-31T12:00", "2999-13-01", "2999-12-31T12:00:00Zulu"):
        with pytest.raises(og.UsageError, match="invalid time: expected RFC 3339 with an offset or a date"):
            graph.snapshot(text)


def test_create_an_existing_branch(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    review = graph.create_branch("review", exist_ok=True)
    review.mutate('query add() { insert P { k: "a" } }')
    assert graph.create_branch("review", exist_ok=True).snapshot().head == review.snapshot().head
    with pytest.raises(og.ConflictError, match="review"):
        graph.create_branch("review")


def test_traceback_has_the_hint_once(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    for call in (lambda: graph.checkout("nope"), lambda: graph.query("query q() { match { $p: Q } return { $p.k } }")):
        with pytest.raises(og.OmnigraphError) as caught:
            call()
        text = "".join(traceback.format_exception(caught.value))
        assert caught.value.hint
        assert text.count(caught.value.hint) == str(caught.value).count(caught.value.hint) == 1
