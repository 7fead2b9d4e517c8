"""Arrow batches of one type as blocks: what Parquet files, frames and Spark hand on.

Columns go to the rules as they are, with one exception. Pandas has no whole numbers with gaps: such a column becomes
one of floats, also in a file that it writes. So a float that is a whole number counts as one where the schema asks for
one; any other float there is refused like everywhere else. A row's line is its number, from 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.integrity.raw import Cells, Column, RawBatch, RawColumn
from omnigraph.pipeline.blocks import Block, TypedRows
from omnigraph.schema import Entity, Property, ScalarType
from omnigraph.schema.property_types import INTEGER_BOUNDS

# The next one is also the float that the one after it becomes.
_EXACT_MAX: Final = 2**53 - 1


def arrow_block(entity: Entity, batch: pa.RecordBatch) -> Block:
    """The rows of a batch whose columns have names of their own."""
    raw = RawBatch.from_arrow(batch)
    columns = {
        name: _with_whole_numbers(column, entity.property_named(name)) for name, column in raw.columns.items()
    }
    lines = np.arange(raw.rows, dtype=np.int64)
    return Block(raw.rows, (TypedRows(entity, RawBatch(raw.rows, columns), lines),), ())


def block_rows(size_bytes: int, rows: int) -> int:
    """How many rows a block takes of some that are so large together."""
    row_bytes = max(1, size_bytes // max(1, rows))
    return min(limits.LOAD_BLOCK_ROWS_MAX, max(1, limits.LOAD_BLOCK_BYTES // row_bytes))


def _with_whole_numbers(column: RawColumn, found: Property | None) -> RawColumn:
    if found is None or isinstance(column, Cells) or not pa.types.is_floating(column.type):
        return column
    if not isinstance(found.type, ScalarType) or found.type.scalar not in INTEGER_BOUNDS:
        return column
    return _whole_numbers(column)


def _whole_numbers(floats: Column) -> RawColumn:
    whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less_equal(pc.abs(floats), _EXACT_MAX))
    if pc.all(whole).as_py() is not False:
        numbers: Column = pc.cast(floats, pa.int64())
        return numbers
    return Cells([_as_written(value) for value in floats.to_pylist()])


def _as_written(value: float | None) -> int | float | None:
    is_whole = value is not None and abs(value) <= _EXACT_MAX and value.is_integer()
    return int(value) if is_whole and value is not None else value
