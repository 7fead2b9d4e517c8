"""Merges that fail before they are armed: the error is typed, and no fork is left."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.evolving import contents, create, evolve

BASE = "node Doc { name: String @key  body: Blob }\nnode Tag { name: String @key }\n"
NULLABLE = BASE.replace("body: Blob", "body: Blob?")
FILLED = BASE.replace("body: Blob", 'body: Blob?  kind: String @default("k")')
ROWS = 'query m() { insert Doc { name: "a", body: "base64:aGk=" }  insert Tag { name: "t" } }'


class _UnexpectedError(Exception):
    """An error that the code does not know."""


@pytest.fixture
def root(tmp_path: Path) -> Location:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, BASE)
    omnigraph.open(location.uri).mutate(ROWS)
    for name in ("dev", "other"):
        create_branch(location, name, "tester", read_snapshot(location))
    return location


def forks(root: Location) -> list[str]:
    tables = read_snapshot(root).tables.values()
    return [name for table in tables for name in open_dataset(root.child(table.path)).native.branches.list()]


@pytest.mark.parametrize("dry_run", [True, False])
def test_blob_that_becomes_nullable_next_to_a_default(root: Location, dry_run: bool) -> None:
    evolve(root, NULLABLE, "dev")
    between = read_snapshot(root, "dev").head
    evolve(root, FILLED, "dev")
    with pytest.raises(UnsupportedSchemaChangeError) as caught:
        omnigraph.open(root.uri).merge("dev", dry_run=dry_run)
    assert caught.value.code == "OG-MF-106"
    assert "Doc.body" in caught.value.message
    # Follow the hint: merge one after the other.
    omnigraph.open(root.uri).merge(between)
    omnigraph.open(root.uri).merge("dev")
    assert read_snapshot(root).schema.source == FILLED
    assert contents(root)["node:Doc"]["a"]["kind"] == "k"


def test_failure_leaves_no_fork(root: Location) -> None:
    """The first write of a branch forks two tables, and the second fork fails."""
    omnigraph.open(root.uri, "dev").mutate('query m() { insert Tag { name: "u" } }')
    omnigraph.open(root.uri, "dev").mutate('query m() { insert Doc { name: "b", body: "base64:aGk=" } }')
    before = forks(root)
    staged: list[str] = []

    def fail(effect: str, target: str) -> None:
        staged.extend([target] if effect == "dataset.branch" else [])
        if len(staged) == 2 and effect == "dataset.stage":
            raise _UnexpectedError

    with observed(fail), pytest.raises(_UnexpectedError):
        omnigraph.open(root.uri, "other").merge("dev")
    assert len(staged) == 2
    assert forks(root) == before
    omnigraph.open(root.uri, "other").merge("dev")
    assert contents(root, "other") == contents(root, "dev")


def test_conflict_leaves_no_fork(root: Location) -> None:
    """A schema change is committed on the target while the merge is staged."""
    omnigraph.open(root.uri, "dev").mutate('query m() { insert Tag { name: "u" } }')
    before = forks(root)
    seen: list[str] = []

    def evolve_first(effect: str, _: str) -> None:
        """Change the schema directly after the fork, when the merge is planned."""
        seen.append(effect)
        if effect == "dataset.stage" and seen.count(effect) == 1:
            evolve(root, BASE + "node City { name: String @key }\n", "other")

    with observed(evolve_first), pytest.raises(ReadSetConflictError) as caught:
        omnigraph.open(root.uri, "other").merge("dev")
    assert "schema" in caught.value.message
    assert "dataset.branch" in seen
    assert forks(root) == before
    omnigraph.open(root.uri, "other").merge("dev")
    assert sorted(contents(root, "other")["node:Tag"]) == ["t", "u"]
    assert contents(root, "other")["node:City"] == {}
    assert sorted(contents(root, MAIN)) == ["node:Doc", "node:Tag"]
