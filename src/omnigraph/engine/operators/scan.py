"""Scans of node tables and lookups of nodes by id, with filters.

In: a `Scan` or `Lookup`. Out: frames with the requested columns of the entity. Cached columns are filtered here;
reads from storage push the filter down as text (`storage_filter`) and filter the rest here. A filter with a key looks
up the key instead of comparing all rows. Nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, Mask, ValueDictionary, distinct_numbers
from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, distinct_values, positions_in
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.tables import TableReader
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter, columns_of, walk
from omnigraph.query.plan.types import STRING, Entity, ValueType
from omnigraph.query.rules.search_choice import PredicateRequest, SearchChoice, SearchPath, choose_predicate
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.catalog import TypeKind
from omnigraph.schema.property_types import EnumType, IndexKind, Scalar, ScalarType, VectorType
from omnigraph.storage.lance.dataset import column_text, text_literal
from omnigraph.storage.lance.search import VectorQuery, WordsQuery
from omnigraph.storage.lance.words import fuzzy_words

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SURROGATES: Final = range(0xD800, 0xE000)


def scan_rows(operator: op.Scan, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows of a table that pass the filter."""
    reader = context.reader(operator.entity.table)
    names = output_columns(operator.entity, operator.columns, needed)
    predicate, choice = choose_text_predicate(operator, context)
    if predicate is not None and choice.path is SearchPath.INDEX:
        context.record_mode(operator, predicate_mode(choice), choice.reason)
        yield from _search_rows(operator, predicate, names, context)
        return
    cached = reader.cached_columns(
        columns_to_read(names, operator.filter), whole=not operator.filter.pushed and not context.is_limited
    )
    if cached is None:
        if context.trace is not None:
            context.record_mode(operator, "from storage", _index_reason(operator, reader))
        yield from stream_rows(operator.entity, names, operator.filter, context)
        return
    context.record_mode(operator, "from memory", "columns are cached")
    codes = matching_positions(operator.entity, operator.filter.conjuncts, cached, reader)
    for start in range(0, len(codes), context.options.frame_rows):
        part = codes[start : start + context.options.frame_rows]
        yield Frame(len(part), entity_columns(operator.entity, part, cached, names))


def choose_text_predicate(operator: op.Scan, context: ExecutionContext) -> tuple[ex.TextMatch | None, SearchChoice]:
    """Return the text predicate that an index can serve, and its path; the first one if no index can."""
    reader = context.reader(operator.entity.table)
    choices = []
    for conjunct in operator.filter.residual:
        if isinstance(conjunct, ex.TextMatch):
            column = conjunct.column
            request = PredicateRequest(
                index=reader.facts().index(column.column, IndexKind.INVERTED),
                is_fuzzy=conjunct.mode is ex.TextMode.FUZZY,
                has_words=reader.has_words(column.column, column.text),
                text=column.text,
                can_split=_index_text(conjunct) is not None,
                forced=context.options.search,
            )
            choices.append((conjunct, choose_predicate(request)))
    served = [(conjunct, choice) for conjunct, choice in choices if choice.path is SearchPath.INDEX]
    return next(iter(served or choices), (None, SearchChoice(SearchPath.EXACT, "")))


def _index_text(predicate: ex.TextMatch) -> str | None:
    """Return the text that finds the rows of a predicate in an index; None if no text does."""
    text = str(predicate.query.value) if isinstance(predicate.query, ex.Literal) else ""
    return fuzzy_words(text, predicate.column.text) if predicate.edits else text


def predicate_mode(choice: SearchChoice) -> str:
    """Return the path of a text predicate as `explain` shows it."""
    return "by text index" if choice.path is SearchPath.INDEX else "exactly"


