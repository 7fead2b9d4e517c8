"""Blobs and indexes are kept with the rows that need them, also on a branch, and deleted with them."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location
from tests.graph.writers import KNOWS, PERSON, Change, create, read_contents, rows_table, run, run_compaction, run_index
from tests.maintenance.cleaning import DAY, Aging, Place, files_of
from tests.maintenance.reachable import unneeded
from tests.pipeline.in_place import load_here, written
from tests.storage.raw_writes import stage_overwrite

KEEP_ONE = CleanupPolicyOptions(keep_versions=1, confirm=True)
DOC = "node:Doc"
BLOBS = {"small": b"s" * 10, "medium": b"p" * 200_000, "large": b"l" * 5_000_000}


def clean(aging: Aging) -> None:
    aging.later(5 * DAY)
    expected = cleanup_all_tables(
        Place(aging.location), replace(KEEP_ONE, confirm=False), environment=aging.environment
    )
    before = aging.files()
    cleanup_all_tables(Place(aging.location), KEEP_ONE, environment=aging.environment)
    assert before - aging.files() == set(files_of(expected))


@pytest.fixture
def library(local_location: Location, tmp_path: Path) -> Aging:
    """Return a graph with blobs of every size, one load each."""
    omnigraph.init(local_location.uri, "node Doc { slug: String @key  pages: I64?  body: Blob? }")
    for name, data in BLOBS.items():
        text = base64.b64encode(data).decode()
        line = f'{{"type":"Doc","data":{{"slug":"{name}","body":"base64:{text}"}}}}'
        load_here(local_location, [written(tmp_path, f"{name}.jsonl", line)])
    return Aging(local_location)


def read_blobs(location: Location, branch: str = MAIN) -> dict[str, bytes]:
    table = read_snapshot(location, branch).tables[DOC]
    dataset = open_dataset(location.child(table.path), branch=table.pin.branch, version=table.pin.version)
    names = [str(name) for name in dataset.read(["id"]).column("id").to_pylist()]
    blobs = dataset.native.take_blobs("body", indices=list(range(len(names))))
    return {name: blob.readall() for name, blob in zip(names, blobs, strict=True) if blob is not None}


@pytest.mark.parametrize("change", ["compaction", "update", "fork"])
def test_blobs_are_kept_with_their_rows(library: Aging, change: str) -> None:
    location = library.location
    match change:
        case "compaction":
            run_compaction(location, [DOC])
        case "update":
            graph = omnigraph.open(location.uri)
            graph.mutate("query up() { update Doc set { pages: 7 } where pages is null }")
        case _:
            create_branch(location, "dev", "tester", read_snapshot(location))
            omnigraph.open(location.uri, "dev").mutate('query x() { insert Doc { slug: "x" } }')
            omnigraph.open(location.uri).mutate('query remove() { delete Doc where slug = "large" }')
            run_compaction(location, [DOC])
    clean(library)
    branch = "dev" if change == "fork" else MAIN
    blobs = read_blobs(location, branch)
    assert {name: blobs[name] for name in BLOBS} == BLOBS
    assert unneeded_but_blobs(location) == []


def test_blobs_are_deleted_with_their_rows(library: Aging) -> None:
    location = library.location
    omnigraph.open(location.uri).mutate('query remove() { delete Doc where slug = "large" }')
    run_compaction(location, [DOC])
    before = [file for file in library.files() if file.endswith(".blob")]
    clean(library)
    after = [file for file in library.files() if file.endswith(".blob")]
    assert len(after) < len(before)
    table = Path(location.uri, read_snapshot(location).tables[DOC].path, "data")
    assert {folder.name for folder in table.iterdir() if folder.is_dir()} == {Path(f).parent.name for f in after}


def test_branch_keeps_the_indexes_of_its_base(local_location: Location) -> None:
    aging = Aging(local_location)
    create(local_location)
    run(local_location, [Change(PERSON, upsert=tuple((f"p{n}", n) for n in range(20)))])
    run_index(local_location, PERSON, [IndexSpec("age", IndexKind.BTREE)])
    create_branch(local_location, "dev", "tester", read_snapshot(local_location))
    run(local_location, [Change(PERSON, upsert=(("new", 99),))], branch="dev")
    _overwrite(local_location)
    expected = read_contents(local_location, "dev")
    clean(aging)
    assert read_contents(local_location, "dev") == expected
    table = read_snapshot(local_location, "dev").tables[PERSON]
    dev = open_dataset(local_location.child(table.path), branch=table.pin.branch, version=table.pin.version)
    assert "ScalarIndexQuery" in str(dev.native.scanner(filter="age = 7").explain_plan())
    assert dev.read(["id"], "age = 7").to_pylist() == [{"id": "p7"}]
    assert unneeded(local_location) == []


def test_index_of_old_versions_is_deleted(local_location: Location) -> None:
    aging = Aging(local_location)
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 1),)), Change(KNOWS, upsert=(("a", 1),))])
    run_index(local_location, PERSON, [IndexSpec("age", IndexKind.BTREE)])
    _overwrite(local_location)
    assert any("/_indices/" in file for file in aging.files())
    clean(aging)
    assert not any("/_indices/" in file for file in aging.files())
    assert not list(Path(local_location.uri).glob("*/*/_indices/*"))
    assert unneeded(local_location) == []


def unneeded_but_blobs(location: Location) -> list[str]:
    return [problem for problem in unneeded(location) if not problem.endswith(".blob")]


def _overwrite(location: Location) -> None:
    """Replace all rows with one; the old indexes then cover nothing."""

    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write(PERSON)
        staged = stage_overwrite(target.dataset, rows_table(target, [("only", 1)]))
        return area.finish((area.transaction_effect(target, staged, 1),), frozenset(), {})

    write(location, MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage))
