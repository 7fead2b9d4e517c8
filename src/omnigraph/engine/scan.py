"""Scans of node tables: from cached columns with the filter done here, or from storage with the filter pushed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from omnigraph.engine.domain import Codes, Domain, distinct_numbers
from omnigraph.engine.expressions import holds
from omnigraph.engine.frame import Coded, Column, Frame
from omnigraph.engine.pushdown import pushed_text
from omnigraph.engine.scope import Needed, Scope
from omnigraph.engine.tables import TableReader
from omnigraph.query.access import ScanFilter
from omnigraph.query.expression_walk import columns_of, walk
from omnigraph.query.expressions import ColumnRef, Compare, Expr, InList, Literal, TextMatch
from omnigraph.query.plan import Scan
from omnigraph.query.syntax import Operator
from omnigraph.query.tables import Entity
from omnigraph.schema.catalog import TypeKind


def scan_rows(step: Scan, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """The rows of a table that pass the filter."""
    reader = scope.tables.reader(step.entity.table)
    wanted = wanted_columns(step.entity, step.columns, needed)
    read = read_columns(wanted, step.filter)
    hot = reader.hot(read, whole=not step.filter.pushed and not scope.is_cut)
    if hot is None:
        if scope.trace is not None:
            scope.note(step, "from storage", _index_reason(step, reader))
        yield from streamed_rows(step.entity, wanted, step.filter, scope)
        return
    scope.note(step, "from memory", "columns are cached")
    codes = passing_positions(step.entity, step.filter.conjuncts, hot, reader)
    for start in range(0, len(codes), scope.options.frame_rows):
        part = codes[start : start + scope.options.frame_rows]
        yield Frame(len(part), {f"{step.entity.name}.{name}": Coded(part, hot[name]) for name in wanted})


def wanted_columns(entity: Entity, columns: tuple[str, ...], needed: Needed) -> tuple[str, ...]:
    """The columns that somebody above needs; the id always."""
    return tuple(name for name in columns if name == "id" or f"{entity.name}.{name}" in needed)


def read_columns(wanted: tuple[str, ...], scan_filter: ScanFilter) -> tuple[str, ...]:
    """The columns that are read: those wanted and those that the filter asks."""
    asked = (found.column for conjunct in scan_filter.conjuncts for found in columns_of(conjunct))
    return tuple(dict.fromkeys((*wanted, *asked)))


def passing_positions(
    entity: Entity, conjuncts: tuple[Expr, ...], hot: Mapping[str, Domain], reader: TableReader
) -> Codes:
    """The positions of the rows that pass, in order; a key is looked up instead of compared with all."""
    used, texts = next(
        ((found, texts) for found in conjuncts if (texts := _key_texts(found, entity))), (None, [])
    )
    if used is None:
        if not conjuncts:
            return np.arange(reader.rows)
        everything = np.arange(reader.rows)
        searched = {
            part.column.column for found in conjuncts for part in walk(found) if isinstance(part, TextMatch)
        }
        # A domain keeps the words of its texts, an array does not.
        whole: dict[str, Column] = {
            f"{entity.name}.{name}": Coded(everything, domain) if name in searched else domain.array
            for name, domain in hot.items()
        }
        return np.flatnonzero(holds(conjuncts, Frame(reader.rows, whole)))
    codes = hot["id"].find(pa.array(texts, pa.utf8()))
    codes = distinct_numbers(codes[codes >= 0])
    rest = tuple(found for found in conjuncts if found is not used)
    if not rest or not len(codes):
        return codes
    frame = Frame(len(codes), {f"{entity.name}.{name}": Coded(codes, domain) for name, domain in hot.items()})
    return codes[holds(rest, frame)]


def streamed_rows(
    entity: Entity, wanted: tuple[str, ...], scan_filter: ScanFilter, scope: Scope
) -> Iterator[Frame]:
    """The rows of a table from storage; what the storage cannot filter is filtered here."""
    where, rest = pushed_text(scan_filter.pushed)
    residual = (*rest, *scan_filter.residual)
    read = read_columns(wanted, ScanFilter((), residual))
    for batch in scope.tables.reader(entity.table).batches(read, where):
        frame = batch_frame(entity, batch)
        if residual:
            frame = frame.keep(holds(residual, frame))
        if frame.length:
            yield frame.only(f"{entity.name}.{name}" for name in wanted)


def _index_reason(step: Scan, reader: TableReader) -> str:
    """Which index the storage asks for the filter: not what was planned, but what it says that it does."""
    where, _ = pushed_text(step.filter.pushed)
    if where is None:
        return "no filter that storage can do"
    used = reader.dataset().indexes_used(["id"], where)
    return f"by index {', '.join(used)}" if used else "no index"


def batch_frame(entity: Entity, batch: pa.RecordBatch) -> Frame:
    """A batch of a table as rows of an entity."""
    columns = {f"{entity.name}.{name}": batch.column(name) for name in batch.schema.names}
    return Frame(batch.num_rows, columns)


def _key_texts(condition: Expr, entity: Entity) -> list[str] | None:
    """The ids among which a condition says that the row's is."""
    match condition:
        case Compare(Operator.EQ, ColumnRef() as column, Literal() as literal):
            values = [literal.value]
        case InList(ColumnRef() as column, items):
            values = [item.value if isinstance(item, Literal) else None for item in items]
        case _:
            return None
    is_key = entity.table.kind is TypeKind.NODE and entity.table.key == (column.column,)
    if column.column != "id" and not is_key:
        return None
    texts = [
        value if isinstance(value, str) else str(value)
        for value in values
        if isinstance(value, str | int) and not isinstance(value, bool)
    ]
    return texts if len(texts) == len(values) else None
