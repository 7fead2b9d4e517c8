"""Numbers the groups of rows: equal keys get one number, nulls are equal to each other.

Coded columns are numbered through the distinct values of their domain, which are worked out once per domain; other
columns through a dictionary of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.engine.domain import Codes, without_negative_zero
from omnigraph.engine.frame import Coded, Column

_NUMBERS_MAX: Final = 2**62


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, how many groups there are, and a row of each of them."""

    numbers: Codes
    count: int
    first_rows: Codes


def group_rows(columns: Sequence[Column], length: int) -> Groups:
    """Number the rows by the values of these columns; without columns all rows are one group."""
    if not columns:
        return Groups(np.zeros(length, dtype=np.int64), 1, np.zeros(min(length, 1), dtype=np.int64))
    numbers, size = value_numbers(columns[0])
    for column in columns[1:]:
        more, more_size = value_numbers(column)
        if size > _NUMBERS_MAX // max(more_size, 1):
            numbers, size = _dense(numbers)
        numbers = numbers * more_size + more
        size *= more_size
    if size > 4 * length + 1024:
        unique, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return Groups(inverse.reshape(-1), len(unique), first)
    # Few possible numbers: the last row of each group is found without sorting.
    at = np.full(size, -1, dtype=np.int64)
    at[numbers] = np.arange(length)
    used = np.flatnonzero(at >= 0)
    if len(used) == size:
        return Groups(numbers, size, at)
    again = np.zeros(size, dtype=np.int64)
    again[used] = np.arange(len(used))
    return Groups(again[numbers], len(used), at[used])


def value_numbers(column: Column) -> tuple[Codes, int]:
    """A number from 0 for each row, equal for equal values, and a bound of them; null has number 0."""
    if isinstance(column, Coded) and not pa.types.is_list(column.domain.array.type):
        if column.domain.is_unique:
            return column.codes + 1, len(column.domain) + 1
        if not column.domain.is_own or len(column.domain) <= len(column.codes):
            factors, distinct = column.domain.factors()
            return np.where(column.codes < 0, -1, factors[column.codes]) + 1, len(distinct) + 1
    if isinstance(column, Coded):
        column = column.array()
    if pa.types.is_list(column.type):
        return _list_numbers(column)
    encoded: Any = without_negative_zero(column).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes + 1, len(encoded.dictionary) + 1


def _dense(numbers: Codes) -> tuple[Codes, int]:
    unique, inverse = np.unique(numbers, return_inverse=True)
    return inverse.reshape(-1), len(unique)


def _list_numbers(column: Any) -> tuple[Codes, int]:
    """Lists have no dictionary; their Python values are few and only ever group keys."""
    seen: dict[tuple[object, ...] | None, int] = {None: 0}
    found = [
        seen.setdefault(None if items is None else tuple(items), len(seen)) for items in column.to_pylist()
    ]
    return np.asarray(found, dtype=np.int64), len(seen)
