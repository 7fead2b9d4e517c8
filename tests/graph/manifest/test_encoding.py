"""The storage encoding: golden rows of every kind, round trips, and invalid rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, SchemaHash, TypeId
from omnigraph.graph.manifest.encoding import (
    MANIFEST_SCHEMA,
    METADATA_KEYS,
    Row,
    decode_branch,
    decode_commit,
    decode_head,
    decode_recovery,
    decode_schema,
    decode_table,
    decode_tombstone,
    encode_branch,
    encode_commit,
    encode_head,
    encode_recovery,
    encode_schema,
    encode_table,
    encode_tombstone,
    keep_unknown,
    rows_to_table,
)
from omnigraph.graph.manifest.records import (
    BranchParent,
    BranchRecord,
    CommitRecord,
    Pin,
    RecoveryRecord,
    SchemaRecord,
    StreamBatch,
    TableId,
    TableMove,
    TableRecord,
    TombstoneRecord,
    WriteOperation,
)

ULID = "01JF8ZK2Q4ABCDEFGHJKMNPQRS"
TYPE, INCARNATION = TypeId("0000000000000001"), Incarnation("9f8e7d6c5b4a3921")
TABLE = TableId(f"{TYPE}:{INCARNATION}")
HASH = SchemaHash("ab" * 32)
PATH = f"nodes/{TYPE}-{INCARNATION}"

BIG = 2**63 + 5
COMMIT = CommitRecord(
    id=CommitId(ULID),
    parent=CommitId("P"),
    merged_parent=CommitId("M"),
    branch="review/1",
    branch_id=BranchId("B"),
    actor="Zoë",
    operation=WriteOperation.MERGE,
    operation_id=OperationId("O"),
    created_us=1_700_000_000_000_000,
    manifest_hint=Pin("b-B", 12),
    tables=(TableMove(TABLE, None, Pin("g-B-O", BIG)), TableMove(TableId("1:2"), Pin(None, 3), None)),
    counts={"inserted": 7},
    schema_hash=HASH,
    pins={TABLE: Pin(None, 4)},
    stream=StreamBatch("Q", BIG),
)
HINT = '{"branch":"b-B","version":"12"}'
MOVES = (
    f'[{{"from":null,"id":"{TABLE}","to":{{"branch":"g-B-O","version":"{BIG}"}}}},'
    '{"from":{"branch":null,"version":"3"},"id":"1:2","to":null}]'
)
METADATA = {
    "table": '{"v":1}',
    "table_tombstone": '{"v":1}',
    "schema": f'{{"catalog":"{{}}","hash":"{HASH}","source":"node A {{}}\\n","v":1}}',
    "graph_head": f'{{"commit":"{ULID}","v":1}}',
    "graph_commit": (
        '{"actor":"Zoë","branch":"review/1","branch_id":"B","counts":{"inserted":"7"},'
        f'"created_us":"1700000000000000","manifest_hint":{HINT},"merged_parent":"M","op":"merge","op_id":"O",'
        f'"parent":"P","pins":{{"{TABLE}":{{"branch":null,"version":"4"}}}},"schema_hash":"{HASH}",'
        f'"stream":{{"batch":"{BIG}","query":"Q"}},"tables":{MOVES},"v":1}}'
    ),
    "branch": (
        '{"branch_id":"B","created_us":"5","creator":"me","lance_branch":"b-B",'
        '"parent":{"branch":"main","branch_id":"A","commit":"C"},"v":1}'
    ),
    "recovery": (
        '{"action":"rolled_back","actor":"me","detail":"","kind":"load","recovered_us":"6",'
        f'"tables":{{"{TABLE}":"fenced"}},"v":1}}'
    ),
}
ROWS: dict[str, Row] = {
    "table": encode_table(
        TableRecord(
            type_id=TYPE,
            incarnation=INCARNATION,
            alias="node:Person",
            path=PATH,
            pin=Pin("g-B-O", BIG),
            owner=BranchId("B"),
            row_count=2**40,
        )
    ),
    "table_tombstone": encode_tombstone(TombstoneRecord(TABLE, "node:Person", 9)),
    "schema": encode_schema(SchemaRecord("node A {}\n", "{}", HASH)),
    "graph_head": encode_head(CommitId(ULID)),
    "graph_commit": encode_commit(COMMIT),
    "branch": encode_branch(
        BranchRecord(
            name="review/1",
            id=BranchId("B"),
            lance_branch="b-B",
            parent=BranchParent("main", BranchId("A"), CommitId("C")),
            creator="me",
            created_us=5,
        )
    ),
    "recovery": encode_recovery(
        RecoveryRecord(
            operation_id=OperationId(ULID),
            operation=WriteOperation.LOAD,
            actor="me",
            action="rolled_back",
            recovered_us=6,
            tables={TABLE: "fenced"},
        )
    ),
}
OBJECT_IDS = {
    "table": f"table:{TABLE}",
    "table_tombstone": f"table_tombstone:{TABLE}:9",
    "schema": "schema",
    "graph_head": "graph_head",
    "graph_commit": f"graph_commit:{ULID}",
    "branch": "branch:review/1",
    "recovery": f"recovery:{ULID}",
}
DECODERS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "table": decode_table,
    "table_tombstone": decode_tombstone,
    "schema": decode_schema,
    "graph_head": decode_head,
    "graph_commit": decode_commit,
    "branch": decode_branch,
    "recovery": decode_recovery,
}
each_kind = pytest.mark.parametrize("kind", ROWS)


def test_columns_of_the_manifest() -> None:
    texts = ["object_type", "table_key", "type_id", "incarnation", "location", "table_branch", "owner", "metadata"]
    key = pa.field("object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    numbers: list[pa.Field[Any]] = [pa.field("table_version", pa.uint64()), pa.field("row_count", pa.uint64())]
    columns: list[pa.Field[Any]] = [key, *(pa.field(name, pa.utf8()) for name in texts), *numbers]
    expected = pa.schema(columns)
    assert expected.equals(MANIFEST_SCHEMA, check_metadata=True)


def test_every_kind_has_golden_bytes() -> None:
    assert METADATA.keys() == ROWS.keys() == OBJECT_IDS.keys() == DECODERS.keys() == METADATA_KEYS.keys()


@each_kind
def test_metadata_bytes(kind: str) -> None:
    assert ROWS[kind]["metadata"] == METADATA[kind]


@each_kind
def test_object_id_and_object_type(kind: str) -> None:
    assert ROWS[kind]["object_id"] == OBJECT_IDS[kind]
    assert ROWS[kind]["object_type"] == kind


def test_other_columns_of_a_table_and_a_tombstone() -> None:
    others = {name: value for name, value in ROWS["table"].items() if name not in ("object_id", "metadata")}
    assert others == {
        "object_type": "table",
        "table_key": "node:Person",
        "type_id": TYPE,
        "incarnation": INCARNATION,
        "location": PATH,
        "table_branch": "g-B-O",
        "owner": "B",
        "table_version": BIG,
        "row_count": 2**40,
    }
    stone = ROWS["table_tombstone"]
    assert (stone["type_id"], stone["incarnation"], stone["table_version"]) == (TYPE, INCARNATION, 9)


@each_kind
def test_other_kinds_have_only_metadata(kind: str) -> None:
    if kind not in ("table", "table_tombstone"):
        assert set(ROWS[kind]) == {"object_id", "object_type", "metadata"}


@each_kind
def test_keys_are_sorted_and_only_v_is_a_json_number(kind: str) -> None:
    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        assert names == sorted(names)
        assert [name for name, value in pairs if isinstance(value, int | float)] in ([], ["v"])
        return dict(pairs)

    facts = json.loads(str(ROWS[kind]["metadata"]), object_pairs_hook=check)
    assert facts.keys() <= METADATA_KEYS[kind] | {"v"}


@each_kind
def test_row_round_trips_through_arrow(kind: str) -> None:
    row = rows_to_table([ROWS[kind]], MANIFEST_SCHEMA).to_pylist()[0]
    record = DECODERS[kind](row)
    assert {name: value for name, value in row.items() if value is not None} == {
        name: value for name, value in ROWS[kind].items() if value is not None
    }
    assert record == DECODERS[kind](ROWS[kind])


def test_only_merges_have_pins_and_only_streams_have_a_batch() -> None:
    plain = CommitRecord(**{**_fields(COMMIT), "pins": None, "stream": None})
    assert not {"pins", "stream"} & json.loads(str(encode_commit(plain)["metadata"])).keys()
    assert decode_commit(encode_commit(plain)) == plain


@each_kind
@pytest.mark.parametrize("metadata", [None, "", "{", "[]", "3", '{"v":2}', "{}", '{"v":"1"}', "\x00garbage"], ids=repr)
def test_invalid_metadata_is_a_format_error(kind: str, metadata: str | None) -> None:
    with pytest.raises(FormatError) as caught:
        DECODERS[kind]({**dict.fromkeys(MANIFEST_SCHEMA.names), **ROWS[kind], "metadata": metadata})
    assert caught.value.code == "manifest_row_malformed"
    assert caught.value.facts["object_type"] == kind


@each_kind
def test_missing_or_invalid_value_is_a_format_error(kind: str) -> None:
    facts = json.loads(METADATA[kind])
    required = facts.keys() - {"v", "pins", "stream", "detail"}
    for key in required:
        without = {name: value for name, value in facts.items() if name != key}
        for invalid in (without, {**facts, key: 7.5}):
            _require_format_error(kind, {**ROWS[kind], "metadata": json.dumps(invalid)})


@pytest.mark.parametrize("column", ["table_key", "type_id", "incarnation", "location", "owner", "table_version"])
def test_table_row_without_a_value_is_a_format_error(column: str) -> None:
    _require_format_error("table", {**ROWS["table"], column: None})


@pytest.mark.parametrize(("column", "value"), [("table_version", None), ("table_version", 8), ("type_id", "2")])
def test_tombstone_that_contradicts_its_key_is_a_format_error(column: str, value: str | int | None) -> None:
    _require_format_error("table_tombstone", {**ROWS["table_tombstone"], column: value})


@each_kind
def test_replacing_a_row_keeps_unknown_keys_and_columns(kind: str) -> None:
    facts = {**json.loads(METADATA[kind]), "newer": {"b": [1.5, 2**70], "a": None}, "v": 1}
    old = {**ROWS[kind], "metadata": json.dumps(facts), "newer_column": 3}
    replaced = keep_unknown(ROWS[kind], old)
    assert replaced["newer_column"] == 3
    assert json.loads(str(replaced["metadata"])) == facts
    assert DECODERS[kind](replaced) == DECODERS[kind](ROWS[kind])
    assert keep_unknown(ROWS[kind], {**dict.fromkeys(MANIFEST_SCHEMA.names), **ROWS[kind]}) == ROWS[kind]


def test_replacing_a_row_replaces_all_known_keys() -> None:
    old = encode_head(CommitId("OLD"))
    assert keep_unknown(encode_head(CommitId("NEW")), old) == encode_head(CommitId("NEW"))


def test_copied_commit_keeps_unknown_keys() -> None:
    facts = {**json.loads(METADATA["graph_commit"]), "newer": [1, {"x": True}]}
    again = encode_commit(decode_commit({**ROWS["graph_commit"], "metadata": json.dumps(facts)}))
    assert json.loads(str(again["metadata"])) == facts


text = st.text(max_size=12)
versions = st.integers(0, 2**64 - 1)
pins = st.builds(Pin, st.none() | text, versions)
hexes = st.text("0123456789abcdef", min_size=16, max_size=16)
table_ids = st.builds(lambda a, b: TableId(f"{a}:{b}"), hexes, hexes)
counts = st.dictionaries(text, st.integers(-(2**63), 2**64 - 1), max_size=3)
paths = st.builds("{}/{}-{}".format, st.sampled_from(["nodes", "edges"]), hexes, hexes)
tables = st.builds(
    TableRecord, type_id=hexes, incarnation=hexes, alias=text, path=paths, pin=pins, owner=text, row_count=versions
)
commits = st.builds(
    CommitRecord,
    id=text,
    parent=st.none() | text,
    merged_parent=st.none() | text,
    branch=text,
    branch_id=text,
    actor=text,
    operation=text.map(WriteOperation),
    operation_id=text,
    created_us=versions,
    manifest_hint=pins,
    tables=st.lists(st.builds(TableMove, table_ids, st.none() | pins, st.none() | pins), max_size=3).map(tuple),
    counts=counts,
    schema_hash=text,
    pins=st.none() | st.dictionaries(table_ids, pins, max_size=2),
)
branches = st.builds(
    BranchRecord,
    name=text,
    id=text,
    lance_branch=st.none() | text,
    parent=st.none() | st.builds(BranchParent, text, text, text),
    creator=text,
    created_us=versions,
)
recoveries = st.builds(
    RecoveryRecord,
    operation_id=text,
    operation=text.map(WriteOperation),
    actor=text,
    action=text,
    recovered_us=versions,
    tables=st.dictionaries(text, text),
    detail=text,
)


@given(tables)
def test_table_round_trips(record: TableRecord) -> None:
    assert decode_table(_through_arrow(encode_table(record))) == record


@given(st.builds(TombstoneRecord, table_ids, text, versions))
def test_tombstone_round_trips(record: TombstoneRecord) -> None:
    assert decode_tombstone(_through_arrow(encode_tombstone(record))) == record


@given(st.builds(SchemaRecord, text, text, text))
def test_schema_round_trips(record: SchemaRecord) -> None:
    assert decode_schema(_through_arrow(encode_schema(record))) == record


@given(text)
def test_head_round_trips(commit: str) -> None:
    assert decode_head(_through_arrow(encode_head(CommitId(commit)))) == commit


@given(commits)
def test_commit_round_trips(record: CommitRecord) -> None:
    assert decode_commit(_through_arrow(encode_commit(record))) == record


@given(branches)
def test_branch_round_trips(record: BranchRecord) -> None:
    assert decode_branch(_through_arrow(encode_branch(record))) == record


@given(recoveries)
def test_recovery_round_trips(record: RecoveryRecord) -> None:
    assert decode_recovery(_through_arrow(encode_recovery(record))) == record


def _through_arrow(row: Row) -> Mapping[str, Any]:
    stored: Mapping[str, Any] = rows_to_table([row], MANIFEST_SCHEMA).to_pylist()[0]
    return stored


def _require_format_error(kind: str, row: Row) -> None:
    with pytest.raises(FormatError):
        DECODERS[kind](row)


def _fields(record: CommitRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}
