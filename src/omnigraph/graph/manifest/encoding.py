"""The storage encoding of `__manifest`: records to rows and back, as docs/dev/formats.md specifies.

In: records, or Arrow rows of any release with the same format stamp. Out: rows or records. Integers of 64 bits are
text inside `metadata`, keys are sorted, and unknown keys and columns are kept. A row that cannot be read raises
`FormatError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from omnigraph.base.decoding import convert
from omnigraph.base.errors import FormatError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import CommitId, OperationId, SchemaHash
from omnigraph.graph.manifest import records
from omnigraph.graph.manifest.layout import TABLE_PATH

Row = dict[str, records.Json]
_Metadata = TypeVar("_Metadata", bound=msgspec.Struct)

HEAD_OBJECT_ID: Final = "graph_head"
SCHEMA_OBJECT_ID: Final = "schema"
METADATA_VERSION: Final = 1

_COLUMNS: Final[list[pa.Field[Any]]] = [
    pa.field("object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
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


class _Plain(msgspec.Struct, frozen=True):
    """The metadata of tables and tombstones: only `v`."""


class _Schema(msgspec.Struct, frozen=True, rename={"catalog_json": "catalog"}):
    source: str
    catalog_json: str
    hash: str


class _Head(msgspec.Struct, frozen=True):
    commit: str


class _Move(msgspec.Struct, frozen=True, rename={"table": "id", "before": "from", "after": "to"}):
    table: str
    before: records.Pin | None
    after: records.Pin | None


class _Commit(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"operation": "op", "operation_id": "op_id"}
):
    parent: str | None
    merged_parent: str | None
    branch: str
    branch_id: str
    actor: str
    operation: records.WriteOperation
    operation_id: str
    created_us: int
    manifest_hint: records.Pin
    tables: tuple[_Move, ...]
    counts: dict[str, int]
    schema_hash: str
    pins: dict[str, records.Pin] | None = None
    stream: records.StreamBatch | None = None


class _Branch(msgspec.Struct, frozen=True, rename={"id": "branch_id"}):
    id: str
    lance_branch: str | None
    parent: records.BranchParent | None
    creator: str
    created_us: int


class _Recovery(msgspec.Struct, frozen=True, rename={"operation": "kind"}):
    operation: records.WriteOperation
    actor: str
    action: str
    recovered_us: int
    tables: dict[str, str]
    detail: str = ""


_METADATA: Final[Mapping[str, type[msgspec.Struct]]] = {
    "branch": _Branch,
    "table": _Plain,
    "table_tombstone": _Plain,
    "schema": _Schema,
    "graph_commit": _Commit,
    "graph_head": _Head,
    "recovery": _Recovery,
}
METADATA_KEYS: Final[Mapping[str, frozenset[str]]] = {
    object_type: frozenset(metadata.__struct_encode_fields__) for object_type, metadata in _METADATA.items()
}
"""The keys of `metadata` that this release reads, by object type, in addition to `v`."""


def rows_to_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as a table with the schema of the manifest. Columns that a row does not name are null."""
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def keep_unknown(row: Row, replaced: Mapping[str, Any]) -> Row:
    """Return `row` with the unknown columns and metadata keys of the row that it replaces."""
    object_type, object_id = str(row["object_type"]), str(row["object_id"])
    columns = {name: value for name, value in replaced.items() if name not in MANIFEST_SCHEMA.names}
    if replaced["metadata"] == _PLAIN_METADATA:
        return {**columns, **row}
    unknown = _unknown_keys(_load(object_type, object_id, replaced["metadata"]), object_type)
    facts = _load(object_type, object_id, str(row["metadata"]))
    return {**columns, **row, "metadata": _dump(facts, unknown)}


def table_object_id(table: records.TableId) -> str:
    """Return the key of the row of a table."""
    return f"table:{table}"


def encode_table(record: records.TableRecord) -> Row:
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


