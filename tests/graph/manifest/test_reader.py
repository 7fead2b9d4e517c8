"""Reading `__manifest`: what it publishes, what it finds, and how damage is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError
from omnigraph.base.ids import CommitId, OperationId, TypeId, new_ulid
from omnigraph.graph.manifest.encoding import Row, encode_head, encode_table, rows_to_table
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, TombstoneRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.manifest.stamp import ROOT_KEY, STAMP_KEY
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.publishing import make_graph, moved, new_draft, newest, pins_of, publish_next, target_of
from tests.graph.writers import COMPANY, KNOWS, PERSON, TABLES
from tests.storage.raw_writes import commit_upsert, stage_append


def test_manifest_of_a_new_graph(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    manifest = newest(store_location)
    state = manifest.read_state()
    assert manifest.version == 1
    assert manifest.dataset.metadata == {STAMP_KEY: "1", ROOT_KEY: store_location.uri}
    assert manifest.dataset.native.has_stable_row_ids
    assert manifest.dataset.config() == {}
    assert {table.alias for table in state.tables.values()} == set(TABLES)
    assert {table.pin for table in state.tables.values()} == {Pin(None, 1)}
    assert {table.owner for table in state.tables.values()} == {snapshot.branch.id}
    assert list(state.branches) == ["main"]
    assert state.tombstones == ()
    assert [commit.id for commit in manifest.read_commits()] == [state.head] == [manifest.read_head()]
    assert manifest.read_recoveries() == ()


def test_tombstone_removes_a_table_from_its_version_on(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    publish_next(store_location, COMPANY)
    table = read_snapshot(store_location).tables[COMPANY]
    stone = TombstoneRecord(table.id, COMPANY, table.pin.version)
    publish(target_of(snapshot), ManifestChange(commit=new_draft("schema_apply"), tombstones=(stone,)))
    after = read_snapshot(store_location)
    assert set(after.tables) == {PERSON, KNOWS}
    assert table.id in newest(store_location).read_state().tables
    assert set(read_snapshot(store_location, version=2).tables) == set(TABLES)
    moves = newest(store_location).find_commit(after.head)
    assert moves is not None
    assert [(move.before, move.after) for move in moves.tables] == [(table.pin, None)]


def test_tombstone_of_a_later_version_has_no_effect_yet(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    stone = TombstoneRecord(snapshot.tables[COMPANY].id, COMPANY, 2)
    publish(target_of(snapshot), ManifestChange(commit=new_draft(), tombstones=(stone,)))
    assert COMPANY in read_snapshot(store_location).tables
    publish_next(store_location, COMPANY)
    assert COMPANY not in read_snapshot(store_location).tables


def test_long_history_reads_the_same_state(store_location: Location) -> None:
    """Above a number of rows a filter is used; it must return the same state."""
    snapshot = make_graph(store_location)
    record = newest(store_location).find_commit(snapshot.head)
    assert record is not None
    history = tuple(
        replace(record, id=CommitId(f"OLD{number:06}")) for number in range(limits.MANIFEST_WHOLE_READ_ROWS_MAX)
    )
    audit = RecoveryRecord(
        operation_id=OperationId(new_ulid()),
        operation=WriteOperation.LOAD,
        actor="me",
        action="rolled_back",
        recovered_us=1,
        tables={"a:b": "fenced"},
    )
    publish(target_of(snapshot), ManifestChange(ancestors=history, recovery=audit))
    publish_next(store_location)
    manifest = newest(store_location)
    assert manifest.dataset.count_rows() > limits.MANIFEST_WHOLE_READ_ROWS_MAX
    state = manifest.read_state()
    assert (state.head, len(state.tables), list(state.branches)) == (manifest.read_head(), 3, ["main"])
    assert state.head != snapshot.head
    assert len(manifest.read_commits()) == limits.MANIFEST_WHOLE_READ_ROWS_MAX + 2
    assert manifest.find_commit(CommitId("OLD000007")) == history[7]
    assert manifest.find_commit(CommitId("it's missing")) is None
    assert manifest.read_recoveries() == (audit,) == (manifest.find_recovery(audit.operation_id),)


def test_publish_keeps_unknown_columns_and_keys(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    native = newest(store_location).dataset.native_copy()
    native.add_columns(pa.field("newer", pa.utf8()))
    manifest = newest(store_location)
    rows = manifest.dataset.read()
    newer_rows = [
        {**row, "newer": row["object_id"], "metadata": json.dumps({**json.loads(row["metadata"]), "newer": [1]})}
        for row in rows.to_pylist()
    ]
    commit_upsert(manifest.dataset, rows_to_table(newer_rows, manifest.dataset.schema), "object_id")
    again = replace(snapshot.schema, source="node Person {}\n")
    change = ManifestChange(
        commit=new_draft(), tables=(moved(snapshot.tables[PERSON]),), schema=again, branches=(snapshot.branch,)
    )
    publish(target_of(snapshot), change)
    after = {row["object_id"]: row for row in newest(store_location).dataset.read().to_pylist()}
    for row in newer_rows:
        stored = after[row["object_id"]]
        assert stored["newer"] == row["object_id"]
        assert json.loads(stored["metadata"])["newer"] == [1]
    published = read_snapshot(store_location)
    assert (published.tables[PERSON].pin.version, published.schema.source) == (2, again.source)


def _append(location: Location, row: Row) -> None:
    dataset = newest(location).dataset
    commit_staged(dataset, stage_append(dataset, rows_to_table([row], dataset.schema)))


def test_two_heads_are_damage_and_older_versions_are_readable(store_location: Location) -> None:
    make_graph(store_location)
    _append(store_location, encode_head(CommitId("ANOTHER")))
    _require_damage(store_location, "expected 1 graph_head rows, got 2")
    with pytest.raises(FormatError, match="got 2"):
        newest(store_location).read_head()
    assert set(read_snapshot(store_location, version=1).tables) == set(TABLES)


def test_two_rows_of_one_table_are_damage(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    _append(store_location, encode_table(moved(snapshot.tables[PERSON])))
    _require_damage(store_location, "expected 3 table rows, got 4")


def test_two_tables_with_one_name_are_damage(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    duplicate = replace(snapshot.tables[PERSON], type_id=TypeId("00000000000000ff"))
    _append(store_location, encode_table(duplicate))
    _require_damage(store_location, "two tables have the same name")


def test_missing_column_is_damage(store_location: Location) -> None:
    make_graph(store_location)
    newest(store_location).dataset.native_copy().drop_columns(["owner"])
    _require_damage(store_location, "no column owner")


@pytest.mark.parametrize("object_id", ["graph_head", "schema", "branch:main"])
def test_invalid_row_is_named_in_the_error(store_location: Location, object_id: str) -> None:
    make_graph(store_location)
    dataset = newest(store_location).dataset
    rows = [row for row in dataset.read().to_pylist() if row["object_id"] == object_id]
    garbage = rows_to_table([{**rows[0], "metadata": "\x00{"}], dataset.schema)
    commit_upsert(dataset, garbage, "object_id")
    with pytest.raises(FormatError) as caught:
        read_snapshot(store_location)
    assert (caught.value.code, caught.value.facts["object_id"]) == ("manifest_row_malformed", object_id)


def test_manifest_without_main_is_damaged(store_location: Location) -> None:
    make_graph(store_location)
    newest(store_location).dataset.native_copy().delete("object_id = 'branch:main'")
    _require_damage(store_location, "no branch:main row")


def test_catalog_with_another_hash_is_damage(store_location: Location) -> None:
    record = make_graph(store_location).schema
    altered = replace(record, catalog_json=record.catalog_json.replace("slug", "plug"))
    assert record.catalog.nodes
    assert altered.catalog_json != record.catalog_json
    with pytest.raises(FormatError, match="expected hash") as caught:
        _ = altered.catalog
    assert caught.value.code == "manifest_damaged"


def test_empty_newest_version_is_skipped(local_location: Location) -> None:
    """A power cut leaves the name of a file whose content was not synced."""
    make_graph(local_location)
    before = pins_of(read_snapshot(local_location))
    publish_next(local_location)
    _version_file(local_location, 2).write_bytes(b"")
    assert pins_of(read_snapshot(local_location)) == before
    publish_next(local_location)
    assert read_snapshot(local_location).manifest.version == 2


@pytest.mark.parametrize("size", [7, 400])
def test_truncated_newest_version_is_a_format_error(local_location: Location, size: int) -> None:
    make_graph(local_location)
    publish_next(local_location)
    before = pins_of(read_snapshot(local_location, version=1))
    file = _version_file(local_location, 2)
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    with pytest.raises(FormatError) as caught:
        read_snapshot(local_location)
    assert caught.value.code == "dataset_unreadable"
    with pytest.raises(FormatError):
        publish_next(local_location)
    assert file.read_bytes() == whole[:size]
    file.write_bytes(whole)
    assert pins_of(read_snapshot(local_location, version=1)) == before


def test_missing_graph_has_a_code_for_each_cause(durable_location: Location) -> None:
    assert _missing_code(durable_location) == "graph_missing"
    store = ObjectStore(durable_location)
    store.create("notes.txt", b"mine")
    assert _missing_code(durable_location) == "not_a_graph"
    store.create("__init/x.json", b"{}")
    assert _missing_code(durable_location) == "init_unfinished"
    store.create(f"{MANIFEST}/notes.txt", b"mine")
    assert _missing_code(durable_location) == "init_unfinished"
    store.delete("__init/x.json")
    store.remove_empty_directory("__init")
    _require_damage(durable_location, "it has no version")


def test_missing_version_and_missing_branch(durable_location: Location) -> None:
    make_graph(durable_location)
    with pytest.raises(NotFoundError, match="version 7 of the manifest"):
        open_manifest(durable_location, version=7)
    with pytest.raises(NotFoundError, match="on the Lance branch b-NO"):
        open_manifest(durable_location, lance_branch="b-NO")


def test_other_lance_dataset_is_not_a_manifest(local_location: Location) -> None:
    lance.write_dataset(pa.table({"id": ["a"]}), local_location.child(MANIFEST).uri)
    with pytest.raises(FormatError) as caught:
        read_snapshot(local_location)
    assert caught.value.code == "stamp_missing"


def _require_damage(location: Location, pattern: str) -> None:
    with pytest.raises(FormatError, match=pattern) as caught:
        read_snapshot(location)
    assert caught.value.code == "manifest_damaged"


def _missing_code(location: Location) -> str:
    with pytest.raises(NotFoundError) as caught:
        read_snapshot(location)
    return caught.value.code


def _version_file(location: Location, version: int) -> Path:
    return Path(location.uri, MANIFEST, "_versions", f"{2**64 - 1 - version}.manifest")
