"""Valid and invalid values of every type, in mixed columns and in columns of one kind."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.arrow.columns import plain_array
from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.convert.result import ConvertedColumn
from omnigraph.integrity.raw import MixedColumn, RawBatch
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.tables import arrow_type

S = {scalar.value: ScalarType(scalar) for scalar in Scalar}
ENUM = EnumType(("active", "left"))
I64_MIN, I64_MAX, U64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

GOOD: list[tuple[PropertyType, object, object]] = [
    (S["String"], "", ""),
    (S["String"], "é́ 🜁 \x00\n", "é́ 🜁 \x00\n"),
    (ENUM, "active", "active"),
    (S["Bool"], True, True),
    (S["Bool"], False, False),
    (S["I32"], -(2**31), -(2**31)),
    (S["I32"], 2**31 - 1, 2**31 - 1),
    (S["U32"], 2**32 - 1, 2**32 - 1),
    (S["I64"], I64_MIN, I64_MIN),
    (S["I64"], str(I64_MIN), I64_MIN),
    (S["I64"], str(I64_MAX), I64_MAX),
    (S["I64"], "0", 0),
    (S["U64"], U64_MAX, U64_MAX),
    (S["U64"], str(U64_MAX), U64_MAX),
    (S["F64"], 5, 5.0),
    (S["F64"], 2**63 + 1, float(2**63)),
    (S["F64"], 10**300, 1e300),
    (S["F64"], 5e-324, 5e-324),
    (S["F32"], 0.1, float(np.float32(0.1))),
    (S["F32"], 1e-60, 0.0),
    (S["Date"], "0001-01-01", date(1, 1, 1)),
    (S["Date"], "9999-12-31", date(9999, 12, 31)),
    (S["Date"], "2000-02-29", date(2000, 2, 29)),
    (S["Date"], date(2024, 5, 31), date(2024, 5, 31)),
    (S["DateTime"], "1970-01-01T00:00:00Z", 0),
    (S["DateTime"], "1969-12-31t23:59:59.9z", -100),
    (S["DateTime"], "1970-01-01T00:00:00.12+00:00", 120),
    (S["DateTime"], "1970-01-01T23:58:59.999+23:59", -1),
    (S["DateTime"], "0001-01-01T00:00:00Z", -62_135_596_800_000),
    (S["DateTime"], "0001-01-01T00:00:00-00:00", -62_135_596_800_000),
    (S["DateTime"], "9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    (S["DateTime"], datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
    (S["Blob"], "base64:", b""),
    (S["Blob"], "base64:AP8=", b"\x00\xff"),
    (S["Blob"], b"\x01", b"\x01"),
    (ListType(Scalar.STRING), [], []),
    (ListType(Scalar.STRING), ["", "é"], ["", "é"]),
    (ListType(Scalar.U64), [0, str(U64_MAX), U64_MAX], [0, U64_MAX, U64_MAX]),
    (ListType(Scalar.DATE), ["2024-02-29"], [date(2024, 2, 29)]),
    (VectorType(3), [1, 0.5, -0.25], [1.0, 0.5, -0.25]),
]

BAD: list[tuple[PropertyType, object, Rule]] = [
    (S["String"], 5, Rule.WRONG_TYPE),
    (S["String"], True, Rule.WRONG_TYPE),
    (S["String"], ["a"], Rule.WRONG_TYPE),
    (S["String"], {"a": 1}, Rule.WRONG_TYPE),
    (S["String"], "\ud800", Rule.NOT_UNICODE),
    (ENUM, 1, Rule.WRONG_TYPE),
    (S["Bool"], 1, Rule.WRONG_TYPE),
    (S["Bool"], "true", Rule.WRONG_TYPE),
    (S["I32"], True, Rule.WRONG_TYPE),
    (S["I32"], "5", Rule.WRONG_TYPE),
    (S["I32"], 5.0, Rule.WRONG_TYPE),
    (S["I32"], 2**31, Rule.NUMBER_SIZE),
    (S["I32"], -(2**31) - 1, Rule.NUMBER_SIZE),
    (S["U32"], -1, Rule.NUMBER_SIZE),
    (S["U32"], 2**32, Rule.NUMBER_SIZE),
    (S["I64"], I64_MAX + 1, Rule.NUMBER_SIZE),
    (S["I64"], str(I64_MAX + 1), Rule.NUMBER_SIZE),
    (S["I64"], str(I64_MIN - 1), Rule.NUMBER_SIZE),
    (S["I64"], "9" * 5000, Rule.NUMBER_SIZE),
    (S["I64"], 10**400, Rule.NUMBER_SIZE),
    (S["I64"], "007", Rule.WRONG_TYPE),
    (S["I64"], "+5", Rule.WRONG_TYPE),
    (S["I64"], "-0", Rule.WRONG_TYPE),
    (S["I64"], "0x1f", Rule.WRONG_TYPE),
    (S["I64"], " 5", Rule.WRONG_TYPE),
    (S["I64"], "5.0", Rule.WRONG_TYPE),
    (S["I64"], "٣", Rule.WRONG_TYPE),
    (S["I64"], "", Rule.WRONG_TYPE),
    (S["U64"], "-1", Rule.NUMBER_SIZE),
    (S["U64"], str(U64_MAX + 1), Rule.NUMBER_SIZE),
    (S["F64"], "0.5", Rule.WRONG_TYPE),
    (S["F64"], True, Rule.WRONG_TYPE),
    (S["F64"], float("nan"), Rule.NOT_FINITE),
    (S["F64"], float("-inf"), Rule.NOT_FINITE),
    (S["F64"], 10**400, Rule.NOT_FINITE),
    (S["F32"], 1e39, Rule.NOT_FINITE),
    (S["Date"], "0000-01-01", Rule.DATE),
    (S["Date"], "2023-02-29", Rule.DATE),
    (S["Date"], "1900-02-29", Rule.DATE),
    (S["Date"], "2024-13-01", Rule.DATE),
    (S["Date"], "2024-00-01", Rule.DATE),
    (S["Date"], "2024-04-31", Rule.DATE),
    (S["Date"], "2024-1-01", Rule.DATE),
    (S["Date"], "2024/01/01", Rule.DATE),
    (S["Date"], "2024-01-01 ", Rule.DATE),
    (S["Date"], "20240101", Rule.DATE),
    (S["Date"], "10000-01-01", Rule.DATE),
    (S["Date"], "", Rule.DATE),
    (S["Date"], "٢٠٢٤-٠١-٠١", Rule.DATE),
    (S["Date"], 20240101, Rule.WRONG_TYPE),
    (S["DateTime"], "2024-01-01", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00", Rule.DATETIME),
    (S["DateTime"], "2024-01-01 00:00:00Z", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00Z", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T24:00:00Z", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T23:60:00Z", Rule.DATETIME),
    (S["DateTime"], "2016-12-31T23:59:60Z", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00.Z", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00+24:00", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00+00:60", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00+0100", Rule.DATETIME),
    (S["DateTime"], "2024-01-01T00:00:00.1234Z", Rule.DATETIME_TOO_FINE),
    (S["DateTime"], "2024-01-01T00:00:00.000000+01:00", Rule.DATETIME_TOO_FINE),
    (S["DateTime"], "0001-01-01T00:00:00+00:01", Rule.DATETIME),
    (S["DateTime"], "9999-12-31T23:59:59-00:01", Rule.DATETIME),
    (S["DateTime"], 0, Rule.WRONG_TYPE),
    (S["DateTime"], datetime(2024, 1, 1), Rule.WRONG_TYPE),
    (S["DateTime"], datetime(2024, 1, 1, microsecond=1, tzinfo=UTC), Rule.DATETIME_TOO_FINE),
    (S["Blob"], "base64:A", Rule.BLOB_ENCODING),
    (S["Blob"], "base64:AA", Rule.BLOB_ENCODING),
    (S["Blob"], "base64:A A=", Rule.BLOB_ENCODING),
    (S["Blob"], "base64:AA==\n", Rule.BLOB_ENCODING),
    (S["Blob"], "base64:AA==AA==", Rule.BLOB_ENCODING),
    (S["Blob"], "base64:A-_=", Rule.BLOB_ENCODING),
    (S["Blob"], "s3://bucket/key", Rule.BLOB_URI),
    (S["Blob"], "", Rule.BLOB_URI),
    (S["Blob"], 1, Rule.WRONG_TYPE),
    (ListType(Scalar.I32), "a", Rule.WRONG_TYPE),
    (ListType(Scalar.I32), [1, None], Rule.LIST_ITEM_NULL),
    (ListType(Scalar.I32), [1, "2"], Rule.WRONG_TYPE),
    (ListType(Scalar.I32), [1, 2**31], Rule.NUMBER_SIZE),
    (ListType(Scalar.I32), [[1]], Rule.WRONG_TYPE),
    (ListType(Scalar.F64), [1.0, float("inf")], Rule.NOT_FINITE),
    (VectorType(2), [1.0], Rule.VECTOR_LENGTH),
    (VectorType(2), [], Rule.VECTOR_LENGTH),
    (VectorType(2), [None], Rule.VECTOR_LENGTH),
    (VectorType(2), ["a", 1, 2], Rule.VECTOR_LENGTH),
    (VectorType(2), [1.0, 2.0, 3.0], Rule.VECTOR_LENGTH),
    (VectorType(2), [1.0, None], Rule.LIST_ITEM_NULL),
    (VectorType(2), [1.0, float("nan")], Rule.NOT_FINITE),
    (VectorType(2), [1.0, 1e39], Rule.NOT_FINITE),
    (VectorType(2), [1.0, "2"], Rule.WRONG_TYPE),
    (VectorType(2), 1.0, Rule.WRONG_TYPE),
]


def python_values(converted: ConvertedColumn) -> list[object]:
    """Return the values as the table stores them: datetimes as milliseconds, blobs as bytes."""
    values = converted.values
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return [value["data"] if isinstance(value, dict) else value for value in values.to_pylist()]


@pytest.mark.parametrize(("target", "value", "expected"), GOOD, ids=str)
def test_valid_value_is_converted(target: PropertyType, value: object, expected: object) -> None:
    converted = convert(MixedColumn([None, value]), target)
    assert converted.invalid == ()
    assert converted.values.type == arrow_type(target)
    assert python_values(converted) == [None, expected]
    converted.values.validate(full=True)


@pytest.mark.parametrize(("target", "value", "rule"), BAD, ids=str)
def test_invalid_value_is_rejected(target: PropertyType, value: object, rule: Rule) -> None:
    converted = convert(MixedColumn([None, value, None]), target)
    assert [(entry.rule, entry.rows.tolist()) for entry in converted.invalid] == [(rule, [1])]
    assert converted.values.type == arrow_type(target)
    assert python_values(converted) == [None, None, None]


@pytest.mark.parametrize("target", [*S.values(), ENUM, ListType(Scalar.I32), VectorType(2)], ids=str)
def test_nulls_and_empty_columns_have_the_type(target: PropertyType) -> None:
    for raw in (MixedColumn([]), MixedColumn([None, None]), pa.nulls(2), pa.array([], pa.utf8())):
        converted = convert(raw, target)
        assert converted.values.type == arrow_type(target)
        assert converted.invalid == ()
        assert converted.values.null_count == len(raw)


def test_zero_has_no_sign() -> None:
    assert [str(value) for value in convert(MixedColumn([-0.0]), S["F64"]).values.to_pylist()] == ["0.0"]
    assert [str(value) for value in convert(pa.array([-0.0]), S["F32"]).values.to_pylist()] == ["0.0"]


TYPED_COLUMNS: list[tuple[Any, PropertyType, list[object]]] = [
    (pa.array([1, 2], pa.uint8()), S["I32"], [1, 2]),
    (pa.array([1, None], pa.decimal128(20, 0)), S["U64"], [1, None]),
    (pa.array(["a", None], pa.large_utf8()), S["String"], ["a", None]),
    (pa.array(["a", None], pa.string_view()), S["String"], ["a", None]),
    (pa.array(["active", None]).dictionary_encode(), ENUM, ["active", None]),
    (pa.array([1.5], pa.float16()), S["F32"], [1.5]),
    (pa.array([date(2024, 1, 2)], pa.date64()), S["Date"], [date(2024, 1, 2)]),
    (pa.array([0, 7_000_000], pa.timestamp("ns", "Europe/Rome")), S["DateTime"], [0, 7]),
    (pa.array([1], pa.timestamp("s", "UTC")), S["DateTime"], [1000]),
    (pa.array([b"a"], pa.binary()), S["Blob"], [b"a"]),
    (pa.array([[1], None], pa.large_list(pa.int8())), ListType(Scalar.I64), [[1], None]),
    (pa.array([[1, 2], None], pa.list_(pa.float64(), 2)), VectorType(2), [[1.0, 2.0], None]),
    (pa.array([[9], [1, 2], None, [3, 4]])[1:], VectorType(2), [[1.0, 2.0], None, [3.0, 4.0]]),
    (pa.array(["x", "2024-01-01", "2024-01-02"])[1:], S["Date"], [date(2024, 1, 1), date(2024, 1, 2)]),
    (pa.chunked_array([[1], [2]]), S["I32"], [1, 2]),
]


@pytest.mark.parametrize(
    ("raw", "target", "expected"), TYPED_COLUMNS, ids=lambda value: str(getattr(value, "type", ""))
)
def test_columns_of_other_sources_are_converted(raw: Any, target: PropertyType, expected: list[object]) -> None:
    converted = convert(plain_array(raw), target)
    assert converted.invalid == ()
    assert python_values(converted) == expected


REFUSED_COLUMNS: list[tuple[Any, PropertyType, Rule]] = [
    (pa.array([5.0]), S["I32"], Rule.WRONG_TYPE),
    (pa.array([datetime(2024, 1, 1)]), S["DateTime"], Rule.WRONG_TYPE),
    (pa.array([1], pa.timestamp("us", "UTC")), S["DateTime"], Rule.DATETIME_TOO_FINE),
    (pa.array([2**62], pa.timestamp("s", "UTC")), S["DateTime"], Rule.DATETIME),
    (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), S["Date"], Rule.DATE),
    (pa.array([1], pa.int64()).view(pa.date64()), S["Date"], Rule.DATE),
    (pa.array([b"\xff"], pa.binary()).view(pa.utf8()), S["String"], Rule.NOT_UNICODE),
    (pa.array([b"\xff"], pa.binary()).view(pa.utf8()), S["Date"], Rule.NOT_UNICODE),
    (pa.array([5], pa.decimal128(20, 1)), S["I64"], Rule.WRONG_TYPE),
]


@pytest.mark.parametrize(("raw", "target", "rule"), REFUSED_COLUMNS, ids=str)
def test_ambiguous_columns_are_rejected(raw: Any, target: PropertyType, rule: Rule) -> None:
    converted = convert(raw, target)
    assert [(entry.rule, entry.rows.tolist()) for entry in converted.invalid] == [(rule, [0])]


def test_absent_member_of_a_record_is_null() -> None:
    batch = RawBatch.from_records([{"a": 1}, {"b": None}])
    assert batch.rows == 2
    assert {name: list(column) for name, column in _cells(batch)} == {"a": [1, None], "b": [None, None]}


def _cells(batch: RawBatch) -> list[tuple[str, list[object]]]:
    return [(name, list(column.values)) for name, column in batch.columns.items() if isinstance(column, MixedColumn)]
