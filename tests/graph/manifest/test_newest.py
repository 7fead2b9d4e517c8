"""The state that a process has after its publishes is the state that a scan of the manifest returns."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest

from omnigraph.base import limits
from omnigraph.base.ids import BranchId, new_ulid
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.reader import Manifest, ManifestState, open_manifest
from omnigraph.graph.manifest.records import BranchRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, open_table, read_snapshot
from omnigraph.storage.lance.dataset import ADDRESS
from omnigraph.storage.location import Location
from tests.graph.publishing import make_graph, moved, new_draft, target_of
from tests.graph.writers import COMPANY, PERSON, Change, run
from tests.storage.samples import ids_of


def _addresses(state: ManifestState, manifest: Manifest) -> dict[str, int]:
    assert isinstance(state.rows, pa.Table)
    kinds = state.rows.column("object_type").to_pylist()
    pairs = zip(state.rows.column("object_id").to_pylist(), state.rows.column(ADDRESS).to_pylist(), strict=True)
    of_state = [pair for kind, pair in zip(kinds, pairs, strict=True) if kind in manifest.state_kinds]
    return {str(object_id): int(address or 0) for object_id, address in of_state}


def _require_equal_to_scan(snapshot: Snapshot) -> None:
    manifest = open_manifest(snapshot.root, lance_branch=snapshot.branch.lance_branch)
    scanned = manifest.read_state()
    assert (snapshot.version, snapshot.state.head) == (manifest.version, scanned.head)
    assert (snapshot.state.schema, dict(snapshot.state.tables)) == (scanned.schema, dict(scanned.tables))
    assert dict(snapshot.state.branches) == dict(scanned.branches)
    assert _addresses(snapshot.state, manifest) == _addresses(scanned, manifest)


@pytest.mark.parametrize("branch", [MAIN, "review"])
def test_state_after_publishes_is_that_of_a_scan(store_location: Location, branch: str) -> None:
    """There are enough publishes for several compactions of the manifest."""
    make_graph(store_location)
    if branch != MAIN:
        create_branch(store_location, branch, "tester", read_snapshot(store_location))
    for number in range(3 * limits.MANIFEST_FRAGMENTS_MAX):
        snapshot = read_snapshot(store_location, branch)
        tables = [snapshot.tables[PERSON], snapshot.tables[COMPANY]][: 1 + number % 2]
        change = ManifestChange(commit=new_draft(), tables=tuple(map(moved, tables)))
        publish(target_of(snapshot), change, observed=snapshot)
        _require_equal_to_scan(read_snapshot(store_location, branch))


def test_publish_of_other_rows_is_read_again(store_location: Location) -> None:
    """A row of a branch is added and removed, and a schema is published again."""
    first = make_graph(store_location)
    branch_id = BranchId(new_ulid())
    record = BranchRecord(
        name="review", id=branch_id, lance_branch=f"b-{branch_id}", parent=None, creator="me", created_us=1
    )
    changes = [
        ManifestChange(branches=(record,)),
        ManifestChange(commit=new_draft(), schema=replace(first.schema, source=f"{first.schema.source}\n")),
        ManifestChange(removed=("branch:review",)),
    ]
    for change in changes:
        snapshot = read_snapshot(store_location)
        publish(target_of(snapshot), change, observed=snapshot)
        _require_equal_to_scan(read_snapshot(store_location))


def test_replaced_graph_is_read_again(local_location: Location) -> None:
    """A backup is restored and continued to the same manifest version, so that only the files differ."""
    make_graph(local_location)
    backup = f"{local_location.uri}.backup"
    shutil.copytree(local_location.uri, backup)
    run(local_location, [Change(PERSON, insert=("lost",))])
    before = read_snapshot(local_location)
    shutil.rmtree(local_location.uri)
    shutil.copytree(backup, local_location.uri)
    other = replace(local_location, uri=backup)
    run(other, [Change(PERSON, insert=("kept",))])
    shutil.rmtree(local_location.uri)
    shutil.copytree(backup, local_location.uri)
    after = read_snapshot(local_location)
    assert (after.version, after.tables[PERSON].pin) == (before.version, before.tables[PERSON].pin)
    assert after.head != before.head
    assert after.identities != before.identities
    run(local_location, [Change(PERSON, insert=("new",))])
    table = read_snapshot(local_location).tables[PERSON]
    assert ids_of(open_table(local_location, table)) == ["kept", "new"]