def _search_rows(
    operator: op.Scan, predicate: ex.TextMatch, names: tuple[str, ...], context: ExecutionContext
) -> Iterator[Frame]:
    """Read the rows that match a text predicate through its index, and evaluate the other conditions on them."""
    text = _index_text(predicate)
    assert text is not None, "the predicate has a path through the index"
    entity = operator.entity
    where, rest = storage_filter(operator.filter.pushed)
    residual = (*rest, *(part for part in operator.filter.residual if part is not predicate))
    query = WordsQuery(
        column=predicate.column.column,
        text=text,
        is_phrase=predicate.mode is ex.TextMode.MATCH_TEXT,
        edits=predicate.edits if predicate.mode is ex.TextMode.FUZZY else 0,
    )
    columns = columns_to_read(names, ScanFilter((), residual))
    for rows in search_table(entity, columns, query, where, context):
        frame = rows.filter(condition_mask(residual, rows)) if residual else rows
        if frame.length:
            yield frame.select(f"{entity.name}.{name}" for name in names)


def search_table(
    entity: Entity,
    names: tuple[str, ...],
    query: VectorQuery | WordsQuery,
    where: str | None,
    context: ExecutionContext,
) -> Iterator[Frame]:
    """Read rows through an index. A key that is one text is equal to the id, so it is read once."""
    reader, table = context.reader(entity.table), entity.table
    is_id = table.kind is TypeKind.NODE and len(table.key) == 1 and {"id", *table.key}.issubset(names)
    copied = [part.name for part in table.columns if is_id and part.name in table.key and part.type == STRING]
    for batch in reader.search([name for name in names if name not in copied], query, where):
        ids: dict[str, Column] = {f"{entity.name}.{name}": batch.column("id") for name in copied}
        yield frame_from_batch(entity, batch).with_columns(ids)


