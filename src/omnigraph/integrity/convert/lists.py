"""Converts raw lists to lists of scalars and to vectors. Items are converted together and may not be null. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, bool_mask
from omnigraph.integrity.convert.result import ConvertedColumn, InvalidValues, invalid_values
from omnigraph.integrity.raw import Lists, RawColumn, null_rows
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import ListType, Scalar, ScalarType, VectorType
from omnigraph.schema.tables import arrow_type

_F32: Final = ScalarType(Scalar.F32)

ItemConversion = Callable[[RawColumn, ScalarType], ConvertedColumn]


def is_list(kind: pa.DataType) -> bool:
    """Return whether a raw column has lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def lists_of(array: Column) -> Lists:
    """Return a column of lists as lengths and items."""
    valid = bool_mask(array.is_valid())
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Flattening skips the items of null lists.
    flat: Any = array
    return Lists(lengths, valid, flat.flatten())


def convert_lists(lists: Lists, target: ListType, convert_items: ItemConversion) -> ConvertedColumn:
    """Convert lists of one scalar type."""
    items = convert_items(lists.items, ScalarType(target.item))
    invalid = _lists_with_invalid_items(lists, items)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lists.lengths)]).astype(np.int32)
    is_valid = lists.valid & ~_rows_mask(invalid, len(lists.lengths))
    build: Any = pa.ListArray.from_arrays
    values = build(
        pa.array(offsets), items.values, type=arrow_type(target), mask=None if is_valid.all() else pa.array(~is_valid)
    )
    return ConvertedColumn(values, invalid)


def convert_vectors(lists: Lists, target: VectorType, convert_items: ItemConversion) -> ConvertedColumn:
    """Convert vectors of finite 32-bit floats, all of one length."""
    items = convert_items(lists.items, _F32)
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


def _vector_array(values: Column, is_null: Mask | None, target: VectorType) -> Column:
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
