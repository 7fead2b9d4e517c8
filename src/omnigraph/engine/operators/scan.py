"""Scans of node tables: from cached columns with the filter done here, or from storage with the filter pushed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.columns.domain import Codes, Mask, ValueDictionary, distinct_numbers
from omnigraph.engine.columns.expressions import holds
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    concat_frames,
    distinct_sources,
    positions_in,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.tables import TableReader
from omnigraph.query.plan.expression_walk import ScanFilter, columns_of, walk
from omnigraph.query.plan.expressions import (
    And,
    ColumnRef,
    Compare,
    Expr,
    InList,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Or,
    Prefix,
    TextMatch,
)
from omnigraph.query.plan.operators import Lookup, Scan
from omnigraph.query.plan.types import Entity, ValueType
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.catalog import TypeKind
from omnigraph.schema.property_types import EnumType, Scalar, ScalarType
from omnigraph.storage.lance.dataset import column_text, text_literal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SURROGATES: Final = range(0xD800, 0xE000)


def pushed_text(conjuncts: tuple[Expr, ...]) -> tuple[str | None, tuple[Expr, ...]]:
    """The filter for the storage, None if there is none, and the conjuncts that remain."""
    texts, rest = [], []
    for conjunct in conjuncts:
        text = _condition(conjunct)
        if text is None:
            rest.append(conjunct)
        else:
            texts.append(text)
    return (" AND ".join(f"({text})" for text in texts) or None), tuple(rest)


def _condition(expr: Expr) -> str | None:
    match expr:
        case And(operands) | Or(operands):
            parts = [_condition(operand) for operand in operands]
            known = [f"({part})" for part in parts if part is not None]
            word = " AND " if isinstance(expr, And) else " OR "
            return word.join(known) if len(known) == len(parts) else None
        case Not(operand):
            inner = _condition(operand)
            return None if inner is None else f"NOT ({inner})"
        case Compare(operator, ColumnRef() as column, Literal() as literal):
            value = _literal(literal.value, column.type)
            sign = "<>" if operator.value == "!=" else operator.value
            return None if value is None else f"{column_text(column.column)} {sign} {value}"
        case InList(ColumnRef() as column, items):
            values = [
                _literal(item.value, column.type) if isinstance(item, Literal) else None for item in items
            ]
            listed = [value for value in values if value is not None]
            if not listed or len(listed) < len(values):
                return None
            return f"{column_text(column.column)} IN ({', '.join(listed)})"
        case Prefix(ColumnRef() as column, Literal(str() as part)):
            return _prefix(column_text(column.column), part)
        case IsNull(ColumnRef() as column, negated):
            return f"{column_text(column.column)} IS {'NOT ' if negated else ''}NULL"
        case Literal(bool() as answer):
            return "true" if answer else "false"
        case _:
            return None


def _literal(value: LiteralValue, wanted: ValueType) -> str | None:
    match wanted, value:
        case ((ScalarType(Scalar.STRING) | EnumType()), str()):
            return None if "\x00" in value else text_literal(value)
        case ScalarType(Scalar.BOOL), bool():
            return "true" if value else "false"
        case ScalarType(Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64), int():
            # The parser reads the smallest I64 as minus a number that is too large.
            return None if value == -(2**63) else str(value)
        case ScalarType(Scalar.F64), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS DOUBLE)"
        case ScalarType(Scalar.F32), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS FLOAT)"
        case ScalarType(Scalar.DATE), date():
            return f"arrow_cast({(value - _EPOCH.date()).days}, 'Date32')"
        case ScalarType(Scalar.DATETIME), datetime():
            moment = value.astimezone(UTC) - _EPOCH
            millis = (moment.days * 86_400 + moment.seconds) * 1000 + moment.microseconds // 1000
            return f"arrow_cast({millis}, 'Timestamp(Millisecond, Some(\"UTC\"))')"
        case _:
            return None


def _prefix(column: str, part: str) -> str | None:
    """A prefix as a range, which an index serves: texts are ordered by code points."""
    if "\x00" in part:
        return None
    after = _after_prefix(part)
    low = f"{column} >= {text_literal(part)}"
    return low if after is None else f"{low} AND {column} < {text_literal(after)}"


def _after_prefix(part: str) -> str | None:
    """The smallest text above all texts with this prefix; None if there is none."""
    kept = part.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    if code in _SURROGATES:
        code = _SURROGATES.stop
    return kept[:-1] + chr(code)


def scan_rows(step: Scan, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
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
        yield Frame(
            len(part), {f"{step.entity.name}.{name}": DictionaryColumn(part, hot[name]) for name in wanted}
        )


def wanted_columns(entity: Entity, columns: tuple[str, ...], needed: RequiredColumns) -> tuple[str, ...]:
    """The columns that somebody above needs; the id always."""
    return tuple(name for name in columns if name == "id" or f"{entity.name}.{name}" in needed)


def read_columns(wanted: tuple[str, ...], scan_filter: ScanFilter) -> tuple[str, ...]:
    """The columns that are read: those wanted and those that the filter asks."""
    asked = (found.column for conjunct in scan_filter.conjuncts for found in columns_of(conjunct))
    return tuple(dict.fromkeys((*wanted, *asked)))


def passing_positions(
    entity: Entity, conjuncts: tuple[Expr, ...], hot: Mapping[str, ValueDictionary], reader: TableReader
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
            f"{entity.name}.{name}": DictionaryColumn(everything, domain)
            if name in searched
            else domain.array
            for name, domain in hot.items()
        }
        return np.flatnonzero(holds(conjuncts, Frame(reader.rows, whole)))
    codes = hot["id"].find(pa.array(texts, pa.utf8()))
    codes = distinct_numbers(codes[codes >= 0])
    rest = tuple(found for found in conjuncts if found is not used)
    if not rest or not len(codes):
        return codes
    frame = Frame(
        len(codes), {f"{entity.name}.{name}": DictionaryColumn(codes, domain) for name, domain in hot.items()}
    )
    return codes[holds(rest, frame)]


def streamed_rows(
    entity: Entity, wanted: tuple[str, ...], scan_filter: ScanFilter, scope: ExecutionContext
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
        case Compare(ComparisonOperator.EQ, ColumnRef() as column, Literal() as literal):
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


def looked_up_rows(step: Lookup, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
    """The rows with more columns of an entity, without those that do not pass the filter."""
    entity = step.entity
    reader = scope.tables.reader(entity.table)
    wanted = wanted_columns(entity, step.columns, needed)
    read = read_columns(wanted, step.filter)
    below = needed - {f"{entity.name}.{name}" for name in wanted} | {entity.id}
    whole_mask: Mask | None = None
    for given in scope.rows(step.input, below):
        frame = given
        if not frame.length:
            continue
        ids = frame.columns[entity.id]
        hot = reader.hot(("id", *read), whole=frame.length > limits.ENGINE_TAKE_ROWS_MAX)
        if hot is None:
            hot = _from_storage(entity, read, ids, scope)
        held = sum(int(domain.array.nbytes) for domain in hot.values() if domain.is_own)
        scope.budget.hold(held)
        codes = positions_in(hot["id"], ids, scope.cache)
        if step.filter.conjuncts:
            if whole_mask is None and frame.length * 2 > len(hot["id"]) and not hot["id"].is_own:
                whole_mask = _mask(entity, step.filter.conjuncts, hot, np.arange(len(hot["id"])))
            if whole_mask is not None and not hot["id"].is_own:
                kept = whole_mask[codes] & (codes >= 0) if len(whole_mask) else codes >= 0
            else:
                kept = _mask(entity, step.filter.conjuncts, hot, codes) & (codes >= 0)
        elif step.keep_missing:
            kept = np.ones(frame.length, dtype=np.bool_)
        else:
            kept = codes >= 0
        if not kept.all():
            rows = np.flatnonzero(kept)
            frame, codes = frame.take(rows), codes[rows]
        if frame.length:
            new: Mapping[str, Column] = {
                f"{entity.name}.{name}": DictionaryColumn(codes, hot[name]) for name in wanted
            }
            yield frame.plus({**new, entity.id: DictionaryColumn(codes, hot["id"])})
        scope.budget.release(held)


def _mask(
    entity: Entity, conjuncts: tuple[Expr, ...], hot: Mapping[str, ValueDictionary], codes: Codes
) -> Mask:
    columns = {f"{entity.name}.{name}": DictionaryColumn(codes, domain) for name, domain in hot.items()}
    return holds(conjuncts, Frame(len(codes), columns))


def _from_storage(
    entity: Entity, read: tuple[str, ...], ids: Column, scope: ExecutionContext
) -> dict[str, ValueDictionary]:
    """The columns of just these ids, read through the index for few of them and by a scan for many."""
    reader = scope.tables.reader(entity.table)
    sources, _ = distinct_sources(ids)
    texts = sources.array()
    names = tuple(dict.fromkeys(("id", *read)))
    few = len(texts) <= limits.ENGINE_TAKE_ROWS_MAX
    asked = ValueDictionary(texts, is_unique=True, is_own=True)
    frames: list[Frame] = []
    size = 0
    for batch in reader.rows_with(names, "id", texts) if few else reader.batches(names, None):
        frame = batch_frame(entity, batch)
        frames.append(frame if few else frame.keep(asked.find(batch.column("id")) >= 0).settled())
        size += frames[-1].nbytes
        scope.budget.allow(size)
    if not frames:
        schema = reader.dataset().schema
        return {
            name: ValueDictionary(pa.array([], schema.field(name).type), is_unique=name == "id", is_own=True)
            for name in names
        }
    frame = concat_frames(frames)
    return {
        name: ValueDictionary(frame.array(f"{entity.name}.{name}"), is_unique=name == "id", is_own=True)
        for name in names
    }
