"""What every input format shares: pieces that tasks read, blocks of raw rows, and the names of types and columns.

In: Arrow batches of one type, and names as the user writes them. Out: blocks with rows by type and the lines that are
not rows; the type of the catalog, or one error for a type or a column that does not exist. A float column of an integer
property becomes integers, because frames store integers with nulls as floats. Nothing is read or written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows
from omnigraph.base import limits
from omnigraph.base.errors import ContentError
from omnigraph.integrity.raw import FROM, ID, TO, MixedColumn, RawBatch, RawColumn
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.files import InputFile
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Property
from omnigraph.schema.property_types import INTEGER_BOUNDS, ScalarType

LINE_TOO_LONG: Final = f"line too long: expected at most {limits.LOAD_LINE_BYTES_MAX:,} bytes"
# Above this, two integers can be the same float.
_EXACT_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(ABC):
    """A part of the input. `name` is the name of the file as the user writes it; `part` numbers the pieces of one file.

    `file` is None for a file that Omnigraph wrote for this load. `size_bytes` is how much a task reads, `text_bytes`
    about how much the rows are as uncompressed text.
    """

    name: str
    file: InputFile | None
    part: int
    size_bytes: int
    text_bytes: int

    def for_patch(self) -> Self:
        """Return the piece whose blocks distinguish an omitted property from null. Absent columns need no mark."""
        return self

    @abstractmethod
    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        """Read the rows, and the lines that are not rows, in the order of the piece."""


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Raw rows of one type, and the number of the line of each within the block, from 0.

    `omitted` has for some columns which rows do not have them, although others have.
    """

    entity: Entity
    raw: RawBatch
    lines: Rows
    omitted: Mapping[str, Mask] = field(default_factory=dict)

    def omitted_rows(self, name: str) -> Mask:
        """Return which rows omit a column. A null is a value."""
        if name not in self.raw.columns:
            return np.ones(self.raw.rows, np.bool_)
        mask = self.omitted.get(name)
        return np.zeros(self.raw.rows, np.bool_) if mask is None else mask


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a row of any type; `line` is its number within the block, from 0."""

    line: int
    rule: Rule
    message: str
    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one block: the number of its lines, the rows by type, and the lines that are not rows.

    `text_bytes` is about its share of the `text_bytes` of its piece, for the progress.
    """

    lines: int
    rows: tuple[TypedRows, ...]
    bad: tuple[BadLine, ...]
    text_bytes: int = 0


def arrow_block(entity: Entity, batch: pa.RecordBatch) -> Block:
    """Return the rows of a batch as a block of one type."""
    raw = RawBatch.from_arrow(batch)
    columns = {name: _with_whole_numbers(column, entity.property_named(name)) for name, column in raw.columns.items()}
    lines = np.arange(raw.rows, dtype=np.int64)
    return Block(raw.rows, (TypedRows(entity, RawBatch(raw.rows, columns, is_table=True), lines),), (), batch.nbytes)


def block_rows(size_bytes: int, rows: int) -> int:
    """Return how many rows a block has, if `rows` rows have `size_bytes` bytes."""
    row_bytes = max(1, size_bytes // max(1, rows))
    return min(limits.LOAD_BLOCK_ROWS_MAX, max(1, limits.LOAD_BLOCK_BYTES // row_bytes))


def input_columns(entity: Entity) -> list[str]:
    """Return every column that an input of the type may have, in the order of a typical file."""
    ends = [FROM, TO] if isinstance(entity, EdgeType) else []
    return [*ends, *(property_.name for property_ in entity.properties), ID]


def reject_duplicate_columns(source: str, names: Iterable[str]) -> None:
    """Raise if two columns have the same name."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise ContentError(
            f"duplicate column '{duplicates[0]}' in {source}",
            code="input_columns",
            hint="Nothing was written. Rename one of the columns.",
            facts={"data": source, "column": duplicates[0]},
        )


def require_known_column(source: str, names: Sequence[str], entity: Entity) -> None:
    """Raise if no column belongs to the type: the type is wrong, or the header is missing."""
    column_names = input_columns(entity)
    if not set(names) & set(column_names):
        is_renamed = isinstance(entity, EdgeType) and {"src", "dst"} <= {name.lower() for name in names}
        advice = "Check the type and the first line of the file."
        if is_renamed:
            advice = "Rename the columns of the endpoints: use `from` and `to`."
        raise ContentError(
            f"no column of {source} belongs to {entity.name}: expected some of {_listed(column_names)}, "
            f"got {_listed(names)}",
            code="input_columns",
            hint=f"Nothing was written. {advice}",
            facts={"data": source, "type": entity.name},
        )


def _with_whole_numbers(column: RawColumn, property_: Property | None) -> RawColumn:
    if property_ is None or isinstance(column, MixedColumn) or not pa.types.is_floating(column.type):
        return column
    if not isinstance(property_.type, ScalarType) or property_.type.scalar not in INTEGER_BOUNDS:
        return column
    return _whole_numbers(column)


def _whole_numbers(floats: Column) -> RawColumn:
    is_whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less_equal(pc.abs(floats), _EXACT_MAX))
    if pc.all(is_whole).as_py() is not False:
        numbers: Column = pc.cast(floats, pa.int64())
        return numbers
    values: list[Any] = floats.to_pylist()
    pairs = zip(values, is_whole.to_pylist(), strict=True)
    return MixedColumn([int(value) if whole else value for value, whole in pairs])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown or "none"
