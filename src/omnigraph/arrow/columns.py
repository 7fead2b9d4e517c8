"""Arrow columns in plain types, and conversions between Arrow arrays and numpy buffers and masks.

In: columns of any source. Out: single arrays of plain types (no dictionary, view, run ends, extension or large text),
row numbers, masks and buffers. Values are never converted to another kind: a float is never read as an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    Column = pa.Array[Any]
else:
    Column = pa.Array
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


def plain_array(column: Column | pa.ChunkedArray[Any]) -> Column:
    """Return the column as one array of a plain type."""
    array = whole_array(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_array(pc.cast(array, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return plain_array(pc.run_end_decode(array))
    plain = _plain_type(kind)
    return array if plain == kind else pc.cast(array, plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.utf8()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.list_(kind.value_type)
    return kind


def whole_array(column: Column | pa.ChunkedArray[Any]) -> Column:
    """Return the column as one array, without a copy if it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return joined  # type: ignore[no-any-return]


def nulls(count: int, kind: pa.DataType) -> Column:
    """Return a column of nulls."""
    make: Any = pa.nulls
    column: Column = make(count, kind)
    return column


def take_rows(array: Column, rows: Rows) -> Column:
    """Return the values of some rows of an array."""
    return array.take(integer_array(rows))


def integer_array(numbers: Rows) -> Column:
    """Return integers as an array, without a copy. `pa.array` would import `numpy.ma`, which takes 10 ms."""
    wrap: Any = pa.py_buffer
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, wrap(np.ascontiguousarray(numbers, np.int64))])


def text_buffers(texts: Column) -> tuple[Rows, Bytes]:
    """Return the offsets of a column of text, one more than it has rows, and the bytes that they refer to."""
    buffers: list[Any] = texts.buffers()
    _, offsets, data = buffers
    if offsets is None or not len(texts):
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bounds.astype(np.int64), np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)


def rows_where(mask: Column) -> Rows:
    """Return the rows in which a boolean column is true; null counts as false."""
    return np.flatnonzero(bool_mask(mask)).astype(np.int64, copy=False)


def bool_mask(column: Column) -> Mask:
    """Return a boolean column as a numpy mask; null counts as false."""
    if not len(column):
        return np.zeros(0, dtype=np.bool_)
    filled: Any = column.fill_null(False) if column.null_count else column
    first, skipped = divmod(filled.offset, 8)
    bits = np.frombuffer(filled.buffers()[1], dtype=np.uint8)[first:]
    return np.unpackbits(bits, count=skipped + len(filled), bitorder="little")[skipped:].view(np.bool_)


def bool_array(mask: Mask) -> Column:
    """Return a numpy mask as a boolean array."""
    return _array(pa.bool_(), len(mask), None, np.packbits(mask, bitorder="little"))


def array_with_nulls(values: npt.NDArray[Any], missing: Mask) -> Column:
    """Return numbers as an array with null where they are missing. Not copied: the caller must not change them."""
    return _array(pa.from_numpy_dtype(values.dtype), len(values), ~missing, values)


def _array(kind: pa.DataType, length: int, present: Mask | None, data: npt.NDArray[Any]) -> Column:
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little").data)
    return pa.Array.from_buffers(kind, length, [validity, pa.py_buffer(data.data)])
