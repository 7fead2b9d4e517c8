"""Operators on rows: filter, sort, limit, and the columns of the result.

In: frames of the input. Out: frames, and from `project_rows` Arrow batches. Nulls sort first ascending and last
descending (scores: always last); ids break ties, so that the order is total. Under a limit only the rows that can still
be among the first are held; if the first sort key is a number, it alone drops rows, before texts are created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_mask
from omnigraph.engine.columns.dictionary import Array, Codes
from omnigraph.engine.columns.expressions import (
    condition_mask,
    entity_arrow_type,
    evaluate,
    evaluate_entity,
    value_arrow_type,
)
from omnigraph.engine.columns.frame import Frame, concat_frames
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.aggregate import required_names
from omnigraph.engine.operators.search import search_index
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.ranked import find_ranked


def filter_rows(operator: op.FilterRows, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows for which all conditions are true."""
    reads = {name for condition in operator.conditions for name in required_names(condition)}
    for frame in context.run_operator(operator.input, needed | reads):
        matching = frame.filter(condition_mask(operator.conditions, frame))
        if matching.length:
            yield matching


def sort_rows(
    operator: op.Order, needed: RequiredColumns, context: ExecutionContext, top: int | None = None
) -> Iterator[Frame]:
    """Return the sorted rows in one frame; with `top` only the first ones."""
    input_columns = _sorted_columns(operator, needed)
    return _sort_frames(
        operator, context.with_limit(False).run_operator(operator.input, input_columns), context.budget, top
    )


def _sorted_columns(operator: op.Order, needed: RequiredColumns) -> RequiredColumns:
    reads = {name for key in operator.keys for name in required_names(key.expression)}
    return needed | reads | {*operator.ties}


def _sort_frames(
    operator: op.Order, inputs: Iterable[Frame], budget: Budget, top: int | None = None
) -> Iterator[Frame]:
    frames: list[Frame] = []
    size = rows = 0
    for weighted in inputs:
        frame = weighted
        if top is not None and frame.weights is not None:
            frame = replace(frame, weights=np.minimum(frame.weights, top))
        frame = frame.repeat_by_weight()
        if top is not None:
            # Also a small frame is copied: it must not keep the batch that it is a part of.
            frame = (frame.take(_first_rows(operator, frame, top)) if frame.length > top else frame).compact()
        frames.append(frame)
        rows += frame.length
        size += frame.nbytes
        budget.reserve(frame.nbytes)
        if top is not None and rows > 4 * top + 4096:
            collected = concat_frames(frames)
            candidates = collected.take(_first_rows(operator, collected, top)).compact()
            budget.release(size)
            frames, rows, size = [candidates], candidates.length, candidates.nbytes
            budget.reserve(size)
    if frames:
        collected = concat_frames(frames)
        yield collected.take(_first_rows(operator, collected, collected.length if top is None else top))
        budget.release(size)


