"""docs/dev/formats.md lists exactly the keys that the files of a real graph have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.base.failpoints import observed
from omnigraph.base.ids import OperationId, SchemaHash, new_ulid
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.encoding import METADATA_KEYS
from omnigraph.graph.manifest.layout import ROOT_NAMES
from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import RecoveryRecord, SchemaRecord, StreamBatch, TombstoneRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.schema.tables import NULL_FILLS_KEY
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.transactions import TransactionRecord, read_operations
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.docs.markdown import ROOT
from tests.graph.publishing import make_graph, new_draft, target_of
from tests.graph.writers import COMPANY, PERSON, run
from tests.graph.writers import Change as TableChange

GOLDEN: Final = ROOT / "tests" / "schema" / "golden" / "good"
_ROW: Final = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_ROW_WITH_TYPE: Final = re.compile(r"^\| `([^`]+)` \| (\w+) \|", re.MULTILINE)

Keys = dict[str, set[str]]


@cache
def sections() -> dict[str, str]:
    """Return the sections of the document by heading."""
    parts = re.split(r"^#+ (.*)$", (ROOT / "docs/dev/formats.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(heading: str) -> set[str]:
    return set(_ROW.findall(sections()[heading]))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Location:
    """Create a graph whose manifest has every kind of row and every optional key."""
    location = parse_location(str(tmp_path_factory.mktemp("formats") / "graph.omni"))
    first = make_graph(location)
    run(location, [TableChange(PERSON, insert=("a",))])
    create_branch(location, "review/1", "me", read_snapshot(location))
    run(location, [TableChange(PERSON, insert=("b",))], branch="review/1")
    dropped = first.tables[COMPANY]
    draft = new_draft("merge")
    change = ManifestChange(
        commit=replace(
            draft,
            actor="me",
            created_us=1,
            counts={"rows": 1},
            merged_parent=first.head,
            pins={dropped.id: dropped.pin},
            stream=StreamBatch("a-query", 3),
        ),
        tombstones=(TombstoneRecord(dropped.id, COMPANY, dropped.pin.version),),
        schema=SchemaRecord(first.schema.source, first.schema.catalog_json, SchemaHash(first.schema.hash)),
        recovery=RecoveryRecord(
            operation_id=OperationId(new_ulid()),
            operation=WriteOperation.LOAD,
            actor="me",
            action="rolled_back",
            recovered_us=1,
            tables={dropped.id: "fenced"},
        ),
    )
    publish(target_of(first), change)
    return location


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Return the keys of every control object of an init and a write on a branch, by kind of object."""
    location = parse_location(str(tmp_path_factory.mktemp("objects") / "graph.omni"))
    keys: Keys = defaultdict(set)

    def collect(effect: str, target: str) -> None:
        if Path(location.uri).is_dir():
            store = ObjectStore(location)
            for entry in store.list(""):
                if entry.path.startswith(("__init/", "__recovery/", "__locks/")):
                    _collect_object(keys, entry.path, json.loads(store.read(entry.path) or b"{}"))

    with observed(collect):
        make_graph(location)
        create_branch(location, "b", "me", read_snapshot(location))
        terms = LeaseTerms(lease_seconds=0.0)
        run(location, [TableChange(PERSON, insert=("a",))], branch="b", environment=WriteEnvironment(terms=terms))
        collect("", "")
    return keys


def _collect_object(keys: Keys, path: str, facts: dict[str, Any]) -> None:
    folder, name = path.split("/", maxsplit=1)[0], path.rsplit("/", maxsplit=1)[-1]
    if folder == "__init":
        keys["Init marker members"] |= facts.keys()
    elif folder == "__locks":
        keys["Mark members" if name.count(".") > 1 else "Lock members"] |= facts.keys()
        keys["Locks"].add(re.sub(r"\d+", "N", name))
    else:
        keys["Intent members"] |= facts.keys()
        for table in facts["tables"]:
            keys["Intent table"] |= table.keys()
            keys["fork"] |= (table["forked_from"] or {}).keys()


def _rows(location: Location) -> Iterable[tuple[str, str, dict[str, Any]]]:
    for row in open_manifest(location).dataset.read().to_pylist():
        yield row["object_type"], row["object_id"], json.loads(row["metadata"])


def test_layout(graph: Location) -> None:
    assert documented("Layout") == ROOT_NAMES
    assert {path.name for path in Path(graph.uri).iterdir()} <= ROOT_NAMES


def test_columns_and_their_types(graph: Location) -> None:
    schema = open_manifest(graph).dataset.schema
    types = {field.name: {"string": "utf8"}.get(str(field.type), str(field.type)) for field in schema}
    assert dict(_ROW_WITH_TYPE.findall(sections()["Manifest columns"])) == types


def test_schema_metadata_of_main_and_of_a_branch(graph: Location) -> None:
    branch = read_snapshot(graph, "review/1").manifest
    for manifest in (open_manifest(graph), branch):
        assert documented("Manifest schema metadata") == manifest.dataset.metadata.keys()
        assert manifest.dataset.metadata["omnigraph:internal_schema_version"] == "1"


