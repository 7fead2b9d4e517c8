"""Converts one raw column to the type of a property, strictly, and lists every invalid row.

In: a raw column and a property's type. Out: an array of that type in which invalid values are null. No value is
coerced; the modules per kind describe what each type accepts. `row_rules` checks constraints: enums, ranges and
patterns. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows, bool_mask, nulls, plain_array, take_rows
from omnigraph.integrity.convert import scalars
from omnigraph.integrity.convert.result import ConvertedColumn, InvalidValues, invalid_values, reject_all
from omnigraph.integrity.convert.times import convert_dates, convert_datetimes
from omnigraph.integrity.raw import HugeIntegers, Lists, MixedColumn, RawColumn, null_rows, split_kinds
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
            if not _is_list(array.type):
                return reject_all(array, f"a list ({types.type_text(target)})", arrow_type(target))
            return _convert_lists(_lists_of(array), target)
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
    """Convert lists. Their items are converted together and may not be null."""
    if isinstance(target, types.VectorType):
        return _convert_vectors(lists, target)
    return _convert_item_lists(lists, target)


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


def _is_list(kind: pa.DataType) -> bool:
    """Return whether a raw column has lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists_of(array: Column) -> Lists:
    """Return a column of lists as lengths and items."""
    valid = bool_mask(array.is_valid())
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Flattening skips the items of null lists.
    flat: Any = array
    return Lists(lengths, valid, flat.flatten())


def _convert_item_lists(lists: Lists, target: types.ListType) -> ConvertedColumn:
    """Convert lists of one scalar type."""
    items = convert(lists.items, types.ScalarType(target.item))
    invalid = _lists_with_invalid_items(lists, items)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lists.lengths)]).astype(np.int32)
    is_valid = lists.valid & ~_rows_mask(invalid, len(lists.lengths))
    build: Any = pa.ListArray.from_arrays
    values = build(
        pa.array(offsets), items.values, type=arrow_type(target), mask=None if is_valid.all() else pa.array(~is_valid)
    )
    return ConvertedColumn(values, invalid)


def _convert_vectors(lists: Lists, target: types.VectorType) -> ConvertedColumn:
    """Convert vectors of finite 32-bit floats, all of one length."""
    items = convert(lists.items, types.ScalarType(types.Scalar.F32))
    wrong_length = lists.valid & (lists.lengths != target.size)
    invalid = _lists_with_invalid_items(lists, items, wrong_length)
    message = f"expected {target.size} numbers (Vector({target.size}))"
    invalid = (*invalid_values(Rule.VECTOR_LENGTH, message, wrong_length), *invalid)
    is_valid = lists.valid & ~_rows_mask(invalid, len(lists.lengths))
    if is_valid.all():
        return ConvertedColumn(_vector_array(items.values, None, target))
    numbers = np.zeros((len(is_valid), target.size), dtype=np.float32)
    flat = items.values.fill_null(0.0).to_numpy(zero_copy_only=False)
    numbers[is_valid] = flat[np.repeat(is_valid, lists.lengths)].reshape(-1, target.size)
    return ConvertedColumn(_vector_array(pa.array(numbers.ravel()), ~is_valid, target), invalid)


def _vector_array(values: Column, is_null: Mask | None, target: types.VectorType) -> Column:
    build: Any = pa.FixedSizeListArray.from_arrays
    vectors: Column = build(values, type=arrow_type(target), mask=None if is_null is None else pa.array(is_null))
    return vectors


def _lists_with_invalid_items(
    lists: Lists, items: ConvertedColumn, already_invalid: Mask | None = None
) -> tuple[InvalidValues, ...]:
    """Return the lists with invalid items, each list once, without those that are `already_invalid`."""
    null_items = null_rows(lists.items)
    reasons = [(entry.rule, f"invalid item: {entry.message}", entry.rows) for entry in items.invalid]
    if len(null_items):
        reasons.append((Rule.LIST_ITEM_NULL, "has an item that is null", null_items))
    if not reasons:
        return ()
    owners = np.repeat(np.arange(len(lists.lengths), dtype=np.int64), lists.lengths)
    seen = np.zeros(len(lists.lengths), dtype=np.bool_) if already_invalid is None else already_invalid.copy()
    invalid: tuple[InvalidValues, ...] = ()
    for rule, message, rows in reasons:
        is_invalid = np.zeros(len(lists.lengths), dtype=np.bool_)
        is_invalid[owners[rows]] = True
        invalid = (*invalid, *invalid_values(rule, message, is_invalid & ~seen))
        seen |= is_invalid
    return invalid


def _rows_mask(invalid: tuple[InvalidValues, ...], length: int) -> Mask:
    mask = np.zeros(length, dtype=np.bool_)
    for entry in invalid:
        mask[entry.rows] = True
    return mask