def limit_rows(operator: op.LimitRows, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows of the limit after its offset; stop reading the input after them."""
    skip = 0 if operator.offset is None else limit_count(operator.offset)
    left = limit_count(operator.count)
    if left == 0:
        return
    if isinstance(operator.input, op.Order):
        frames = _best_rows(operator, operator.input, needed, context, skip + left)
    else:
        frames = context.with_limit(True).run_operator(operator.input, needed)
    for weighted in frames:
        frame = weighted.repeat_by_weight()
        if skip >= frame.length:
            skip -= frame.length
            continue
        frame = frame.slice(skip, skip + left)
        skip = 0
        left -= frame.length
        yield frame
        if left == 0:
            return


def _best_rows(
    limit: op.LimitRows, order: op.Order, needed: RequiredColumns, context: ExecutionContext, top: int
) -> Iterator[Frame]:
    """Return the first rows of an order; a ranked search can find them through an index."""
    ranked = find_ranked(limit)
    if ranked is not None:
        rows = search_index(ranked, top, _sorted_columns(order, needed), context)
        if rows is not None:
            return iter((rows.take(_first_rows(order, rows, top)),))
    return sort_rows(order, needed, context, top=top)


def project_rows(operator: op.Project, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    """Return the rows of the result as batches."""
    schema = result_schema(operator)
    reads = frozenset(name for column in operator.columns for name in reads_of(column.expression))
    for frame in context.run_operator(operator.input, reads):
        yield make_result_batch(operator, schema, frame.repeat_by_weight())


def make_result_batch(operator: op.Project, schema: pa.Schema, frame: Frame) -> pa.RecordBatch:
    """Return the columns of the result for some rows; the schema is that of `result_schema`."""
    arrays = [_result_array(column.expression, frame) for column in operator.columns]
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def result_schema(operator: op.Project) -> pa.Schema:
    """Return the schema of the result."""
    fields = []
    for column in operator.columns:
        expr = column.expression
        kind = entity_arrow_type(expr.table) if isinstance(expr, ex.EntityRef) else value_arrow_type(expr.type)
        fields.append(pa.field(column.name, kind, nullable=expr.nullable or pa.types.is_null(kind)))
    return pa.schema(fields)


def limit_count(expr: ex.Expr) -> int:
    """Return the count or the offset of a limit in a bound plan."""
    assert isinstance(expr, ex.Literal), "the plan is bound"
    assert isinstance(expr.value, int), "a limit is an integer"
    return expr.value


def _first_rows(operator: op.Order, frame: Frame, top: int) -> Codes:
    """Return the positions of the first rows, in order."""
    rows = _first_row_candidates(operator, frame, top) if frame.length > 4 * top else None
    candidates = frame if rows is None else frame.take(rows)
    keys: list[tuple[Array, bool]] = []
    for key in operator.keys:
        keys += _sortable(evaluate(key.expression, candidates), key.descending, key.nulls_last)
    for name in operator.ties:
        keys += _sortable(candidates.array(name), False)
    positions = np.arange(candidates.length)
    if keys:
        table = pa.table({str(number): column for number, (column, _) in enumerate(keys)})
        order = [(str(number), "descending" if down else "ascending") for number, (_, down) in enumerate(keys)]
        indices: Any = pc.sort_indices(table, sort_keys=order)
        positions = indices.to_numpy().astype(np.int64)
    positions = positions[:top]
    return positions if rows is None else rows[positions]


def _first_row_candidates(operator: op.Order, frame: Frame, top: int) -> Codes | None:
    """Return the rows that can be among the first by the first key; None if that cannot be decided quickly."""
    if not operator.keys or top == 0:
        return None
    first = operator.keys[0]
    array = evaluate(first.expression, frame)
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return None
    valid_rows: Codes | None = None
    if array.null_count:
        # Nulls that are sorted last can be ignored if there are enough other rows.
        if not (first.descending or first.nulls_last) or len(array) - array.null_count < top:
            return None
        valid_rows = np.flatnonzero(bool_mask(array.is_valid()))
        array = array.take(pa.array(valid_rows))
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    if first.descending:
        threshold = np.partition(values, len(values) - top)[len(values) - top]
        rows = np.flatnonzero(values >= threshold)
    else:
        threshold = np.partition(values, top - 1)[top - 1]
        rows = np.flatnonzero(values <= threshold)
    return rows if valid_rows is None else valid_rows[rows]


def _sortable(array: Array, descending: bool, nulls_last: bool = False) -> list[tuple[Array, bool]]:
    """Return a sort key as one key, or for a key with nulls as two: whether it is null, and the value."""
    if not array.null_count:
        return [(array, descending)]
    present: Any = array.is_valid()
    return [(present.cast(pa.int8()), descending or nulls_last), (array, descending)]


def _result_array(expr: ex.Expr, frame: Frame) -> Array:
    if isinstance(expr, ex.EntityRef):
        return evaluate_entity(expr, frame)
    if isinstance(expr, ex.ColumnRef | ex.OutputRef):
        return frame.array(expr.name)
    return evaluate(expr, frame)
