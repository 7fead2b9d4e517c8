"""A graph that is replaced at its path while a process has it open, as when a backup is restored.

A copy with other commits has the same tables, versions and first commit, and other rows. The process must not use
cached data of the old graph for the new one.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import omnigraph as og
from omnigraph.base.errors import Applied
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import GraphReplacedError, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location, parse_location
from tests.graph.writers import KNOWS, PERSON, Change, create, run, stage_changes

PEOPLE: Final = "query q() { match { $p: Person } return { $p.slug, $p.age } order { $p.slug } }"
FRIENDS: Final = "query q() { match { $p: Person $p knows $q } return { $p.slug, $q.slug } order { $p.slug } }"
LOOKUP: Final = 'query q() { match { $p: Person { slug: "base" } } return { $p.age } }'
BRANCHES: Final = ("main", "dev")
AGES: Final = {"a": 1, "c": 3}
"""The copies by name, which is also the slug that is added, and the age of all their people."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Two copies of one graph that were written to separately, each with a branch. `restore` copies one to the path."""

    location: Location
    folder: Path

    def restore(self, name: str) -> None:
        shutil.rmtree(self.location.uri, ignore_errors=True)
        shutil.copytree(self.folder / name, self.location.uri)


def _rows_of(name: str) -> list[tuple[object, ...]]:
    return [(slug, AGES[name]) for slug in sorted((name, "base"))]


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    location = parse_location(str(tmp_path / "graph.omni"))
    copies = Copies(location, tmp_path)
    create(location)
    run(location, [Change(PERSON, insert=("base",))])
    og.open(location.uri).create_branch("dev", from_="main")
    for branch in BRANCHES:
        run(location, [Change(PERSON, upsert=(("base", 0),)), Change(KNOWS, insert=("base",))], branch=branch)
    shutil.copytree(location.uri, tmp_path / "backup")
    for name, age in AGES.items():
        copies.restore("backup")
        for branch in BRANCHES:
            # An edge has the id of its endpoints here.
            changes = [Change(PERSON, upsert=((name, age), ("base", age))), Change(KNOWS, insert=(name,))]
            run(location, changes, branch=branch)
        shutil.copytree(location.uri, tmp_path / name)
    return copies


def _people(graph: og.Graph) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in graph.query(PEOPLE).to_pylist()]


def _sources(graph: og.Graph) -> set[object]:
    return {row["p.slug"] for row in graph.query(FRIENDS).to_pylist()}


@pytest.mark.parametrize("branch", BRANCHES)
def test_open_graph_reads_the_rows_of_the_restored_graph(copies: Copies, branch: str) -> None:
    pins = []
    copies.restore("a")
    graph = og.open(copies.location.uri, branch)
    for name in ("a", "c", "a", "backup", "c"):
        copies.restore(name)
        expected = _rows_of(name) if name in AGES else [("base", 0)]
        for opened in (graph, og.open(copies.location.uri, branch, read_only=True)):
            for _ in range(2):
                assert _people(opened) == expected
                assert _sources(opened) == ({name, "base"} if name in AGES else {"base"})
                assert opened.query(LOOKUP).to_pylist() == [{"p.age": AGES.get(name, 0)}]
        if name in AGES:
            pins.append({alias: (table.path, table.pin) for alias, table in graph.snapshot().tables.items()})
    assert all(pin == pins[0] for pin in pins)


def test_write_after_each_restore(copies: Copies) -> None:
    copies.restore("backup")
    graph = og.open(copies.location.uri)
    text = "query m($s: String) { insert Person { slug: $s, age: 7 } }"
    versions = []
    for name in ("x", "y", "z"):
        copies.restore("backup")
        graph.mutate(text, params={"s": name})
        assert _people(graph) == [("base", 0), (name, 7)]
        versions.append(graph.snapshot().tables[PERSON].pin)
    assert len(set(versions)) == 1


def test_mutation_reads_the_rows_of_the_restored_graph(copies: Copies) -> None:
    copies.restore("a")
    graph = og.open(copies.location.uri)
    assert _people(graph) == _rows_of("a")
    copies.restore("c")
    head = read_snapshot(copies.location).head
    done = graph.mutate("query m() { update Person set { age: 9 } where age = 3 }")
    assert done.commit is not None
    assert (done.affected_nodes, done.commit.parent) == (2, head)
    assert _people(graph) == [("base", 9), ("c", 9)]


def test_snapshot_of_a_replaced_graph_never_mixes_rows(copies: Copies) -> None:
    copies.restore("a")
    graph = og.open(copies.location.uri)
    pinned, people, friends = graph.snapshot(), graph.prepare(PEOPLE), graph.prepare(FRIENDS)
    rows = people.run(as_of=pinned).to_pylist()
    copies.restore("c")
    assert people.run(as_of=pinned).to_pylist() == rows
    with pytest.raises(GraphReplacedError, match="was replaced since it was read") as caught:
        friends.run(as_of=pinned).to_pylist()
    assert caught.value.code == "graph_replaced"
    assert {row["p.slug"] for row in friends.run(as_of=graph.snapshot()).to_pylist()} == {"base", "c"}
    copies.restore("a")
    assert _sources(graph) == {"a", "base"}


def test_snapshot_with_a_deleted_manifest_version_is_read(copies: Copies) -> None:
    copies.restore("a")
    graph = og.open(copies.location.uri)
    pinned = graph.snapshot()
    run(copies.location, [Change("node:Company", insert=("x",))])
    versions = Path(copies.location.uri, "__manifest", "_versions")
    (versions / f"{2**64 - 1 - pinned.version:020}.manifest").unlink()
    assert {row["p.slug"] for row in graph.prepare(FRIENDS).run(as_of=pinned).to_pylist()} == {"a", "base"}


@pytest.mark.parametrize("restages", [False, True])
def test_write_staged_on_a_replaced_graph_fails(copies: Copies, restages: bool) -> None:
    copies.restore("a")
    stage = stage_changes([Change(PERSON, insert=("late",))])

    def staged(area: StagingArea) -> StagedWrite:
        staged_write = stage(area)
        copies.restore("c")
        return staged_write

    request = WriteRequest(
        kind=WriteOperation.LOAD,
        actor="tester",
        stage=staged,
        restage=(lambda again, _: stage(again)) if restages else None,
    )
    with pytest.raises(GraphReplacedError) as caught:
        write(copies.location, "main", request)
    assert caught.value.applied is Applied.NO
    assert _people(og.open(copies.location.uri)) == _rows_of("c")
