"""Conversion agrees with the reference for each value: in mixed columns, columns of one kind, and Arrow's JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.convert.result import ConvertedColumn
from omnigraph.integrity.raw import MixedColumn, raw_type
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from tests.integrity.convert.test_column import python_values
from tests.integrity.reference import typed

_edges = [n + d for n in (0, 2**31, 2**32, 2**53, 2**63, 2**64, 10**19) for d in (-1, 0, 1)]
integers = st.sampled_from([sign * n for n in _edges for sign in (1, -1)]) | st.integers(-1000, 1000)
integer_texts = integers.map(str) | st.text("0123456789-+ex. ", max_size=6)
floats = st.floats() | st.floats(width=32) | st.sampled_from([1e39, 3.4028235677973366e38, 1e-46, -0.0])
texts = st.text(st.characters(codec="utf-8") | st.sampled_from('\x00\n"\\'), max_size=6)

_digits = st.sampled_from(["00", "01", "02", "04", "12", "13", "23", "24", "28", "29", "30", "31", "32", "59", "60"])
_years = st.sampled_from(["0000", "0001", "1900", "1969", "1970", "2000", "2023", "2024", "9999"])
_dates = st.builds("{}-{}-{}".format, _years, _digits, _digits)
_fractions = st.sampled_from(["", ".", ".0", ".12", ".999", ".9990", ".123456"])
_zones = st.sampled_from(["", "Z", "z", "+00:00", "-23:59", "+23:59", "+24:00", "-00:60", "+0100", "+1:00"])
_datetimes = st.builds(
    "{}{}{}:{}:{}{}{}".format, _dates, st.sampled_from("Tt "), _digits, _digits, _digits, _fractions, _zones
)


@st.composite
def _damaged(draw: st.DrawFn, valid: st.SearchStrategy[str]) -> str:
    """Return text with one character replaced."""
    text = draw(valid)
    position = draw(st.integers(0, max(0, len(text) - 1)))
    return text[:position] + draw(st.sampled_from("0/9:-+TZ.é ")) + text[position + 1 :]


dates = _dates | _damaged(_dates)
datetimes = _datetimes | _damaged(_datetimes)
blobs = st.sampled_from(["base64:", "base64:AA==", "base64:AAA=", "base64:AA", "base64:é", "http://x", ""])
json_texts = st.one_of(texts, integer_texts, dates, datetimes, blobs)
json_scalars = st.one_of(st.booleans(), integers, floats, json_texts)

scalar_types = st.sampled_from([ScalarType(scalar) for scalar in Scalar])
_items = st.sampled_from([scalar for scalar in Scalar if scalar is not Scalar.BLOB])
types: st.SearchStrategy[PropertyType] = st.one_of(
    scalar_types, st.just(EnumType(("a", "b"))), _items.map(ListType), st.integers(1, 3).map(VectorType)
)


def assert_agrees(values: Sequence[object], target: PropertyType, converted: ConvertedColumn) -> None:
    """Check for equal values, and the same rule for each invalid row."""
    expected = [None if value is None else typed(value, target) for value in values]
    invalid = {row: entry.rule for entry in converted.invalid for row in entry.rows.tolist()}
    assert invalid == {row: entry for row, entry in enumerate(expected) if isinstance(entry, Rule)}
    assert len(invalid) == sum(len(entry.rows) for entry in converted.invalid)
    assert python_values(converted) == [None if isinstance(entry, Rule) else entry for entry in expected]


@given(st.lists(st.none() | json_scalars | st.just({"a": 1}), max_size=8), types)
@settings(max_examples=600)
def test_mixed_columns(values: list[object], target: PropertyType) -> None:
    assert_agrees(values, target, convert(MixedColumn(values), target))


_kinds = st.sampled_from([st.booleans(), integers, floats, texts, integer_texts, dates, datetimes, blobs])


@given(_kinds.flatmap(lambda kind: st.lists(st.lists(st.none() | kind, max_size=3), max_size=5)), types)
@settings(max_examples=300)
def test_lists_of_one_kind(values: list[list[object]], target: PropertyType) -> None:
    one_mistake = [_with_one_rule(value, target) for value in values]
    assert_agrees(one_mistake, target, convert(MixedColumn(one_mistake), target))


def _with_one_rule(items: list[object], target: PropertyType) -> list[object]:
    """Return the list without items that violate another rule than the first invalid one: either may be reported."""
    item = ScalarType(Scalar.F32) if isinstance(target, VectorType) else None
    item = ScalarType(target.item) if isinstance(target, ListType) else item
    if item is None:
        return items
    rules = [typed(value, item) if value is not None else Rule.LIST_ITEM_NULL for value in items]
    first = next((rule for rule in rules if isinstance(rule, Rule)), None)
    return [value for value, rule in zip(items, rules, strict=True) if not isinstance(rule, Rule) or rule is first]


_arrow_kinds = st.sampled_from(
    [
        (st.booleans(), pa.bool_()),
        (st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**31, -(2**31) - 1, 2**32, -1]), pa.int64()),
        (st.integers(0, 2**64 - 1), pa.uint64()),
        (floats, pa.float64()),
        (json_texts, pa.utf8()),
        (dates, pa.utf8()),
        (datetimes, pa.utf8()),
        (integer_texts, pa.utf8()),
    ]
)


@given(st.data(), types, st.integers(0, 2))
@settings(max_examples=500)
def test_columns_of_one_kind(data: st.DataObject, target: PropertyType, skipped: int) -> None:
    kind, arrow = data.draw(_arrow_kinds)
    values: list[object] = data.draw(st.lists(st.none() | kind, min_size=skipped, max_size=12))
    build: Any = pa.array
    assert_agrees(values[skipped:], target, convert(build(values, arrow)[skipped:], target))


@given(st.lists(datetimes | dates, min_size=1, max_size=30))
@settings(max_examples=100)
@example(["2024-02-29T23:59:59.999-23:59"])
def test_dates_and_datetimes(texts: list[str]) -> None:
    for target in (ScalarType(Scalar.DATETIME), ScalarType(Scalar.DATE)):
        assert_agrees(texts, target, convert(pa.array(texts), target))


_finite = integers | st.floats(allow_nan=False, allow_infinity=False)


_native_kinds = st.sampled_from(
    [st.booleans(), integers, _finite, texts, datetimes, st.lists(_finite, max_size=3), st.lists(texts, max_size=3)]
)


@given(_native_kinds.flatmap(lambda kind: st.lists(st.none() | kind, min_size=1, max_size=5)), types)
@settings(max_examples=200)
def test_native_and_python_parsers_agree(values: list[object], target: PropertyType) -> None:
    """Arrow's JSON reader with the raw schema gives the same result as the parser for Python values."""
    lines = b"".join(msgspec.json.encode({"p": value}) + b"\n" for value in values)
    parse = pyarrow.json.ParseOptions(explicit_schema=pa.schema([pa.field("p", raw_type(target))]))
    try:
        column = pyarrow.json.read_json(io.BytesIO(lines), parse_options=parse).column("p").combine_chunks()
    except pa.ArrowInvalid:
        return  # the parser for Python values is used
    careful = convert(MixedColumn([msgspec.json.decode(line)["p"] for line in lines.splitlines()]), target)
    native = convert(column, target)
    assert python_values(native) == python_values(careful)
    assert [(entry.rule, entry.message, entry.rows.tolist()) for entry in native.invalid] == [
        (entry.rule, entry.message, entry.rows.tolist()) for entry in careful.invalid
    ]
