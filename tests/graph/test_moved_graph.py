"""A graph that was moved: main works, its branches are refused with the reason, and they can be deleted."""

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
from tests.cli.process import omnigraph_here
from tests.maintenance.cleaning import TomorrowClock

SCHEMA = "node P { slug: String @key }"
SHOW = "query q() { match { $p: P } return { $p.slug, $p.here, $p.there } order { $p.slug } }"


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """It was moved away from `old`, with a branch that has a property of its own."""
    graph = og.init(str(tmp_path / "old"), SCHEMA)
    branch = graph.create_branch("b", from_="main")
    branch.apply_schema(SCHEMA.replace("}", " there: I64? }"))
    branch.mutate('query a() { insert P { slug: "b", there: 1 } }')
    return (tmp_path / "old").rename(tmp_path / "new")


def test_main_gets_properties_that_are_none_of_the_branch(moved: Path) -> None:
    """Also when the graph goes back to where the branch can be read and merged."""
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


def test_a_branch_is_listed_refused_and_deleted(moved: Path) -> None:
    graph = og.open(str(moved))
    assert [(one.record.name, one.is_readable, one.ahead) for one in graph.list_branches()] == [
        ("main", True, 0),
        ("b", False, None),
    ]
    made = sorted(path.name for path in (moved / "__manifest" / "tree").iterdir())
    refused: tuple[Callable[[], object], ...] = (
        lambda: graph.create_branch("c", from_="main"),
        lambda: graph.merge("b"),
        lambda: graph.cleanup(keep=1, dry_run=False),
    )
    for one in refused:
        _refused_as_moved(one)
    assert [one.record.name for one in graph.list_branches()] == ["main", "b"]
    assert sorted(path.name for path in (moved / "__manifest" / "tree").iterdir()) == made
    graph.delete_branch("b")
    assert [one.record.name for one in graph.list_branches()] == ["main"]


def test_cleanup_takes_what_a_deleted_branch_left(moved: Path) -> None:
    """Not at once: nobody can tell what the branch needed, and somebody may just have begun to read it."""
    graph = og.open(str(moved))
    graph.mutate('query a() { insert P { slug: "a" } }')
    graph.delete_branch("b")
    _refused_as_moved(lambda: graph.cleanup(keep=1, dry_run=False))
    found = cleanup_all_tables(
        graph,
        CleanupPolicyOptions(keep_versions=1, confirm=True),
        world=WriteEnvironment(clock=TomorrowClock()),
    )
    assert [one.error for one in found] == [None, None]
    assert sum(one.orphan_branches_removed for one in found) == 2
    assert graph.query("query q() { match { $p: P } return { $p.slug } }").to_pylist() == [{"p.slug": "a"}]


def test_the_history_of_main_is_shown(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "old"), SCHEMA)
    branch = graph.create_branch("b", from_="main")
    for one, slug in ((graph, "a"), (branch, "b")):
        one.mutate(f'query a() {{ insert P {{ slug: "{slug}" }} }}')
    graph.merge("b")
    (tmp_path / "old").rename(tmp_path / "new")
    commits = [commit.id for commit in og.open(str(tmp_path / "new")).log(None)]

    log = omnigraph_here("log", "new", "--json", cwd=tmp_path)
    assert json.loads(log.stdout)["heads"] == {"main": commits[0], "b": None}
    shown = omnigraph_here("log", "new", "--graph", cwd=tmp_path)
    assert [commit for commit in commits if commit in shown.stdout] == commits
    assert "not shown: b" in shown.stderr
    listed = omnigraph_here("commit", "list", "new", "--json", cwd=tmp_path)
    assert [one["graph_commit_id"] for one in json.loads(listed.stdout)["commits"]] == commits


def _refused_as_moved(call: Callable[[], object]) -> None:
    with pytest.raises(FormatError) as caught:
        call()
    assert caught.value.code == "graph_moved"
