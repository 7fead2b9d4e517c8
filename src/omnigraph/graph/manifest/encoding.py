"""The storage encoding of `__manifest`: records to rows and back, as docs/dev/formats.md specifies.

In: records, or Arrow rows of any release with the same format stamp. Out: rows or records. Integers of 64 bits are
text inside `metadata`, keys are sorted, and unknown keys and columns are kept. A row that cannot be read raises
`FormatError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from omnigraph.base.errors import FormatError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash
from omnigraph.graph.manifest.layout import TABLE_PATH
from omnigraph.graph.manifest.records import (
    BranchParent,
    BranchRecord,
    CommitRecord,
    Json,
    Pin,
    RecoveryRecord,
    SchemaRecord,
    StreamBatch,
    TableId,
    TableMove,
    TableRecord,
    TombstoneRecord,
    empty_mapping,
    tombstone_object_id,
)

Row = dict[str, Json]

HEAD_OBJECT_ID: Final = "graph_head"
SCHEMA_OBJECT_ID: Final = "schema"
METADATA_VERSION: Final = 1

_COLUMNS: Final[list[pa.Field[Any]]] = [
    pa.field(
        "object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}
    ),
    pa.field("object_type", pa.utf8()),
    pa.field("table_key", pa.utf8()),
    pa.field("type_id", pa.utf8()),
    pa.field("incarnation", pa.utf8()),
    pa.field("location", pa.utf8()),
    pa.field("table_branch", pa.utf8()),
    pa.field("owner", pa.utf8()),
    pa.field("metadata", pa.utf8()),
    pa.field("table_version", pa.uint64()),
    pa.field("row_count", pa.uint64()),
]
MANIFEST_SCHEMA: Final = pa.schema(_COLUMNS)
_PLAIN_METADATA: Final = '{"v":1}'

METADATA_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "branch": frozenset({"branch_id", "lance_branch", "parent", "creator", "created_us"}),
    "table": frozenset(),
    "table_tombstone": frozenset(),
    "schema": frozenset({"source", "catalog", "hash"}),
    "graph_commit": frozenset(
        {
            "parent", "merged_parent", "branch", "branch_id", "actor", "op", "op_id", "created_us",
            "manifest_hint", "tables", "counts", "schema_hash", "pins", "stream",
        }
    ),
    "graph_head": frozenset({"commit"}),
    "recovery": frozenset({"kind", "actor", "action", "recovered_us", "tables", "detail"}),
}  # fmt: skip
"""The keys of `metadata` that this release reads, by object type, in addition to `v`."""


def rows_to_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as a table with the schema of the manifest. Columns that a row does not name are null."""
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )


def keep_unknown(row: Row, replaced: Mapping[str, Any]) -> Row:
    """Return `row` with the unknown columns and metadata keys of the row that it replaces."""
    object_type, object_id = str(row["object_type"]), str(row["object_id"])
    columns = {name: value for name, value in replaced.items() if name not in MANIFEST_SCHEMA.names}
    if replaced["metadata"] == _PLAIN_METADATA:
        return {**columns, **row}
    unknown = _unknown(_load(object_type, object_id, replaced["metadata"]), object_type)
    facts = _load(object_type, object_id, str(row["metadata"]))
    return {**columns, **row, "metadata": _dump(facts, unknown)}


def table_object_id(table: TableId) -> str:
    """Return the key of the row of a table."""
    return f"table:{table}"


def encode_table(record: TableRecord) -> Row:
    """Return the row that publishes one table."""
    return {
        "object_id": table_object_id(record.id),
        "object_type": "table",
        "table_key": record.alias,
        "type_id": record.type_id,
        "incarnation": record.incarnation,
        "location": record.path,
        "table_branch": record.pin.branch,
        "owner": record.owner,
        "metadata": _PLAIN_METADATA,
        "table_version": record.pin.version,
        "row_count": record.row_count,
    }


def decode_table(row: Mapping[str, Any]) -> TableRecord:
    """Return the record of a `table` row."""
    return decode_tables([tuple(row[name] for name in MANIFEST_SCHEMA.names)])[0]


def decode_tables(rows: Iterable[tuple[Any, ...]]) -> list[TableRecord]:
    """Return the records of `table` rows, as values in the order of the columns. Every read calls it."""
    records = []
    for (
        object_id, _, alias, type_id, incarnation, path, branch, owner, metadata, version, row_count, *_
    ) in rows:  # fmt: skip
        if metadata != _PLAIN_METADATA:
            _load("table", object_id, metadata)
        if None in (alias, owner, version, row_count) or object_id != f"table:{type_id}:{incarnation}":
            raise _malformed("table", object_id)
        if path is None or not TABLE_PATH.fullmatch(path):
            raise _malformed("table", object_id)
        records.append(TableRecord(type_id, incarnation, alias, path, Pin(branch, version), owner, row_count))
    return records


