"""The storage encoding of `__manifest`: records to rows and back, to the letter of docs/dev/formats.md.

In: records, or Arrow rows of any release that shares the stamp. Out: the other one. Integers of 64 bits are
text inside `metadata`, keys are sorted, unknown keys and columns are kept. A row that cannot be understood is a
`FormatError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, SchemaHash, TypeId
from omnigraph.graph.records import (
    BranchParent,
    BranchRecord,
    CommitRecord,
    Json,
    Pin,
    RecoveryRecord,
    SchemaRecord,
    TableId,
    TableMove,
    TableRecord,
    TombstoneRecord,
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
_KNOWN_COLUMNS: Final = frozenset(MANIFEST_SCHEMA.names)
_PLAIN_METADATA: Final = '{"v":1}'


def rows_to_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of the manifest's own schema; columns a row does not name are null."""
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )


def encode_table(record: TableRecord) -> Row:
    """The row that publishes one table."""
    return {
        **record.columns,
        "object_id": f"table:{record.id}",
        "object_type": "table",
        "table_key": record.alias,
        "type_id": record.type_id,
        "incarnation": record.incarnation,
        "location": record.path,
        "table_branch": record.pin.branch,
        "owner": record.owner,
        "metadata": _dump({}, record.extra),
        "table_version": record.pin.version,
        "row_count": record.row_count,
    }


def decode_tables(rows: pa.Table) -> tuple[TableRecord, ...]:
    """The `table` rows, column by column: this is on the path of every read."""
    unknown = [name for name in rows.column_names if name not in _KNOWN_COLUMNS]
    more: list[dict[str, Json]] = rows.select(unknown).to_pylist() if unknown else []
    names = ("type_id", "incarnation", "table_key", "location", "table_branch", "owner", "metadata")
    texts = [rows.column(name).to_pylist() for name in (*names, "table_version", "row_count")]
    records = []
    for index, (type_id, incarnation, alias, path, branch, owner, metadata, version, count) in enumerate(
        zip(*texts, strict=True)
    ):
        if type_id is None or incarnation is None or path is None or owner is None or version is None:
            raise _malformed("table", str(alias))
        records.append(
            TableRecord(
                TypeId(type_id),
                Incarnation(incarnation),
                alias,
                path,
                Pin(branch, version),
                BranchId(owner),
                count or 0,
                _extra(_load("table", alias, metadata), ()) if metadata != _PLAIN_METADATA else {},
                more[index] if unknown else {},
            )
        )
    return tuple(records)


def encode_tombstone(record: TombstoneRecord) -> Row:
    """The row that takes a table out of snapshots."""
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
    """A `table_tombstone` row."""
    table = TableId(f"{row['type_id']}:{row['incarnation']}")
    return TombstoneRecord(table, row["table_key"], int(row["table_version"]))


def encode_schema(record: SchemaRecord) -> Row:
    """The row of the accepted schema."""
    facts: dict[str, Json] = {"source": record.source, "catalog": record.catalog_json, "hash": record.hash}
    return {"object_id": SCHEMA_OBJECT_ID, "object_type": "schema", "metadata": _dump(facts, record.extra)}


def decode_schema(row: Mapping[str, Any]) -> SchemaRecord:
    """The `schema` row."""
    facts = _load("schema", SCHEMA_OBJECT_ID, row["metadata"])
    try:
        extra = _extra(facts, ("source", "catalog", "hash"))
        return SchemaRecord(facts["source"], facts["catalog"], SchemaHash(facts["hash"]), extra)
    except KeyError as missing:
        raise _malformed("schema", SCHEMA_OBJECT_ID) from missing


def encode_head(commit: CommitId) -> Row:
    """The row that names the branch's newest commit. Every publish writes it, so that publishers collide."""
    return {
        "object_id": HEAD_OBJECT_ID,
        "object_type": "graph_head",
        "metadata": _dump({"commit": commit}, {}),
    }


def decode_head(row: Mapping[str, Any]) -> CommitId:
    """The `graph_head` row."""
    facts = _load("graph_head", HEAD_OBJECT_ID, row["metadata"])
    if not isinstance(facts.get("commit"), str):
        raise _malformed("graph_head", HEAD_OBJECT_ID)
    return CommitId(facts["commit"])


def commit_object_id(commit: CommitId) -> str:
    """The key of a commit's row."""
    return f"graph_commit:{commit}"


def encode_commit(record: CommitRecord) -> Row:
    """The row of one commit."""
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
    return {
        "object_id": commit_object_id(record.id),
        "object_type": "graph_commit",
        "metadata": _dump(facts, record.extra),
    }


_COMMIT_KEYS: Final = (
    "parent", "merged_parent", "branch", "branch_id", "actor", "op", "op_id", "created_us", "manifest_hint",
    "tables", "counts", "schema_hash", "pins",
)  # fmt: skip