def decode_table(row: Mapping[str, Any]) -> records.TableRecord:
    """Return the record of a `table` row."""
    return decode_tables([tuple(row[name] for name in MANIFEST_SCHEMA.names)])[0]


def decode_tables(rows: Iterable[tuple[Any, ...]]) -> list[records.TableRecord]:
    """Return the records of `table` rows: tuples in the order of the columns, because every read calls this."""
    tables = []
    for (
        object_id, _, alias, type_id, incarnation, path, branch, owner, metadata, version, row_count, *_
    ) in rows:  # fmt: skip
        if metadata != _PLAIN_METADATA:
            _load("table", object_id, metadata)
        if None in (alias, owner, version, row_count) or object_id != f"table:{type_id}:{incarnation}":
            raise _malformed("table", object_id)
        if path is None or not TABLE_PATH.fullmatch(path):
            raise _malformed("table", object_id)
        tables.append(
            records.TableRecord(
                type_id=type_id,
                incarnation=incarnation,
                alias=alias,
                path=path,
                pin=records.Pin(branch, version),
                owner=owner,
                row_count=row_count,
            )
        )
    return tables


def encode_tombstone(record: records.TombstoneRecord) -> Row:
    """Return the row that removes a table from snapshots."""
    type_id, incarnation = record.table.split(":")
    return {
        "object_id": records.tombstone_object_id(record.table, record.version),
        "object_type": "table_tombstone",
        "table_key": record.alias,
        "type_id": type_id,
        "incarnation": incarnation,
        "metadata": _PLAIN_METADATA,
        "table_version": record.version,
    }


def decode_tombstone(row: Mapping[str, Any]) -> records.TombstoneRecord:
    """Return the record of a `table_tombstone` row."""
    _load("table_tombstone", row["object_id"], row["metadata"])
    table = records.TableId(f"{row['type_id']}:{row['incarnation']}")
    if row["table_version"] is None or row["object_id"] != records.tombstone_object_id(table, row["table_version"]):
        raise _malformed("table_tombstone", row["object_id"])
    return records.TombstoneRecord(table, row["table_key"], row["table_version"])


def encode_schema(record: records.SchemaRecord) -> Row:
    """Return the row of the accepted schema."""
    return _row("schema", SCHEMA_OBJECT_ID, record)


def decode_schema(row: Mapping[str, Any]) -> records.SchemaRecord:
    """Return the record of the `schema` row."""
    schema = _decode("schema", SCHEMA_OBJECT_ID, row["metadata"], _Schema)
    return records.SchemaRecord(schema.source, schema.catalog_json, SchemaHash(schema.hash))


def encode_head(commit: CommitId) -> Row:
    """Return the row that names the newest commit. Every publish writes it, so that publishers conflict."""
    return _row("graph_head", HEAD_OBJECT_ID, _Head(commit))


def decode_head(row: Mapping[str, Any]) -> CommitId:
    """Return the commit of the `graph_head` row."""
    return CommitId(_decode("graph_head", HEAD_OBJECT_ID, row["metadata"], _Head).commit)


def commit_object_id(commit: CommitId) -> str:
    """Return the key of the row of a commit."""
    return f"graph_commit:{commit}"


def encode_commit(record: records.CommitRecord) -> Row:
    """Return the row of one commit."""
    return _row("graph_commit", commit_object_id(record.id), record, record.extra)


def decode_commit(row: Mapping[str, Any]) -> records.CommitRecord:
    """Return the record of a `graph_commit` row."""
    object_id = str(row["object_id"])
    facts = _load("graph_commit", object_id, row["metadata"])
    fields = msgspec.structs.asdict(_convert("graph_commit", object_id, facts, _Commit))
    fields["tables"] = tuple(records.TableMove(move.table, move.before, move.after) for move in fields["tables"])
    commit = CommitId(object_id.removeprefix("graph_commit:"))
    return records.CommitRecord(id=commit, extra=_unknown_keys(facts, "graph_commit"), **fields)