def encode_tombstone(record: TombstoneRecord) -> Row:
    """Return the row that removes a table from snapshots."""
    type_id, incarnation = record.table.split(":")
    return {
        "object_id": tombstone_object_id(record.table, record.version),
        "object_type": "table_tombstone",
        "table_key": record.alias,
        "type_id": type_id,
        "incarnation": incarnation,
        "metadata": _PLAIN_METADATA,
        "table_version": record.version,
    }


def decode_tombstone(row: Mapping[str, Any]) -> TombstoneRecord:
    """Return the record of a `table_tombstone` row."""
    _load("table_tombstone", row["object_id"], row["metadata"])
    table = TableId(f"{row['type_id']}:{row['incarnation']}")
    if row["table_version"] is None or row["object_id"] != tombstone_object_id(table, row["table_version"]):
        raise _malformed("table_tombstone", row["object_id"])
    return TombstoneRecord(table, row["table_key"], row["table_version"])


def encode_schema(record: SchemaRecord) -> Row:
    """Return the row of the accepted schema."""
    facts: dict[str, Json] = {"source": record.source, "catalog": record.catalog_json, "hash": record.hash}
    return {"object_id": SCHEMA_OBJECT_ID, "object_type": "schema", "metadata": _dump(facts)}


def decode_schema(row: Mapping[str, Any]) -> SchemaRecord:
    """Return the record of the `schema` row."""
    facts = _load("schema", SCHEMA_OBJECT_ID, row["metadata"])
    source, catalog_json, schema_hash = (facts.get(key) for key in ("source", "catalog", "hash"))
    if isinstance(source, str) and isinstance(catalog_json, str) and isinstance(schema_hash, str):
        return SchemaRecord(source, catalog_json, SchemaHash(schema_hash))
    raise _malformed("schema", SCHEMA_OBJECT_ID)


def encode_head(commit: CommitId) -> Row:
    """Return the row that names the newest commit. Every publish writes it, so that publishers conflict."""
    return {
        "object_id": HEAD_OBJECT_ID,
        "object_type": "graph_head",
        "metadata": _dump({"commit": commit}),
    }


def decode_head(row: Mapping[str, Any]) -> CommitId:
    """Return the commit of the `graph_head` row."""
    facts = _load("graph_head", HEAD_OBJECT_ID, row["metadata"])
    if not isinstance(facts.get("commit"), str):
        raise _malformed("graph_head", HEAD_OBJECT_ID)
    return CommitId(facts["commit"])


def commit_object_id(commit: CommitId) -> str:
    """Return the key of the row of a commit."""
    return f"graph_commit:{commit}"


def encode_commit(record: CommitRecord) -> Row:
    """Return the row of one commit."""
    facts: dict[str, Json] = {
        "parent": record.parent,
        "merged_parent": record.merged_parent,
        "branch": record.branch,
        "branch_id": record.branch_id,
        "actor": record.actor,
        "op": record.operation,
        "op_id": record.operation_id,
        "created_us": str(record.created_us),
        "manifest_hint": _dump_pin(record.manifest_hint),
        "tables": [
            {"id": move.table, "from": _dump_pin(move.before), "to": _dump_pin(move.after)}
            for move in record.tables
        ],
        "counts": {name: str(count) for name, count in record.counts.items()},
        "schema_hash": record.schema_hash,
    }
    if record.pins is not None:
        facts["pins"] = {table: _dump_pin(pin) for table, pin in record.pins.items()}
    if record.stream is not None:
        facts["stream"] = {"query": record.stream.query, "batch": str(record.stream.batch)}
    return {
        "object_id": commit_object_id(record.id),
        "object_type": "graph_commit",
        "metadata": _dump(facts, record.extra),
    }