def lookup_rows(operator: op.Lookup, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows that pass the filter, with more columns of an entity."""
    entity = operator.entity
    reader = context.reader(entity.table)
    names = output_columns(entity, operator.columns, needed)
    read = columns_to_read(names, operator.filter)
    input_columns = needed - {f"{entity.name}.{name}" for name in names} | {entity.id}
    table_mask: Mask | None = None
    for frame in context.run_operator(operator.input, input_columns):
        if not frame.length:
            continue
        ids = frame.columns[entity.id]
        cached = reader.cached_columns(("id", *read), whole=frame.length > limits.ENGINE_TAKE_ROWS_MAX)
        if cached is None:
            cached = _read_by_ids(entity, read, ids, context)
        held_bytes = sum(int(dictionary.array.nbytes) for dictionary in cached.values() if dictionary.is_per_query)
        context.budget.reserve(held_bytes)
        codes = positions_in(cached["id"], ids, context.cache)
        if operator.filter.conjuncts:
            if table_mask is None and frame.length * 2 > len(cached["id"]) and not cached["id"].is_per_query:
                table_mask = _filter_mask(entity, operator.filter.conjuncts, cached, np.arange(len(cached["id"])))
            if table_mask is not None and not cached["id"].is_per_query:
                mask = table_mask[codes] & (codes >= 0) if len(table_mask) else codes >= 0
            else:
                mask = _filter_mask(entity, operator.filter.conjuncts, cached, codes) & (codes >= 0)
        elif operator.keep_missing:
            mask = np.ones(frame.length, dtype=np.bool_)
        else:
            mask = codes >= 0
        passing = frame.filter(mask)
        if passing.length < frame.length:
            codes = codes[mask]
        if passing.length:
            yield passing.with_columns(entity_columns(entity, codes, cached, ("id", *names)))
        context.budget.release(held_bytes)


def stream_rows(
    entity: Entity, names: tuple[str, ...], scan_filter: ScanFilter, context: ExecutionContext
) -> Iterator[Frame]:
    """Read rows of a table from storage; filter here what storage cannot."""
    # Lance holds the vectors of many batches to test them for null, so this is done here if they are read anyway.
    tested = tuple(part for part in scan_filter.pushed if _tests_vector(part, names))
    where, rest = storage_filter(tuple(part for part in scan_filter.pushed if part not in tested))
    rest = (*tested, *rest)
    residual = (*rest, *scan_filter.residual)
    columns = columns_to_read(names, ScanFilter((), residual))
    for batch in context.reader(entity.table).read_batches(columns, where):
        frame = frame_from_batch(entity, batch)
        if residual:
            frame = frame.filter(condition_mask(residual, frame))
        if frame.length:
            yield frame.select(f"{entity.name}.{name}" for name in names)


def _tests_vector(condition: ex.Expr, names: tuple[str, ...]) -> bool:
    """Return whether a condition tests one of these columns, a vector, for null."""
    match condition:
        case ex.IsNull(ex.ColumnRef(column=name, type=VectorType())):
            return name in names
        case _:
            return False


def matching_positions(
    entity: Entity, conjuncts: tuple[ex.Expr, ...], cached: Mapping[str, ValueDictionary], reader: TableReader
) -> Codes:
    """Return the positions of the rows that pass, in order; look up a key instead of comparing all rows."""
    key_condition, texts = next(
        ((conjunct, texts) for conjunct in conjuncts if (texts := _key_ids(conjunct, entity))), (None, [])
    )
    if key_condition is None:
        if not conjuncts:
            return np.arange(reader.row_count)
        all_rows = np.arange(reader.row_count)
        searched = {
            part.column.column for conjunct in conjuncts for part in walk(conjunct) if isinstance(part, ex.TextMatch)
        }
        # A dictionary caches the words in its texts, an array does not.
        whole: dict[str, Column] = {
            f"{entity.name}.{name}": DictionaryColumn(all_rows, dictionary) if name in searched else dictionary.array
            for name, dictionary in cached.items()
        }
        return np.flatnonzero(condition_mask(conjuncts, Frame(reader.row_count, whole)))
    codes = cached["id"].find(pa.array(texts, pa.utf8()))
    codes = distinct_numbers(codes[codes >= 0])
    rest = tuple(conjunct for conjunct in conjuncts if conjunct is not key_condition)
    if not rest or not len(codes):
        return codes
    return codes[_filter_mask(entity, rest, cached, codes)]


def entity_columns(
    entity: Entity, codes: Codes, cached: Mapping[str, ValueDictionary], names: Iterable[str]
) -> dict[str, Column]:
    """Return columns of the rows at these positions of a cached table."""
    return {f"{entity.name}.{name}": DictionaryColumn(codes, cached[name]) for name in names}


def output_columns(entity: Entity, columns: tuple[str, ...], needed: RequiredColumns) -> tuple[str, ...]:
    """Return the columns that later operators need, and the id."""
    return tuple(name for name in columns if name == "id" or f"{entity.name}.{name}" in needed)


def columns_to_read(names: tuple[str, ...], scan_filter: ScanFilter) -> tuple[str, ...]:
    """Return these columns and those that the filter reads."""
    filtered = (ref.column for conjunct in scan_filter.conjuncts for ref in columns_of(conjunct))
    return tuple(dict.fromkeys((*names, *filtered)))


def frame_from_batch(entity: Entity, batch: pa.RecordBatch) -> Frame:
    """Return a batch of a table as rows of an entity."""
    columns = {f"{entity.name}.{name}": batch.column(name) for name in batch.schema.names}
    return Frame(batch.num_rows, columns)


def storage_filter(conjuncts: tuple[ex.Expr, ...]) -> tuple[str | None, tuple[ex.Expr, ...]]:
    """Return the filter text for storage (None if empty), and the conjuncts that storage cannot evaluate."""
    texts, rest = [], []
    for conjunct in conjuncts:
        text = _condition_text(conjunct)
        if text is None:
            rest.append(conjunct)
        else:
            texts.append(text)
    return (" AND ".join(f"({text})" for text in texts) or None), tuple(rest)


def _index_reason(operator: op.Scan, reader: TableReader) -> str:
    """Return which indexes storage uses for the filter: what it reports, not what was planned."""
    where, _ = storage_filter(operator.filter.pushed)
    if where is None:
        return "no filter that storage can evaluate"
    used = reader.dataset().indexes_used(["id"], where)
    return f"by index {', '.join(used)}" if used else "no index"


def _filter_mask(
    entity: Entity, conjuncts: tuple[ex.Expr, ...], cached: Mapping[str, ValueDictionary], codes: Codes
) -> Mask:
    return condition_mask(conjuncts, Frame(len(codes), entity_columns(entity, codes, cached, cached)))


def _read_by_ids(
    entity: Entity, read: tuple[str, ...], ids: Column, context: ExecutionContext
) -> dict[str, ValueDictionary]:
    """Read the columns of these ids from storage: through the index for few ids, by a scan for many."""
    reader = context.reader(entity.table)
    sources, _ = distinct_values(ids)
    texts = sources.array()
    names = tuple(dict.fromkeys(("id", *read)))
    if len(texts) <= limits.ENGINE_TAKE_ROWS_MAX:
        batches = reader.read_matching(names, "id", texts)
    else:
        requested = ValueDictionary(texts, is_unique=True, is_per_query=True)
        batches = (
            batch.filter(pa.array(requested.find(batch.column("id")) >= 0))
            for batch in reader.read_batches(names, None)
        )
    return reader.as_columns(context.budget.collect(batches), names, is_per_query=True)


def _key_ids(condition: ex.Expr, entity: Entity) -> list[str] | None:
    """Return the ids to which a condition restricts the rows; None if it does not restrict the id."""
    match condition:
        case ex.Compare(ComparisonOperator.EQ, ex.ColumnRef() as column, ex.Literal() as literal):
            values = [literal.value]
        case ex.InList(ex.ColumnRef() as column, items):
            values = [item.value if isinstance(item, ex.Literal) else None for item in items]
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


def _condition_text(expr: ex.Expr) -> str | None:
    match expr:
        case ex.And(operands) | ex.Or(operands):
            parts = [_condition_text(operand) for operand in operands]
            texts = [f"({part})" for part in parts if part is not None]
            keyword = " AND " if isinstance(expr, ex.And) else " OR "
            return keyword.join(texts) if len(texts) == len(parts) else None
        case ex.Not(operand):
            inner = _condition_text(operand)
            return None if inner is None else f"NOT ({inner})"
        case ex.Compare(operator, ex.ColumnRef() as column, ex.Literal() as literal):
            value = _literal_text(literal.value, column.type)
            sign = "<>" if operator.value == "!=" else operator.value
            return None if value is None else f"{column_text(column.column)} {sign} {value}"
        case ex.InList(ex.ColumnRef() as column, items):
            values = [
                _literal_text(item.value, column.type) if isinstance(item, ex.Literal) else None for item in items
            ]
            listed = [value for value in values if value is not None]
            if not listed or len(listed) < len(values):
                return None
            return f"{column_text(column.column)} IN ({', '.join(listed)})"
        case ex.Prefix(ex.ColumnRef() as column, ex.Literal(str() as part)):
            return _prefix_text(column_text(column.column), part)
        case ex.IsNull(ex.ColumnRef() as column, negated):
            return f"{column_text(column.column)} IS {'NOT ' if negated else ''}NULL"
        case ex.Literal(bool() as answer):
            return "true" if answer else "false"
        case _:
            return None


def _literal_text(value: ex.LiteralValue, column_type: ValueType) -> str | None:
    match column_type, value:
        case ((ScalarType(Scalar.STRING) | EnumType()), str()):
            return None if "\x00" in value else text_literal(value)
        case ScalarType(Scalar.BOOL), bool():
            return "true" if value else "false"
        case ScalarType(Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64), int():
            # The parser reads the smallest I64 as the negation of a number that is too large.
            return None if value == -(2**63) else str(value)
        case ScalarType(Scalar.F64), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS DOUBLE)"
        case ScalarType(Scalar.F32), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS FLOAT)"
        case ScalarType(Scalar.DATE), date():
            return f"arrow_cast({(value - _EPOCH.date()).days}, 'Date32')"
        case ScalarType(Scalar.DATETIME), datetime():
            elapsed = value.astimezone(UTC) - _EPOCH
            millis = (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000
            return f"arrow_cast({millis}, 'Timestamp(Millisecond, Some(\"UTC\"))')"
        case _:
            return None


def _prefix_text(column: str, part: str) -> str | None:
    """Return a prefix test as a range of texts, ordered by code points, because an index can serve a range."""
    if "\x00" in part:
        return None
    after = _after_prefix(part)
    low = f"{column} >= {text_literal(part)}"
    return low if after is None else f"{low} AND {column} < {text_literal(after)}"


def _after_prefix(part: str) -> str | None:
    """Return the smallest text above all texts with this prefix; None if no text is."""
    stem = part.rstrip("\U0010ffff")
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    if code in _SURROGATES:
        code = _SURROGATES.stop
    return stem[:-1] + chr(code)