def decode_commit(row: Mapping[str, Any]) -> CommitRecord:
    """A `graph_commit` row."""
    object_id = str(row["object_id"])
    facts = _load("graph_commit", object_id, row["metadata"])
    try:
        hint = _load_pin(facts["manifest_hint"])
        if hint is None:
            raise _malformed("graph_commit", object_id)
        pins = facts.get("pins")
        return CommitRecord(
            id=CommitId(object_id.removeprefix("graph_commit:")),
            parent=facts["parent"],
            merged_parent=facts["merged_parent"],
            branch=facts["branch"],
            branch_id=BranchId(facts["branch_id"]),
            actor=facts["actor"],
            operation=facts["op"],
            operation_id=OperationId(facts["op_id"]),
            created_us=int(facts["created_us"]),
            manifest_hint=hint,
            tables=tuple(
                TableMove(TableId(move["id"]), _load_pin(move["from"]), _load_pin(move["to"]))
                for move in facts["tables"]
            ),
            counts={name: int(count) for name, count in facts["counts"].items()},
            schema_hash=SchemaHash(facts["schema_hash"]),
            pins=None if pins is None else _load_pins(pins),
            extra=_extra(facts, _COMMIT_KEYS),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed("graph_commit", object_id) from error


def branch_object_id(name: str) -> str:
    """The key of a branch's row."""
    return f"branch:{name}"


def encode_branch(record: BranchRecord) -> Row:
    """The row that is a branch."""
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
    metadata = _dump(facts, record.extra)
    return {"object_id": branch_object_id(record.name), "object_type": "branch", "metadata": metadata}


def decode_branch(row: Mapping[str, Any]) -> BranchRecord:
    """A `branch` row."""
    object_id = str(row["object_id"])
    facts = _load("branch", object_id, row["metadata"])
    try:
        parent = facts["parent"]
        return BranchRecord(
            name=object_id.removeprefix("branch:"),
            id=BranchId(facts["branch_id"]),
            lance_branch=facts["lance_branch"],
            parent=None
            if parent is None
            else BranchParent(parent["branch"], BranchId(parent["branch_id"]), CommitId(parent["commit"])),
            creator=facts["creator"],
            created_us=int(facts["created_us"]),
            extra=_extra(facts, ("branch_id", "lance_branch", "parent", "creator", "created_us")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed("branch", object_id) from error


def recovery_object_id(operation: OperationId) -> str:
    """The key of a finished recovery's row."""
    return f"recovery:{operation}"


def encode_recovery(record: RecoveryRecord) -> Row:
    """The row that audits one recovery."""
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
        "metadata": _dump(facts, record.extra),
    }


def decode_recovery(row: Mapping[str, Any]) -> RecoveryRecord:
    """A `recovery` row."""
    object_id = str(row["object_id"])
    facts = _load("recovery", object_id, row["metadata"])
    try:
        return RecoveryRecord(
            operation_id=OperationId(object_id.removeprefix("recovery:")),
            kind=facts["kind"],
            actor=facts["actor"],
            action=facts["action"],
            recovered_us=int(facts["recovered_us"]),
            tables=dict(facts["tables"]),
            detail=facts.get("detail", ""),
            extra=_extra(facts, ("kind", "actor", "action", "recovered_us", "tables", "detail")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed("recovery", object_id) from error


def _dump_pin(pin: Pin | None) -> Json:
    return None if pin is None else {"branch": pin.branch, "version": str(pin.version)}


def _load_pin(facts: Mapping[str, Any] | None) -> Pin | None:
    return None if facts is None else Pin(facts["branch"], int(facts["version"]))


def _load_pins(facts: Mapping[str, Any]) -> dict[TableId, Pin]:
    return {TableId(table): Pin(pin["branch"], int(pin["version"])) for table, pin in facts.items()}


def _dump(facts: Mapping[str, Json], extra: Mapping[str, Json]) -> str:
    return msgspec.json.encode({**extra, **facts, "v": METADATA_VERSION}, order="sorted").decode()


def _load(object_type: str, object_id: str, metadata: str | None) -> dict[str, Any]:
    try:
        facts = msgspec.json.decode(metadata or "")
    except msgspec.DecodeError as error:
        raise _malformed(object_type, object_id) from error
    if not isinstance(facts, dict) or facts.get("v") != METADATA_VERSION:
        raise _malformed(object_type, object_id)
    return facts


def _extra(facts: Mapping[str, Json], known: tuple[str, ...]) -> Mapping[str, Json]:
    return {key: value for key, value in facts.items() if key != "v" and key not in known}


def _malformed(object_type: str, object_id: str) -> FormatError:
    return FormatError(
        f"the manifest's {object_type} row '{object_id}' cannot be read",
        code="manifest_row_malformed",
        hint="the manifest may be damaged or written by another release; `omnigraph doctor` looks at everything",
        facts={"object_type": object_type, "object_id": object_id},
    )
