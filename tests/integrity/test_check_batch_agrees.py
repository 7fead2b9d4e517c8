"""Whole batches agree with the reference: every violation, every typed value, every id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.integrity.check import check_batch
from omnigraph.integrity.raw import RawBatch
from omnigraph.integrity.rules import Rule
from omnigraph.schema.catalog import NodeType, Property
from omnigraph.schema.patterns import matches_whole
from omnigraph.schema.property_types import EnumType, Scalar, ScalarType
from tests.integrity.reference import array_of, text_of, typed
from tests.integrity.samples import node

Record = Mapping[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_junk = st.sampled_from([True, 5.0, "", "x", [], [1], {}, 2**64, -(2**70)])
PERSONS = st.fixed_dictionaries(
    {},
    optional={
        "slug": st.sampled_from(["ada", "b-1", "Ada", "é", "a\n", None]) | _junk,
        "age": st.sampled_from([0, 200, -1, 201, 2**31, None]) | _junk,
        "status": st.sampled_from(["active", "left", "lefts", None]) | _junk,
        "email": st.sampled_from(["a@b", "@", None]) | _junk,
        "born": st.sampled_from(["1900-01-01", "1899-12-31", "2023-02-29", None]) | _junk,
        "seen": st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.001Z", None]) | _junk,
        "score": st.sampled_from([1.5, -1.5, 1.6, 1e39, -0.0, 1, None]) | _junk,
        "level": st.sampled_from([1, None]) | _junk,
        "id": st.sampled_from(["ada", "b-1", None, 5]),
        "other": st.sampled_from([None, 1, "x"]),
    },
)
READINGS = st.fixed_dictionaries(
    {
        "at": st.sampled_from(["2024-02-29T00:00:00.5+01:00", "0001-01-01T00:00:00Z", "x"]),
        "sensor": st.sampled_from(["a", 'q"\\\n\x1f', "é🜁", "", None]),
        "value": st.sampled_from([0.1, -0.0, 16777217, 1e-45, 3.4028235e38, None]),
        "ok": st.booleans(),
        "n": st.sampled_from([0, "0", 2**64 - 1, str(2**64 - 1), "-1"]),
    }
)


@given(st.lists(PERSONS, max_size=6))
@settings(max_examples=300)
def test_persons(records: list[Record]) -> None:
    assert_agrees(node("Person"), records)


@given(st.lists(READINGS, max_size=6))
@settings(max_examples=100)
def test_readings(records: list[Record]) -> None:
    assert_agrees(node("Reading"), records)


def assert_agrees(entity: NodeType, records: Sequence[Record]) -> None:
    checked = check_batch(entity, RawBatch.from_records(records))
    actual = [(int(row), group.property, group.rule) for group in checked.violations for row in group.rows]
    assert sorted(actual, key=str) == sorted(
        ((row, *broken) for row, record in enumerate(records) for broken in _broken(entity, record)), key=str
    )
    expected_ids = [_identity(entity, record) for record in records]
    assert checked.rows.column("id").to_pylist() == expected_ids


def _broken(entity: NodeType, record: Record) -> Iterator[tuple[str, Rule]]:
    for name, value in record.items():
        if name != "id" and entity.property_named(name) is None and value is not None:
            yield name, Rule.UNKNOWN_PROPERTY
    for definition in entity.properties:
        yield from ((definition.name, rule) for rule in _value_rules(entity, definition, record.get(definition.name)))
    if len(entity.key) == 1 and record.get(entity.key[0]) == "":
        yield entity.key[0], Rule.BLANK_ID
    explicit = record.get("id")
    identity = _identity(entity, record)
    if explicit is not None and not isinstance(explicit, str):
        yield "id", Rule.WRONG_TYPE
    elif explicit is not None and identity is not None and explicit != identity:
        yield "id", Rule.ID_MISMATCH


def _value_rules(entity: NodeType, definition: Property, raw: object) -> Iterator[Rule]:
    if raw is None:
        if not definition.nullable and definition.default is None:
            yield Rule.REQUIRED
        return
    value = typed(raw, definition.type)
    if isinstance(value, Rule):
        yield value
        return
    if isinstance(definition.type, EnumType) and value not in definition.type.values:
        yield Rule.ENUM
    if definition.type == ScalarType(Scalar.DATETIME):
        assert isinstance(value, int)
        value = _EPOCH + timedelta(milliseconds=value)
    for bounded in entity.rules.ranges:
        if bounded.property == definition.name and not bounded.bounds.contains(value):  # type: ignore[arg-type]
            yield Rule.RANGE
    for checked in entity.rules.checks:
        if checked.property == definition.name and not matches_whole(checked.pattern, str(value)):
            yield Rule.CHECK


def _identity(entity: NodeType, record: Record) -> str | None:
    parts = []
    for name in entity.key:
        definition = entity.property_named(name)
        assert definition is not None
        value = None if record.get(name) is None else typed(record[name], definition.type)
        if value is None or isinstance(value, Rule):
            return None
        parts.append(text_of(value, definition.type))
    return parts[0] if len(parts) == 1 else array_of(parts)
