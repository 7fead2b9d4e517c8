"""Reading `__manifest`: what it publishes, what it finds, and how damage is told."""

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
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, TombstoneRecord
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.manifest.stamp import ROOT_KEY, STAMP_KEY
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.publishing import make_graph, moved, new_draft, newest, pins_of, publish_next, target_of
from tests.graph.writers import COMPANY, KNOWS, PERSON, TABLES
from tests.storage.raw_writes import commit_upsert, stage_append


def test_a_new_graph(store_location: Location) -> None:
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


def test_a_tombstone_takes_a_table_out_from_its_version_on(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    publish_next(store_location, COMPANY)
    table = read_snapshot(store_location).tables[COMPANY]
    stone = TombstoneRecord(table.id, COMPANY, table.pin.version)
    publish(target_of(snapshot), ManifestChange(new_draft("schema_apply"), tombstones=(stone,)))
    after = read_snapshot(store_location)
    assert set(after.tables) == {PERSON, KNOWS}
    assert table.id in newest(store_location).read_state().tables
    assert set(read_snapshot(store_location, version=2).tables) == set(TABLES)
    moves = newest(store_location).find_commit(after.head)
    assert moves is not None
    assert [(move.before, move.after) for move in moves.tables] == [(table.pin, None)]


def test_a_tombstone_of_a_later_version_does_not_count_yet(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    stone = TombstoneRecord(snapshot.tables[COMPANY].id, COMPANY, 2)
    publish(target_of(snapshot), ManifestChange(new_draft(), tombstones=(stone,)))
    assert COMPANY in read_snapshot(store_location).tables
    publish_next(store_location, COMPANY)
    assert COMPANY not in read_snapshot(store_location).tables


def test_a_long_history_is_read_like_a_short_one(store_location: Location) -> None:
    """Beyond a number of rows a filter is planned; it must see the same."""
    snapshot = make_graph(store_location)
    record = newest(store_location).find_commit(snapshot.head)
    assert record is not None
    history = tuple(
        replace(record, id=CommitId(f"OLD{number:06}"))
        for number in range(limits.MANIFEST_WHOLE_READ_ROWS_MAX)
    )
    audit = RecoveryRecord(OperationId(new_ulid()), "load", "me", "rolled_back", 1, {"a:b": "fenced"})
    publish(target_of(snapshot), ManifestChange(ancestors=history, recovery=audit))
    publish_next(store_location)
    manifest = newest(store_location)
    assert manifest.dataset.count_rows() > limits.MANIFEST_WHOLE_READ_ROWS_MAX
    state = manifest.read_state()
    assert (state.head, len(state.tables), list(state.branches)) == (manifest.read_head(), 3, ["main"])
    assert state.head != snapshot.head
    assert len(manifest.read_commits()) == limits.MANIFEST_WHOLE_READ_ROWS_MAX + 2
    assert manifest.find_commit(CommitId("OLD000007")) == history[7]
    assert manifest.find_commit(CommitId("it's not there")) is None
    assert manifest.read_recoveries() == (audit,) == (manifest.find_recovery(audit.operation_id),)


def test_unknown_columns_and_keys_survive_a_publish(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    native = newest(store_location).dataset.native_copy()
    native.add_columns(pa.field("newer", pa.utf8()))
    manifest = newest(store_location)
    rows = manifest.dataset.read()
    strange = [
        {
            **row,
            "newer": row["object_id"],
            "metadata": json.dumps({**json.loads(row["metadata"]), "newer": [1]}),
        }
        for row in rows.to_pylist()
    ]
    commit_upsert(manifest.dataset, rows_to_table(strange, manifest.dataset.schema), "object_id")
    again = replace(snapshot.schema, source="node Person {}\n")
    change = ManifestChange(
        new_draft(), (moved(snapshot.tables[PERSON]),), schema=again, branches=(snapshot.branch,)
    )
    publish(target_of(snapshot), change)
    after = {row["object_id"]: row for row in newest(store_location).dataset.read().to_pylist()}
    for row in strange:
        kept = after[row["object_id"]]
        assert kept["newer"] == row["object_id"]
        assert json.loads(kept["metadata"])["newer"] == [1]
    published = read_snapshot(store_location)
    assert (published.tables[PERSON].pin.version, published.schema.source) == (2, again.source)


def _append(location: Location, row: Row) -> None:
    dataset = newest(location).dataset
    commit_staged(dataset, stage_append(dataset, rows_to_table([row], dataset.schema)))


def test_two_heads_are_damage_and_older_versions_can_be_read(store_location: Location) -> None:
    make_graph(store_location)
    _append(store_location, encode_head(CommitId("ANOTHER")))
    _damaged(store_location, "2 graph_head rows where 1 belong")
    with pytest.raises(FormatError, match="2 graph_head rows"):
        newest(store_location).read_head()
    assert set(read_snapshot(store_location, version=1).tables) == set(TABLES)


def test_two_rows_of_one_table_are_damage(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    _append(store_location, encode_table(moved(snapshot.tables[PERSON])))
    _damaged(store_location, "4 table rows where 3 belong")


def test_two_tables_of_one_name_are_damage(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    twin = replace(snapshot.tables[PERSON], type_id=TypeId("00000000000000ff"))
    _append(store_location, encode_table(twin))
    _damaged(store_location, "two tables of one name")


def test_a_missing_column_is_damage(store_location: Location) -> None:
    make_graph(store_location)
    newest(store_location).dataset.native_copy().drop_columns(["owner"])
    _damaged(store_location, "no column owner")


@pytest.mark.parametrize("object_id", ["graph_head", "schema", "branch:main"])
def test_garbage_in_a_row_names_the_row(store_location: Location, object_id: str) -> None:
    make_graph(store_location)
    dataset = newest(store_location).dataset
    rows = [row for row in dataset.read().to_pylist() if row["object_id"] == object_id]
    garbage = rows_to_table([{**rows[0], "metadata": "\x00{"}], dataset.schema)
    commit_upsert(dataset, garbage, "object_id")
    with pytest.raises(FormatError) as caught:
        read_snapshot(store_location)
    assert (caught.value.code, caught.value.facts["object_id"]) == ("manifest_row_malformed", object_id)


def test_a_manifest_without_its_main_branch_is_damaged(store_location: Location) -> None:
    make_graph(store_location)
    newest(store_location).dataset.native_copy().delete("object_id = 'branch:main'")
    _damaged(store_location, "no branch:main row")


def test_a_catalog_that_is_not_the_one_of_its_hash_is_not_used(store_location: Location) -> None:
    record = make_graph(store_location).schema
    altered = replace(record, catalog_json=record.catalog_json.replace("slug", "plug"))
    assert record.catalog.nodes
    assert altered.catalog_json != record.catalog_json
    with pytest.raises(FormatError, match="do not belong together") as caught:
        _ = altered.catalog
    assert caught.value.code == "manifest_damaged"


def test_a_newest_version_without_content_was_never_acknowledged(local_location: Location) -> None:
    """A power cut leaves the name of a file whose content was not synced."""
    make_graph(local_location)
    before = pins_of(read_snapshot(local_location))
    publish_next(local_location)
    _version_file(local_location, 2).write_bytes(b"")
    assert pins_of(read_snapshot(local_location)) == before
    publish_next(local_location)
    assert read_snapshot(local_location).manifest.version == 2


@pytest.mark.parametrize("size", [7, 400])
def test_a_truncated_newest_version_is_one_clear_error(local_location: Location, size: int) -> None:
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


def test_what_is_not_there_is_told_apart(durable_location: Location) -> None:
    assert _missing(durable_location) == "graph_missing"
    store = ObjectStore(durable_location)
    store.create("notes.txt", b"mine")
    assert _missing(durable_location) == "not_a_graph"
    store.create("__init/x.json", b"{}")
    assert _missing(durable_location) == "init_unfinished"
    store.create(f"{MANIFEST}/notes.txt", b"mine")
    assert _missing(durable_location) == "init_unfinished"
    store.delete("__init/x.json")
    store.remove_empty_directory("__init")
    _damaged(durable_location, "no version at all")


def test_a_missing_version_and_a_missing_branch(durable_location: Location) -> None:
    make_graph(durable_location)
    with pytest.raises(NotFoundError, match="version 7 of the manifest"):
        open_manifest(durable_location, version=7)
    with pytest.raises(NotFoundError, match="on the Lance branch b-NO"):
        open_manifest(durable_location, lance_branch="b-NO")


def test_another_lance_table_is_no_manifest(local_location: Location) -> None:
    lance.write_dataset(pa.table({"id": ["a"]}), local_location.child(MANIFEST).uri)
    with pytest.raises(FormatError) as caught:
        read_snapshot(local_location)
    assert caught.value.code == "stamp_missing"


def _damaged(location: Location, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        read_snapshot(location)
    assert caught.value.code == "manifest_damaged"


def _missing(location: Location) -> str:
    with pytest.raises(NotFoundError) as caught:
        read_snapshot(location)
    return caught.value.code


def _version_file(location: Location, version: int) -> Path:
    return Path(location.uri, MANIFEST, "_versions", f"{2**64 - 1 - version}.manifest")