def test_kinds_of_rows_and_their_keys(graph: Location) -> None:
    rows = list(_rows(graph))
    assert documented("Manifest rows") == {kind for kind, _, _ in rows} == METADATA_KEYS.keys()
    keys = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", sections()["Manifest rows"], re.MULTILINE))
    for kind, object_id, _ in rows:
        assert re.fullmatch(re.sub(r"<[^>]+>", r"[^:]+", keys[kind]), object_id)


@pytest.mark.parametrize("kind", sorted(METADATA_KEYS))
def test_metadata_of_every_kind(graph: Location, kind: str) -> None:
    keys = {key for row_kind, _, facts in _rows(graph) if row_kind == kind for key in facts}
    assert keys - {"v"} == documented(f"Metadata of {kind}") == METADATA_KEYS[kind]


def test_nested_metadata(graph: Location) -> None:
    keys: Keys = defaultdict(set)
    for kind, _, facts in _rows(graph):
        if kind == "branch":
            keys["Parent of a branch"] |= (facts["parent"] or {}).keys()
        if kind == "graph_commit":
            keys["Pin"] |= facts["manifest_hint"].keys()
            for move in facts["tables"]:
                keys["Table of a commit"] |= move.keys()
                keys["Pin"] |= (move["from"] or {}).keys() | (move["to"] or {}).keys()
            keys["Stream of a commit"] |= facts.get("stream", {}).keys()
            for pin in facts.get("pins", {}).values():
                keys["Pin"] |= pin.keys()
    assert keys == {heading: documented(heading) for heading in keys}
    assert keys.keys() == {"Parent of a branch", "Pin", "Stream of a commit", "Table of a commit"}


@pytest.mark.parametrize(
    "heading", ["Intent members", "Intent table", "Lock members", "Mark members", "Init marker members"]
)
def test_control_objects(objects: Keys, heading: str) -> None:
    assert objects[heading] == documented(heading)


def test_members_of_a_fork(objects: Keys) -> None:
    assert objects["fork"] == {"branch", "version"}


def test_names_of_locks(objects: Keys) -> None:
    names = {re.sub(r"<[^>]+>", "N", name) for name in documented("Locks")}
    assert objects["Locks"] == names


def test_transaction_properties_of_tables(graph: Location) -> None:
    main, branch = read_snapshot(graph), read_snapshot(graph, "review/1")
    keys = {key for snapshot in (main, branch) for key in _properties(snapshot)}
    assert keys == documented("Transaction properties of tables")


def _properties(snapshot: Snapshot) -> Iterable[str]:
    table = snapshot.tables[PERSON]
    dataset = open_dataset(snapshot.root.child(table.path), branch=table.pin.branch, version=table.pin.version)
    for record in read_operations(dataset, dataset.version - 1, dataset.version):
        assert isinstance(record, TransactionRecord)
        yield from record.properties


def test_field_metadata_of_tables(graph: Location) -> None:
    table = read_snapshot(graph).tables[PERSON]
    schema = open_dataset(graph.child(table.path)).schema
    keys = {key.decode() for field in schema for key in (field.metadata or {})}
    keys.add(NULL_FILLS_KEY)  # exists only after null got a default
    assert keys == documented("Field metadata of tables")


def test_catalog() -> None:
    keys: Keys = defaultdict(set)
    for path in GOLDEN.glob("*.catalog.json"):
        catalog = json.loads(path.read_text())
        keys["Catalog members"] |= catalog.keys()
        for heading, types in (("Catalog node", catalog["nodes"]), ("Catalog edge", catalog["edges"])):
            for entity in types:
                keys[heading] |= entity.keys()
                _collect_rules(keys, entity)
        for interface in catalog.get("interfaces", []):
            _collect_rules(keys, interface)
    # These exist only after a default was changed or null got one, so no single schema has them.
    keys["Catalog property"] |= {"filled", "null_fills"}
    assert keys == {heading: documented(heading) for heading in keys}


def _collect_rules(keys: Keys, entity: dict[str, Any]) -> None:
    for own in entity.get("properties", []):
        keys["Catalog property"] |= own.keys()
        keys["Catalog type"] |= own["type"].keys()
    for heading, key in (("Catalog range", "ranges"), ("Catalog check", "checks")):
        for rule in entity.get(key, []):
            keys[heading] |= rule.keys()


def test_every_table_of_keys_is_compared() -> None:
    compared = {
        "Layout", "Manifest schema metadata", "Manifest columns", "Manifest rows", "Parent of a branch", "Pin",
        "Stream of a commit", "Table of a commit", "Intent members", "Intent table", "Locks", "Lock members",
        "Mark members", "Init marker members", "Transaction properties of tables", "Field metadata of tables",
        "Catalog members", "Catalog node", "Catalog edge", "Catalog property", "Catalog type",
        "Catalog range", "Catalog check",
        *(f"Metadata of {kind}" for kind in METADATA_KEYS if METADATA_KEYS[kind]),
    }  # fmt: skip
    assert {heading for heading, text in sections().items() if _ROW.search(text)} - {"Tables"} == compared