def branch_object_id(name: str) -> str:
    """Return the key of the row of a branch."""
    return f"branch:{name}"


def encode_branch(record: records.BranchRecord) -> Row:
    """Return the row of a branch."""
    return _row("branch", branch_object_id(record.name), record)


def decode_branch(row: Mapping[str, Any]) -> records.BranchRecord:
    """Return the record of a `branch` row."""
    object_id = str(row["object_id"])
    fields: dict[str, Any] = msgspec.structs.asdict(_decode("branch", object_id, row["metadata"], _Branch))
    return records.BranchRecord(name=object_id.removeprefix("branch:"), **fields)


def recovery_object_id(operation: OperationId) -> str:
    """Return the key of the audit row of a recovery."""
    return f"recovery:{operation}"


def encode_recovery(record: records.RecoveryRecord) -> Row:
    """Return the audit row of one recovery."""
    return _row("recovery", recovery_object_id(record.operation_id), record)


def decode_recovery(row: Mapping[str, Any]) -> records.RecoveryRecord:
    """Return the record of a `recovery` row."""
    object_id = str(row["object_id"])
    fields: dict[str, Any] = msgspec.structs.asdict(_decode("recovery", object_id, row["metadata"], _Recovery))
    return records.RecoveryRecord(operation_id=OperationId(object_id.removeprefix("recovery:")), **fields)


def _row(object_type: str, object_id: str, record: object, extra: Mapping[str, records.Json] = records.NO_EXTRA) -> Row:
    """Return a row; its metadata has the attributes of the record that `_METADATA` names for this object type."""
    metadata = convert(record, _METADATA[object_type], from_attributes=True)
    facts = _with_text_numbers(msgspec.to_builtins(metadata))
    return {"object_id": object_id, "object_type": object_type, "metadata": _dump(facts, extra)}


def _with_text_numbers(value: Any) -> Any:
    """Return JSON with integers as text."""
    match value:
        case dict():
            return {key: _with_text_numbers(item) for key, item in value.items()}
        case list() | tuple():
            return [_with_text_numbers(item) for item in value]
        case int():
            return str(value)
        case _:
            return value


def _decode(object_type: str, object_id: str, metadata: str | None, struct: type[_Metadata]) -> _Metadata:
    return _convert(object_type, object_id, _load(object_type, object_id, metadata), struct)


def _convert(object_type: str, object_id: str, facts: Mapping[str, Any], struct: type[_Metadata]) -> _Metadata:
    try:
        return convert(facts, struct, strict=False)  # not strict: integers are text
    except msgspec.ValidationError as error:
        raise _malformed(object_type, object_id) from error


def _dump(facts: Mapping[str, records.Json], extra: Mapping[str, records.Json] = records.NO_EXTRA) -> str:
    return msgspec.json.encode({**extra, **facts, "v": METADATA_VERSION}, order="sorted").decode()


def _load(object_type: str, object_id: str, metadata: str | None) -> dict[str, Any]:
    try:
        facts = msgspec.json.decode(metadata or "")
    except msgspec.DecodeError as error:
        raise _malformed(object_type, object_id) from error
    if not isinstance(facts, dict) or facts.get("v") != METADATA_VERSION:
        raise _malformed(object_type, object_id)
    return facts


def _unknown_keys(facts: Mapping[str, records.Json], object_type: str) -> dict[str, records.Json]:
    current_keys = METADATA_KEYS[object_type]
    return {key: value for key, value in facts.items() if key != "v" and key not in current_keys}


def _malformed(object_type: str, object_id: str) -> FormatError:
    return FormatError(
        f"cannot read {object_type} row '{object_id}' of the manifest: it is damaged or was written by another release",
        code="manifest_row_malformed",
        hint=hint("Run {}.", action("doctor")),
        facts={"object_type": object_type, "object_id": object_id},
    )
