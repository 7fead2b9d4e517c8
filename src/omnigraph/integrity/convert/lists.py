"""Raw lists to lists of scalars and to vectors. Items are converted as one long column; they are never null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows, bools
from omnigraph.integrity.convert.result import Converted, Mistake, mistakes_of
from omnigraph.integrity.raw import Lists, RawColumn, null_rows
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import ListType, Scalar, ScalarType, VectorType
from omnigraph.schema.tables import arrow_type

_F32: Final = ScalarType(Scalar.F32)

ItemConversion = Callable[[RawColumn, ScalarType], Converted]


def is_list(kind: pa.DataType) -> bool:
    """Whether a raw column holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def lists_of(array: Column) -> Lists:
    """A column of lists as lengths and items."""
    valid = bools(array.is_valid())
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Items of null lists do not count; flattening leaves them out.
    flat: Any = array
    return Lists(lengths, valid, flat.flatten())


def convert_lists(lists: Lists, target: ListType, convert_items: ItemConversion) -> Converted:
    """Lists of one scalar type."""
    items = convert_items(lists.items, ScalarType(target.item))
    mistakes = _item_mistakes(lists, items)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lists.lengths)]).astype(np.int32)
    good = lists.valid & ~_rows_mask(mistakes, len(lists.lengths))
    build: Any = pa.ListArray.from_arrays
    values = build(
        pa.array(offsets),
        items.values,
        type=arrow_type(target),
        mask=None if good.all() else pa.array(~good),
    )
    return Converted(values, mistakes)


def convert_vectors(lists: Lists, target: VectorType, convert_items: ItemConversion) -> Converted:
    """Vectors of finite 32-bit floats, all of one length."""
    items = convert_items(lists.items, _F32)
    wrong_length = lists.valid & (lists.lengths != target.size)
    mistakes = _item_mistakes(lists, items, besides=wrong_length)
    message = f"needs exactly {target.size} numbers (Vector({target.size}))"
    mistakes = (*mistakes_of(Rule.VECTOR_LENGTH, message, wrong_length), *mistakes)
    good = lists.valid & ~_rows_mask(mistakes, len(lists.lengths))
    if good.all():
        return Converted(_vector_array(items.values, None, target))
    numbers = np.zeros((len(good), target.size), dtype=np.float32)
    flat = items.values.fill_null(0.0).to_numpy(zero_copy_only=False)
    numbers[good] = flat[np.repeat(good, lists.lengths)].reshape(-1, target.size)
    return Converted(_vector_array(pa.array(numbers.ravel()), ~good, target), mistakes)


def _vector_array(values: Column, absent: Mask | None, target: VectorType) -> Column:
    build: Any = pa.FixedSizeListArray.from_arrays
    mask = None if absent is None else pa.array(absent)
    answer: Column = build(values, type=arrow_type(target), mask=mask)
    return answer


def _item_mistakes(lists: Lists, items: Converted, besides: Mask | None = None) -> tuple[Mistake, ...]:
    """The mistakes of items as mistakes of their lists, each list once, and not those that are refused already."""
    absent = null_rows(lists.items)
    found = [(mistake.rule, f"an item {mistake.message}", mistake.rows) for mistake in items.mistakes]
    if len(absent):
        found.append((Rule.LIST_ITEM_NULL, "has an item that is null", absent))
    if not found:
        return ()
    owner = np.repeat(np.arange(len(lists.lengths), dtype=np.int64), lists.lengths)
    seen = np.zeros(len(lists.lengths), dtype=np.bool_) if besides is None else besides.copy()
    mistakes: tuple[Mistake, ...] = ()
    for rule, message, rows in found:
        bad = np.zeros(len(lists.lengths), dtype=np.bool_)
        bad[owner[rows]] = True
        mistakes = (*mistakes, *mistakes_of(rule, message, bad & ~seen))
        seen |= bad
    return mistakes


def _rows_mask(mistakes: tuple[Mistake, ...], length: int) -> Mask:
    mask = np.zeros(length, dtype=np.bool_)
    for mistake in mistakes:
        _mark(mask, mistake.rows)
    return mask


def _mark(mask: Mask, rows: Rows) -> None:
    mask[rows] = True
