"""Which type the rows of an input are, when they do not say so themselves, and which columns can be theirs.

In: a name as the user writes it, the names of columns. Out: the type of the catalog, or one error that says what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Rows
from omnigraph.base import limits
from omnigraph.base.errors import ContentError, NotFoundError
from omnigraph.integrity.raw import FROM, ID, TO, MixedColumn, RawBatch, RawColumn
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.files import InputFile
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Property
from omnigraph.schema.property_types import INTEGER_BOUNDS, ScalarType


class Piece(Protocol):
    """A part of the input. `name` is what the user knows its file by, `part` numbers the pieces of one file.

    `file` is None for what Omnigraph itself wrote for this load.

    `size_bytes` is what there is to read, `text_bytes` about what its rows take as text when nothing is packed.
    """

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> InputFile | None: ...

    @property
    def part(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def text_bytes(self) -> int: ...

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        """The rows and the lines that are none, in the order of the piece."""
        ...


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Raw rows of one type, and for each the number of its line within the block, from 0."""

    entity: Entity
    raw: RawBatch
    lines: Rows


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no row of any type; `line` is its number within the block, from 0."""

    line: int
    rule: Rule
    message: str
    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """Everything in one block: how many lines it has, the rows by type, and the lines that are none."""

    lines: int
    rows: tuple[TypedRows, ...]
    bad: tuple[BadLine, ...]


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


def _with_whole_numbers(column: RawColumn, property_: Property | None) -> RawColumn:
    if property_ is None or isinstance(column, MixedColumn) or not pa.types.is_floating(column.type):
        return column
    if not isinstance(property_.type, ScalarType) or property_.type.scalar not in INTEGER_BOUNDS:
        return column
    return _whole_numbers(column)


def _whole_numbers(floats: Column) -> RawColumn:
    whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less_equal(pc.abs(floats), _EXACT_MAX))
    if pc.all(whole).as_py() is not False:
        numbers: Column = pc.cast(floats, pa.int64())
        return numbers
    return MixedColumn([_as_written(value) for value in floats.to_pylist()])


def _as_written(value: float | None) -> int | float | None:
    is_whole = value is not None and abs(value) <= _EXACT_MAX and value.is_integer()
    return int(value) if is_whole and value is not None else value


def type_of_rows(catalog: Catalog, name: str) -> Entity:
    """The node or edge type of that name; the case of an edge's first letter does not matter."""
    entity = catalog.node_named(name) or catalog.edge_named(name)
    if entity is None:
        type_names = [entity.name for entity in catalog.types]
        near = get_close_matches(name[:60], type_names, n=1)
        raise NotFoundError(
            f"the schema has no node or edge type '{name}'",
            code="load_type_unknown",
            hint=f"did you mean {near[0]}?" if near else "`omnigraph schema show` prints the types",
            facts={"type": name},
        )
    return entity


def known_columns(entity: Entity) -> list[str]:
    """Every column that rows of the type may have, in the order in which a person would write them."""
    ends = [FROM, TO] if isinstance(entity, EdgeType) else []
    return [*ends, *(property_.name for property_ in entity.properties), ID]


def reject_duplicate_columns(source: str, names: Iterable[str]) -> None:
    """Raise when two columns have one name: nobody could say which of them counts."""
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        raise ContentError(
            f"{source} has more than one column '{twins[0]}'",
            code="input_columns",
            hint="nothing was written; give each column a name of its own",
            facts={"data": source, "column": twins[0]},
        )


def refuse_foreign_columns(source: str, names: Sequence[str], entity: Entity) -> None:
    """Raise when not one column is of the type: then it is another type, or there is no line of names."""
    column_names = known_columns(entity)
    if not set(names) & set(column_names):
        raise ContentError(
            f"no column of {source} is of {entity.name}: it has {_listed(names)}",
            code="input_columns",
            hint=f"nothing was written; the columns of {entity.name} are {_listed(column_names)}",
            facts={"data": source, "type": entity.name},
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown or "none"
