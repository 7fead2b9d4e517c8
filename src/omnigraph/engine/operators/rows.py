"""Sorting: keys with nulls first ascending and last descending (scores: last), then ids, so that the order is total.

Under a limit only the rows that can still be among the first are held. Where the first key is a number, rows that
cannot be among them are dropped by it alone, before any text is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import mask_of
from omnigraph.engine.columns.dictionary import Array, Codes
from omnigraph.engine.columns.expressions import (
    condition_mask,
    entity_arrow_type,
    evaluate,
    evaluate_entity,
    value_arrow_type,
)
from omnigraph.engine.columns.frame import DictionaryColumn, Frame, concat_frames
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators.aggregate import required_names
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of


def sort_rows(
    step: op.Order, needed: RequiredColumns, context: ExecutionContext, top: int | None = None
) -> Iterator[Frame]:
    """The rows in order, in one frame; with `top` at most so many."""
    reads = {name for key in step.keys for name in required_names(key.expression)}
    below = needed | reads | {*step.ties}
    held: list[Frame] = []
    size = rows = 0
    for given in context.limited(False).rows(step.input, below):
        frame = given.repeat_by_weight() if top is None else _cut_weights(given, top).repeat_by_weight()
        if top is not None and frame.length > top:
            frame = frame.take(_first(step, frame, top)).compact()
        held.append(frame)
        rows += frame.length
        size += frame.nbytes
        context.budget.reserve(frame.nbytes)
        if top is not None and rows > 4 * top + 4096:
            whole = concat_frames(held)
            kept = whole.take(_first(step, whole, top)).compact()
            context.budget.release(size)
            held, rows, size = [kept], kept.length, kept.nbytes
            context.budget.reserve(size)
    if held:
        whole = concat_frames(held)
        yield whole.take(_first(step, whole, whole.length if top is None else top))
        context.budget.release(size)


def _cut_weights(frame: Frame, top: int) -> Frame:
    """No row is needed more often than there are places."""
    if frame.weights is None:
        return frame
    return Frame(frame.length, frame.columns, np.minimum(frame.weights, top))


def _first(step: op.Order, frame: Frame, top: int) -> Codes:
    """The positions of the first rows, in order."""
    rows = _candidates(step, frame, top) if top < frame.length else None
    kept = frame if rows is None else frame.take(rows)
    keys: list[tuple[Array, bool]] = []
    for key in step.keys:
        keys.extend(_sortable(evaluate(key.expression, kept), key.descending, key.nulls_last))
    columns = [column for column, _ in keys]
    order = [(str(number), "descending" if down else "ascending") for number, (_, down) in enumerate(keys)]
    for name in step.ties:
        for column, _ in _sortable(kept.array(name), False):
            order.append((str(len(columns)), "ascending"))
            columns.append(column)
    if not columns:
        found = np.arange(kept.length)
    else:
        table = pa.table({str(number): column for number, column in enumerate(columns)})
        indices: Any = pc.sort_indices(table, sort_keys=order)
        found = indices.to_numpy().astype(np.int64)
    found = found[:top]
    return found if rows is None else rows[found]


def _candidates(step: op.Order, frame: Frame, top: int) -> Codes | None:
    """The rows that can be among the first by the first key alone; None if that is not quickly known."""
    if not step.keys or top == 0:
        return None
    first = step.keys[0]
    array = evaluate(first.expression, frame)
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return None
    there: Codes | None = None
    if array.null_count:
        # Nulls that come last do not matter while there is enough else.
        if not (first.descending or first.nulls_last) or len(array) - array.null_count < top:
            return None
        there = np.flatnonzero(mask_of(array.is_valid()))
        array = array.take(pa.array(there))
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    if first.descending:
        edge = np.partition(values, len(values) - top)[len(values) - top]
        kept = np.flatnonzero(values >= edge)
    else:
        edge = np.partition(values, top - 1)[top - 1]
        kept = np.flatnonzero(values <= edge)
    return kept if there is None else there[kept]


def _sortable(array: Array, descending: bool, nulls_last: bool = False) -> list[tuple[Array, bool]]:
    """A key as one or two keys without nulls in the way: whether it is there goes first."""
    if not array.null_count:
        return [(array, descending)]
    present: Any = array.is_valid()
    return [(present.cast(pa.int8()), descending or nulls_last), (array, descending)]


def filter_rows(step: op.FilterRows, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """The rows for which every condition is true."""
    reads = {name for condition in step.conditions for name in required_names(condition)}
    for frame in context.rows(step.input, needed | reads):
        kept = frame.filter(condition_mask(step.conditions, frame))
        if kept.length:
            yield kept


def limit_rows(step: op.LimitRows, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """At most so many rows after the first ones; what is below is not asked for more than that."""
    skip = 0 if step.offset is None else limit_count(step.offset)
    left = limit_count(step.count)
    if left == 0:
        return
    if isinstance(step.input, op.Order):
        frames = sort_rows(step.input, needed, context, top=skip + left)
    else:
        frames = context.limited(True).rows(step.input, needed)
    for given in frames:
        frame = given.repeat_by_weight()
        if skip >= frame.length:
            skip -= frame.length
            continue
        frame = frame.slice(skip, skip + left)
        skip = 0
        left -= frame.length
        yield frame
        if left == 0:
            return


def project_rows(step: op.Project, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    """The rows of the result as batches."""
    schema = result_schema(step)
    reads = frozenset(name for found in step.columns for name in reads_of(found.expression))
    for given in context.rows(step.input, reads):
        yield make_result_batch(step, schema, given.repeat_by_weight())


def make_result_batch(step: op.Project, schema: pa.Schema, frame: Frame) -> pa.RecordBatch:
    """The columns of the result over some rows; the schema is that of `result_schema`."""
    arrays = [_result(found.expression, frame) for found in step.columns]
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def result_schema(step: op.Project) -> pa.Schema:
    """The columns of the result with their types."""
    fields = []
    for found in step.columns:
        expr = found.expression
        kind = (
            entity_arrow_type(expr.table) if isinstance(expr, ex.EntityRef) else value_arrow_type(expr.type)
        )
        fields.append(pa.field(found.name, kind, nullable=expr.nullable or pa.types.is_null(kind)))
    return pa.schema(fields)


def _result(expr: ex.Expr, frame: Frame) -> Array:
    if isinstance(expr, ex.EntityRef):
        return evaluate_entity(expr, frame)
    if isinstance(expr, ex.ColumnRef | ex.OutputRef):
        column: Any = frame.columns[expr.name]
        return column.array() if isinstance(column, DictionaryColumn) else column
    return evaluate(expr, frame)


def limit_count(expr: ex.Expr) -> int:
    """The count or the offset of a limit in a bound plan."""
    assert isinstance(expr, ex.Literal), "the plan is bound"
    assert isinstance(expr.value, int), "a limit is a whole number"
    return expr.value
