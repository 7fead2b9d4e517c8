"""A digest of every row, so that two versions of a table can be compared in little memory.

In: batches of one schema or another. Out: 64 bits per row that are equal for equal values, whatever the order of the
columns; a column that is not there counts as one of nulls. Not made against attack. Nothing here reads or writes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.raw import Column
from omnigraph.integrity.text_hash import Hashes, hash_texts, mixed

_NOT_NULL: Final = np.uint64(0x9E3779B97F4A7C15)


def digest_rows(batch: pa.RecordBatch, without: str) -> Hashes:
    """The digest of each row over every column but one."""
    total = np.zeros(batch.num_rows, dtype=np.uint64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name != without:
            total += mixed(_digest(column) * _factor(name))
    return total


def _digest(column: Column) -> Hashes:
    """A number per value; 0 for null, never 0 for anything else."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    values = _values(column)
    values = mixed(values + _NOT_NULL) | np.uint64(1)
    if column.null_count:
        values[np.asarray(column.is_null())] = 0
    return values


def _values(column: Column) -> Hashes:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return _combined(column, np.full(len(column), kind.list_size, dtype=np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _combined(column, _as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64))
    if pa.types.is_struct(kind):
        return _struct(column)
    if pa.types.is_string(kind):
        return hash_texts(column.fill_null(""))
    if pa.types.is_large_string(kind):
        return hash_texts(column.cast(pa.utf8()).fill_null(""))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return hash_texts(pa.array([(value or b"").hex() for value in column.to_pylist()], pa.utf8()))
    return _numbers(column)


def _numbers(column: Column) -> Hashes:
    kind = column.type
    if pa.types.is_floating(kind):
        return _as_numpy(column.cast(pa.float64()).fill_null(0)).astype(np.float64).view(np.uint64)
    if pa.types.is_boolean(kind):
        return _as_numpy(column.cast(pa.uint8()).fill_null(0)).astype(np.uint64)
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(column.type):
        return _as_numpy(column.fill_null(0)).astype(np.uint64)
    return hash_texts(pa.array([repr(value) for value in column.to_pylist()], pa.utf8()))


def _struct(column: Any) -> Hashes:
    total = np.zeros(len(column), dtype=np.uint64)
    for place, field in enumerate(column.type):
        total += mixed(_digest(column.field(place)) * _factor(field.name))
    return total


def _combined(column: Any, lengths: npt.NDArray[np.int64]) -> Hashes:
    """The digest of lists: every item by its place, and how many there are. What a null list holds does not count."""
    if column.null_count:
        lengths = np.where(np.asarray(column.is_null()), 0, lengths)
        column = column.filter(column.is_valid())
    items = _digest(column.flatten())
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    place = np.arange(len(items), dtype=np.int64) - np.repeat(starts[:-1], lengths)
    sums = np.zeros(len(items) + 1, dtype=np.uint64)
    np.cumsum(mixed(items + _NOT_NULL * (place.astype(np.uint64) + np.uint64(1))), out=sums[1:])
    return sums[starts[1:]] - sums[starts[:-1]] + lengths.astype(np.uint64) * _NOT_NULL


def _factor(name: str) -> np.uint64:
    return np.uint64(hash_texts(pa.array([name], pa.utf8()))[0] | np.uint64(1))


def _as_numpy(column: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values
