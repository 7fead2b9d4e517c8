"""Reads Lance's deletion files without Lance, because Lance ends the process when it reads a damaged one.

In: the bytes of a deletion file. Out: the number of rows that it deletes, or a `ValueError` or `pa.ArrowException` that
describes the damage. Lance writes an Arrow file for few rows, and a Roaring bitmap in its portable format for many.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

_BITMAP_SUFFIX: Final = ".bin"
_ROW: Final = "row_id"
_BITMAP_COOKIE: Final = 12_346
_BITMAP_COOKIE_WITH_RUNS: Final = 12_347
_BITMAP_OFFSETS_MIN: Final = 4
_BITMAP_ARRAY_MAX: Final = 4_096
_BITMAP_BYTES: Final = 8_192


def count_deleted_rows(path: str, data: bytes, rows_max: int | None = None) -> int:
    """Return how many rows a deletion file deletes; raise if it is truncated or damaged.

    With `rows_max`, a position at or above it counts as damage.
    """
    return count_bitmap(data) if path.endswith(_BITMAP_SUFFIX) else _count_array(data, rows_max)


def _count_array(data: bytes, rows_max: int | None) -> int:
    with pa.ipc.open_file(pa.BufferReader(data)) as file:
        table = file.read_all()
    table.validate(full=True)
    rows = set(table.column(_ROW).to_pylist())
    if not all(isinstance(row, int) and row >= 0 and (rows_max is None or row < rows_max) for row in rows):
        raise ValueError(
            "a deleted row does not exist" if rows_max is None else f"a deleted row is not one of the {rows_max:,} rows"
        )
    return len(rows)


def count_bitmap(data: bytes) -> int:
    """Count the values of a Roaring bitmap in its portable format; raise ValueError if it is truncated or damaged."""
    reader = _Bytes(data)
    (cookie,) = reader.take("<I")
    runs = 0
    if cookie & 0xFFFF == _BITMAP_COOKIE_WITH_RUNS:
        containers = (cookie >> 16) + 1
        runs = int.from_bytes(reader.take_bytes((containers + 7) // 8), "little")
    elif cookie == _BITMAP_COOKIE:
        (containers,) = reader.take("<I")
    else:
        raise ValueError("the file is not a bitmap")
    header = reader.take(f"<{2 * containers}H")
    if cookie == _BITMAP_COOKIE or containers >= _BITMAP_OFFSETS_MIN:
        reader.take_bytes(4 * containers)
    total = 0
    for number, cardinality in enumerate(header[1::2]):
        count = _count_container(reader, cardinality + 1, has_runs=bool(runs >> number & 1))
        if count != cardinality + 1:
            raise ValueError(f"expected {cardinality + 1:,} values, got {count:,}")
        total += count
    if reader.remaining:
        raise ValueError(f"the file has {reader.remaining:,} extra bytes")
    return total


def _count_container(reader: _Bytes, cardinality: int, *, has_runs: bool) -> int:
    if has_runs:
        (count,) = reader.take("<H")
        pairs = reader.take(f"<{2 * count}H")
        return sum(pairs[1::2]) + count
    if cardinality <= _BITMAP_ARRAY_MAX:
        return len(set(reader.take(f"<{cardinality}H")))
    return int.from_bytes(reader.take_bytes(_BITMAP_BYTES), "little").bit_count()


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def take_bytes(self, count: int) -> bytes:
        if count > self.remaining:
            raise ValueError("the file is truncated")
        self._position += count
        return self._data[self._position - count : self._position]

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take_bytes(struct.calcsize(layout)))
