"""An export of any commit and the changes after it give the current state: no change is missing or duplicate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import read_log, read_log_names
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from tests.pipeline.exporting import export_here, lines
from tests.pipeline.in_place import in_place

SCHEMA = """\
node Person { slug: String @key  age: I64?  photo: Blob? }
edge Knows: Person -> Person { since: I64? }
"""

Records = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Every kind of commit: inserts, updates, deletes, a merge, a revert, and one that only rewrote files."""
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate('query a() { insert Person { slug: "a", age: 1, photo: "base64:YWI=" } insert Person { slug: "b" } }')
    graph.mutate('query b() { insert Knows { from: "a", to: "b", since: 1 } }')
    branch = graph.create_branch("b", from_="main")
    branch.mutate('query c() { update Person set { age: 2 } where slug = "a" }')
    branch.mutate('query d() { delete Person where slug = "b" }')
    graph.mutate('query e() { insert Person { slug: "c", age: 3 } }')
    graph.merge("b")
    optimize_all_tables(graph, OptimizeOptions(), in_place)
    (merge, *_) = [commit for commit in graph.log(None) if commit.operation == "merge"]
    graph.revert(merge.id)
    graph.mutate('query f() { update Person set { photo: "base64:eHk=" } where slug = "a" }')
    return graph


def test_floats_are_floats_in_changes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "floats.omni", "node A { a: I64 @key  f: F32?  g: F64  v: Vector(3)  w: [F64] }")
    graph.mutate("query a() { insert A { a: 1, f: 0.0, g: -2.0, v: [0.0, 0.5, 1.0], w: [100000.0, 1.0e20] } }")
    graph.mutate("query b() { insert A { a: 2, g: 1.5, v: [0.5, 0.5, 0.5], w: [] } }")
    _, *blocks = graph.changes().commits
    after = [change.after for block in blocks for change in block.changes]
    assert repr([state and state["data"] for state in after]) == repr(
        [
            {"id": "1", "a": 1, "f": 0.0, "g": -2.0, "v": [0.0, 0.5, 1.0], "w": [100000.0, 1e20]},
            {"id": "2", "a": 2, "g": 1.5, "v": [0.5, 0.5, 0.5], "w": []},
        ]
    )


def exported(graph: og.Graph, tmp_path: Path, selector: SnapshotSelector | None = None) -> tuple[Records, str]:
    out = tmp_path / "dump.jsonl"
    done = export_here(graph.location, out, force=True, selector=selector or SnapshotSelector())
    return {_name(line): line for line in lines(out)}, done.commit


def _name(line: dict[str, Any]) -> tuple[str, str]:
    table = f"node:{line['type']}" if "type" in line else f"edge:{line['edge']}"
    return table, line["data"]["id"]


def test_export_of_a_commit_and_the_changes_after_it(graph: og.Graph, tmp_path: Path) -> None:
    now, head = exported(graph, tmp_path)
    commits = list(graph.log(None))
    assert {"load", "init"} | {commit.operation for commit in commits} >= {"merge", "revert", "optimize"}
    for start in commits:
        records, cursor = exported(graph, tmp_path, SnapshotSelector(commit=start.id))
        assert cursor == start.id
        commit_ids = []
        for _ in range(len(commits)):
            page = graph.changes(cursor, limit=2)
            for block in page.commits:
                commit_ids.append(block.commit.id)
                for change in block.changes:
                    key = (change.table, change.id)
                    assert records.get(key) == change.before
                    records = {name: record for name, record in records.items() if name != key}
                    if change.after is not None:
                        records[key] = change.after
            cursor = page.cursor
            if not page.has_more:
                break
        expected_ids = [commit.id for commit in reversed(commits)]
        assert commit_ids == expected_ids[len(expected_ids) - len(commit_ids) :]
        assert commit_ids or start.id == head
        assert (records, cursor) == (now, head)


def test_branch_with_a_newer_commit_is_not_deleted(graph: og.Graph) -> None:
    branch = graph.create_branch("review", from_="main")
    head = branch.snapshot().head
    branch.mutate('query add() { insert Person { slug: "new" } }')
    with pytest.raises(og.PreconditionFailedError):
        graph.delete_branch("review", if_commit=head)
    with pytest.raises(og.UsageError, match="expected a full commit id"):
        graph.delete_branch("review", if_commit="HEAD")
    assert graph.delete_branch("review", if_commit=branch.snapshot().head).name == "review"
    assert "review" not in [status.record.name for status in graph.list_branches()]


def test_log_has_every_branch_and_each_commit_before_its_parents(graph: og.Graph) -> None:
    graph.create_branch("side").mutate('query add() { insert Person { slug: "side" } }')
    log = read_log(graph.location)
    positions = {commit.id: position for position, commit in enumerate(log.commits)}
    assert log.heads == {status.record.name: status.head and status.head.id for status in graph.list_branches()}
    assert positions.keys() >= {head for head in log.heads.values() if head is not None}
    for commit in log.commits:
        parents = [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]
        assert all(positions[parent] > positions[commit.id] for parent in parents)
    newest = log.commits[0]
    (names,) = read_log_names(graph.location, log, 1).values()
    assert [names[move.table] for move in newest.tables] == ["node:Person"]