def decode_commit(row: Mapping[str, Any]) -> CommitRecord:
    """Return the record of a `graph_commit` row."""
    object_id = str(row["object_id"])
    facts = _load("graph_commit", object_id, row["metadata"])
    try:
        pins, stream = facts.get("pins"), facts.get("stream")
        return CommitRecord(
            id=CommitId(object_id.removeprefix("graph_commit:")),
            parent=_optional_commit(facts, "parent"),
            merged_parent=_optional_commit(facts, "merged_parent"),
            branch=_text(facts, "branch"),
            branch_id=BranchId(_text(facts, "branch_id")),
            actor=_text(facts, "actor"),
            operation=_text(facts, "op"),
            operation_id=OperationId(_text(facts, "op_id")),
            created_us=int(_text(facts, "created_us")),
            manifest_hint=_load_pin(facts["manifest_hint"]),
            tables=tuple(
                TableMove(TableId(_text(move, "id")), _optional_pin(move["from"]), _optional_pin(move["to"]))
                for move in facts["tables"]
            ),
            counts={name: int(_text(facts["counts"], name)) for name in facts["counts"]},
            schema_hash=SchemaHash(_text(facts, "schema_hash")),
            pins=None if pins is None else {TableId(table): _load_pin(pin) for table, pin in pins.items()},
            stream=None
            if stream is None
            else StreamBatch(_text(stream, "query"), int(_text(stream, "batch"))),
            extra=_unknown(facts, "graph_commit"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed("graph_commit", object_id) from error


def branch_object_id(name: str) -> str:
    """Return the key of the row of a branch."""
    return f"branch:{name}"


def encode_branch(record: BranchRecord) -> Row:
    """Return the row of a branch."""
    parent = record.parent
    facts: dict[str, Json] = {
        "branch_id": record.id,
        "lance_branch": record.lance_branch,
        "parent": None
        if parent is None
        else {"branch": parent.branch, "branch_id": parent.branch_id, "commit": parent.commit},
        "creator": record.creator,
        "created_us": str(record.created_us),
    }
    metadata = _dump(facts)
    return {"object_id": branch_object_id(record.name), "object_type": "branch", "metadata": metadata}


def decode_branch(row: Mapping[str, Any]) -> BranchRecord:
    """Return the record of a `branch` row."""
    object_id = str(row["object_id"])
    facts = _load("branch", object_id, row["metadata"])
    try:
        parent = facts["parent"]
        return BranchRecord(
            name=object_id.removeprefix("branch:"),
            id=BranchId(_text(facts, "branch_id")),
            lance_branch=_optional_text(facts, "lance_branch"),
            parent=None
            if parent is None
            else BranchParent(
                _text(parent, "branch"),
                BranchId(_text(parent, "branch_id")),
                CommitId(_text(parent, "commit")),
            ),
            creator=_text(facts, "creator"),
            created_us=int(_text(facts, "created_us")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed("branch", object_id) from error


def recovery_object_id(operation: OperationId) -> str:
    """Return the key of the audit row of a recovery."""
    return f"recovery:{operation}"


def encode_recovery(record: RecoveryRecord) -> Row:
    """Return the audit row of one recovery."""
    facts: dict[str, Json] = {
        "kind": record.kind,
        "actor": record.actor,
        "action": record.action,
        "recovered_us": str(record.recovered_us),
        "tables": dict(record.tables),
        "detail": record.detail,
    }
    return {
        "object_id": recovery_object_id(record.operation_id),
        "object_type": "recovery",
        "metadata": _dump(facts),
    }


def decode_recovery(row: Mapping[str, Any]) -> RecoveryRecord:
    """Return the record of a `recovery` row."""
    object_id = str(row["object_id"])
    facts = _load("recovery", object_id, row["metadata"])
    try:
        return RecoveryRecord(
            operation_id=OperationId(object_id.removeprefix("recovery:")),
            kind=_text(facts, "kind"),
            actor=_text(facts, "actor"),
            action=_text(facts, "action"),
            recovered_us=int(_text(facts, "recovered_us")),
            tables={table: _text(facts["tables"], table) for table in facts["tables"]},
            detail=_text({"detail": "", **facts}, "detail"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed("recovery", object_id) from error


def _dump_pin(pin: Pin | None) -> Json:
    return None if pin is None else {"branch": pin.branch, "version": str(pin.version)}


def _load_pin(facts: Mapping[str, Any]) -> Pin:
    return Pin(_optional_text(facts, "branch"), int(_text(facts, "version")))


def _optional_pin(facts: Mapping[str, Any] | None) -> Pin | None:
    return None if facts is None else _load_pin(facts)


def _text(facts: Mapping[str, Any], key: str) -> str:
    value = facts[key]
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _optional_text(facts: Mapping[str, Any], key: str) -> str | None:
    return None if facts[key] is None else _text(facts, key)


def _optional_commit(facts: Mapping[str, Any], key: str) -> CommitId | None:
    return None if facts[key] is None else CommitId(_text(facts, key))


def _dump(facts: Mapping[str, Json], extra: Mapping[str, Json] = empty_mapping()) -> str:
    return msgspec.json.encode({**extra, **facts, "v": METADATA_VERSION}, order="sorted").decode()


def _load(object_type: str, object_id: str, metadata: str | None) -> dict[str, Any]:
    try:
        facts = msgspec.json.decode(metadata or "")
    except msgspec.DecodeError as error:
        raise _malformed(object_type, object_id) from error
    if not isinstance(facts, dict) or facts.get("v") != METADATA_VERSION:
        raise _malformed(object_type, object_id)
    return facts


def _unknown(facts: Mapping[str, Json], object_type: str) -> dict[str, Json]:
    current_keys = METADATA_KEYS[object_type]
    return {key: value for key, value in facts.items() if key != "v" and key not in current_keys}


def _malformed(object_type: str, object_id: str) -> FormatError:
    return FormatError(
        f"cannot read the {object_type} row '{object_id}' of the manifest",
        code="manifest_row_malformed",
        hint=hint("The manifest is damaged or was written by another release. Run {}.", action("doctor")),
        facts={"object_type": object_type, "object_id": object_id},
    )
