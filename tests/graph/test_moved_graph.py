"""A moved graph: main works, its branches raise an error with the reason, and they can be deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.errors import FormatError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from tests.cli.process import run_in_process
from tests.maintenance.cleaning import TomorrowClock

SCHEMA = "node P { slug: String @key }"
SHOW = "query q() { match { $p: P } return { $p.slug, $p.here, $p.there } order { $p.slug } }"


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Return a graph that was moved away from `old`, with a branch that has its own property."""
    graph = og.init(str(tmp_path / "old"), SCHEMA)
    branch = graph.create_branch("b", from_="main")
    branch.apply_schema(SCHEMA.replace("}", " there: I64? }"))
    branch.mutate('query a() { insert P { slug: "b", there: 1 } }')
    return (tmp_path / "old").rename(tmp_path / "new")


def test_main_does_not_reuse_property_ids_of_the_branch(moved: Path) -> None:
    """The branch can be merged after the graph is moved back."""
    main = og.open(str(moved))
    main.apply_schema(SCHEMA.replace("}", " here: I64? }"))
    main.apply_schema(SCHEMA.replace("}", " here: I64? } node Q { slug: String @key }"))
    main.mutate('query a() { insert P { slug: "a", here: 2 } }')
    back = og.open(str(moved.rename(moved.parent / "old")))
    back.merge("b")
    assert back.query(SHOW).to_pylist() == [
        {"p.slug": "a", "p.here": 2, "p.there": None},
        {"p.slug": "b", "p.here": None, "p.there": 1},
    ]


def test_branch_is_listed_and_can_only_be_deleted(moved: Path) -> None:
    graph = og.open(str(moved))
    assert [(status.record.name, status.is_readable, status.ahead) for status in graph.list_branches()] == [
        ("main", True, 0),
        ("b", False, None),
    ]
    made = sorted(path.name for path in (moved / "__manifest" / "tree").iterdir())
    calls: tuple[Callable[[], object], ...] = (
        lambda: graph.create_branch("c", from_="main"),
        lambda: graph.merge("b"),
        lambda: graph.cleanup(keep=1, dry_run=False),
    )
    for call in calls:
        _require_moved_error(call)
    assert [status.record.name for status in graph.list_branches()] == ["main", "b"]
    assert sorted(path.name for path in (moved / "__manifest" / "tree").iterdir()) == made
    graph.delete_branch("b")
    assert [status.record.name for status in graph.list_branches()] == ["main"]


def test_cleanup_deletes_the_files_of_a_deleted_branch(moved: Path) -> None:
    """Only after a grace period: another process may have just begun to read them."""
    graph = og.open(str(moved))
    graph.mutate('query a() { insert P { slug: "a" } }')
    graph.delete_branch("b")
    _require_moved_error(lambda: graph.cleanup(keep=1, dry_run=False))
    results = cleanup_all_tables(
        graph, CleanupPolicyOptions(keep_versions=1, confirm=True), environment=WriteEnvironment(clock=TomorrowClock())
    )
    assert [result.error for result in results] == [None, None]
    assert sum(result.orphan_branches_removed for result in results) == 2
    assert graph.query("query q() { match { $p: P } return { $p.slug } }").to_pylist() == [{"p.slug": "a"}]


def test_log_shows_the_history_of_main(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "old"), SCHEMA)
    branch = graph.create_branch("b", from_="main")
    for target, slug in ((graph, "a"), (branch, "b")):
        target.mutate(f'query a() {{ insert P {{ slug: "{slug}" }} }}')
    graph.merge("b")
    (tmp_path / "old").rename(tmp_path / "new")
    commits = [commit.id for commit in og.open(str(tmp_path / "new")).log(None)]

    log = run_in_process("log", "new", "--json", cwd=tmp_path)
    assert json.loads(log.stdout)["heads"] == {"main": commits[0], "b": None}
    shown = run_in_process("log", "new", "--draw", cwd=tmp_path)
    assert [commit for commit in commits if commit in shown.stdout] == commits
    assert "not shown: b" in shown.stderr
    listed = run_in_process("commit", "list", "new", "--json", cwd=tmp_path)
    assert [target["graph_commit_id"] for target in json.loads(listed.stdout)["commits"]] == commits


def _require_moved_error(call: Callable[[], object]) -> None:
    with pytest.raises(FormatError) as caught:
        call()
    assert caught.value.code == "graph_moved"
