"""Converts one raw column to the type of a property, strictly, and lists every invalid row.

In: a raw column and a property's type. Out: an array of that type in which invalid values are null. No value is
coerced; the modules per kind describe what each type accepts. `row_rules` checks constraints: enums, ranges and
patterns. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import Column, Rows, nulls, plain_array, take_rows
from omnigraph.integrity.convert import scalars
from omnigraph.integrity.convert.lists import convert_lists, convert_vectors, is_list, lists_of
from omnigraph.integrity.convert.result import ConvertedColumn, InvalidValues, reject_all
from omnigraph.integrity.convert.times import convert_dates, convert_datetimes
from omnigraph.integrity.raw import HugeIntegers, Lists, MixedColumn, RawColumn, split_kinds
from omnigraph.integrity.rules import Rule
from omnigraph.schema import property_types as types
from omnigraph.schema.tables import arrow_type


def convert(raw: RawColumn, target: types.PropertyType) -> ConvertedColumn:
    """Convert a raw column."""
    if isinstance(raw, MixedColumn):
        return _convert_mixed(raw, target)
    array = plain_array(raw)
    if pa.types.is_null(array.type):
        return ConvertedColumn(nulls(len(array), arrow_type(target)))
    if not pa.types.is_string(array.type):
        return _convert_array(array, target)
    array, invalid = scalars.reject_invalid_unicode(array)
    converted = _convert_array(array, target)
    return ConvertedColumn(converted.values, (*invalid, *converted.invalid))


def _convert_array(array: Column, target: types.PropertyType) -> ConvertedColumn:
    match target:
        case types.EnumType():
            return scalars.convert_strings(array, "text (enum)")
        case types.ListType() | types.VectorType():
            if not is_list(array.type):
                return reject_all(array, f"a list ({types.type_text(target)})", arrow_type(target))
            return _convert_lists(lists_of(array), target)
        case types.ScalarType(scalar):
            return _convert_scalars(array, scalar)
        case _:
            assert_never(target)


def _convert_scalars(array: Column, scalar: types.Scalar) -> ConvertedColumn:
    match scalar:
        case types.Scalar.STRING:
            return scalars.convert_strings(array)
        case types.Scalar.BOOL:
            return scalars.convert_booleans(array)
        case types.Scalar.I32 | types.Scalar.I64 | types.Scalar.U32 | types.Scalar.U64:
            return scalars.convert_integers(array, scalar)
        case types.Scalar.F32 | types.Scalar.F64:
            return scalars.convert_floats(array, scalar)
        case types.Scalar.DATE:
            return convert_dates(array)
        case types.Scalar.DATETIME:
            return convert_datetimes(array)
        case types.Scalar.BLOB:
            return scalars.convert_blobs(array)
        case _:
            assert_never(scalar)


def _convert_lists(lists: Lists, target: types.ListType | types.VectorType) -> ConvertedColumn:
    if isinstance(target, types.VectorType):
        return convert_vectors(lists, target, convert)
    return convert_lists(lists, target, convert)


def _convert_mixed(column: MixedColumn, target: types.PropertyType) -> ConvertedColumn:
    """Convert the values of each kind together, then restore their order."""
    parts: list[Column] = [nulls(1, arrow_type(target))]
    positions = np.zeros(len(column), dtype=np.int64)
    invalid: list[InvalidValues] = []
    count = 1
    for rows, values in split_kinds(column):
        converted = _convert_kind(values, target)
        positions[rows] = np.arange(count, count + len(rows))
        count += len(rows)
        parts.append(converted.values)
        invalid.extend(replace(entry, rows=rows[entry.rows]) for entry in converted.invalid)
    return ConvertedColumn(take_rows(pa.concat_arrays(parts), positions), _merge_reasons(invalid))


def _convert_kind(values: Column | Lists | HugeIntegers, target: types.PropertyType) -> ConvertedColumn:
    match values, target:
        case HugeIntegers(nearest), types.ScalarType(scalar) if scalar in types.INTEGER_BOUNDS:
            return scalars.reject_huge(nearest, scalar)
        case HugeIntegers(nearest), types.ScalarType(scalar) if scalar in types.FLOATS:
            return convert(nearest, target)
        case HugeIntegers(nearest), _:
            return convert(nulls(len(nearest), pa.int64()).fill_null(0), target)
        case Lists(), types.ListType() | types.VectorType():
            return _convert_lists(values, target)
        case Lists(lengths), _:
            empty = pa.array([[]] * len(lengths), pa.list_(pa.null()))
            return convert(empty, target)
    assert isinstance(values, pa.Array)
    return convert(values, target)


def _merge_reasons(invalid: Sequence[InvalidValues]) -> tuple[InvalidValues, ...]:
    """Return one entry per reason, also if values of several kinds have it."""
    rows_by_reason: dict[tuple[Rule, str], list[Rows]] = {}
    for entry in invalid:
        rows_by_reason.setdefault((entry.rule, entry.message), []).append(entry.rows)
    return tuple(
        InvalidValues(rule, message, np.sort(np.concatenate(rows))) for (rule, message), rows in rows_by_reason.items()
    )
