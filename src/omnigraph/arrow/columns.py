"""Columns as a reader delivers them, before they have the types of the schema.

A raw column is an Arrow array, all of one kind, or `Cells`: values of mixed kinds as Python has them after reading
JSON. The contract with readers:

- A JSON reader asks the native parser for `raw_schema`. What that parser refuses (a wrong kind, a number beyond 64
  bits, two kinds in one column) it reads again with a parser that keeps Python values (whole numbers of any size stay
  whole numbers) and delivers as `Cells`. So no digit is ever lost on the way.
- Columns of other sources (Parquet, CSV, frames) come as they are; dictionaries, large and view types, run ends and
  extension types are unwrapped here. A frame's float column that stands for whole numbers with gaps is the reader's
  to cast: here a float is never a whole number.
- A missing column and a column of nulls are the same. `id` is the given id; the ends of an edge are `from` and `to`.
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


def plain_array(column: Column | pa.ChunkedArray[Any]) -> Column:
    """The column as one array of a plain type: no dictionary, view, run ends, extension or large text."""
    array = whole_array(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_array(pc.cast(array, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return plain_array(pc.run_end_decode(array))
    wanted = _plain_type(kind)
    return array if wanted == kind else pc.cast(array, wanted)


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
    """The column as one array; what is in one piece already is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return joined  # type: ignore[no-any-return]


def nulls(count: int, kind: pa.DataType) -> Column:
    """A column without values."""
    make: Any = pa.nulls
    column: Column = make(count, kind)
    return column


def taken_array(array: Column, rows: Rows) -> Column:
    """The values of some rows of an array."""
    chosen: Column = array.take(pa.array(rows, pa.int64()))
    return chosen


def text_buffers(texts: Column) -> tuple[Rows, Bytes]:
    """The offsets of a column of text, one more than it has rows, and the bytes they point into."""
    buffers: list[Any] = texts.buffers()
    _, offsets, data = buffers
    if offsets is None or not len(texts):
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bounds.astype(np.int64), np.frombuffer(data, dtype=np.uint8) if data else np.empty(
        0, dtype=np.uint8
    )


def rows_where(mask: Column) -> Rows:
    """The rows in which a boolean column is true; null is not."""
    return np.flatnonzero(bools(mask)).astype(np.int64, copy=False)


def bools(mask: Column) -> Mask:
    """A boolean column as numpy has it; null is false."""
    filled = mask.fill_null(False) if mask.null_count else mask
    found: Mask = filled.to_numpy(zero_copy_only=False)
    return found


NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


def mask_of(bools: Column) -> Mask:
    """The values of a boolean array that has no nulls."""
    if not len(bools):
        return np.zeros(0, dtype=np.bool_)
    packed: Any = bools.buffers()[1]
    first, skipped = divmod(bools.offset, 8)
    bits = np.frombuffer(packed, dtype=np.uint8)[first:]
    return np.unpackbits(bits, count=skipped + len(bools), bitorder="little")[skipped:].view(np.bool_)


def bool_array(mask: Mask) -> Column:
    """A mask as Arrow has it."""
    return _array(pa.bool_(), len(mask), None, np.packbits(mask, bitorder="little"))


def array_without(values: npt.NDArray[Any], missing: Mask) -> Column:
    """Numbers, null where they are missing. They are not copied, so nobody may change them any more."""
    return _array(pa.from_numpy_dtype(values.dtype), len(values), ~missing, values)


def _array(kind: pa.DataType, length: int, present: Mask | None, data: npt.NDArray[Any]) -> Column:
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little").data)
    made: Column = pa.Array.from_buffers(kind, length, [validity, pa.py_buffer(data.data)])
    return made
