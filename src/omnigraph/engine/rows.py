"""The steps that work on rows alone: filters, limits, and the columns of the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from omnigraph.engine.aggregate import read_names
from omnigraph.engine.domain import Array
from omnigraph.engine.expressions import evaluate, evaluate_entity, holds
from omnigraph.engine.frame import Coded, Frame
from omnigraph.engine.order import ordered_rows
from omnigraph.engine.scope import Needed, Scope
from omnigraph.engine.values import entity_arrow_type, value_arrow_type
from omnigraph.query.expression_walk import reads_of
from omnigraph.query.expressions import ColumnRef, EntityRef, Expr, Literal, OutputRef
from omnigraph.query.plan import Filter, Limit, Order, Project


def filtered_rows(step: Filter, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """The rows for which every condition is true."""
    reads = {name for condition in step.conditions for name in read_names(condition)}
    for frame in scope.rows(step.input, needed | reads):
        kept = frame.keep(holds(step.conditions, frame))
        if kept.length:
            yield kept


def limited_rows(step: Limit, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """At most so many rows after the first ones; what is below is not asked for more than that."""
    skip = 0 if step.offset is None else whole_number(step.offset)
    left = whole_number(step.count)
    if left == 0:
        return
    if isinstance(step.input, Order):
        frames = ordered_rows(step.input, needed, scope, top=skip + left)
    else:
        frames = scope.cut(True).rows(step.input, needed)
    for given in frames:
        frame = given.spread()
        if skip >= frame.length:
            skip -= frame.length
            continue
        frame = frame.slice(skip, skip + left)
        skip = 0
        left -= frame.length
        yield frame
        if left == 0:
            return


def projected_rows(step: Project, scope: Scope) -> Iterator[pa.RecordBatch]:
    """The rows of the result as batches."""
    schema = result_schema(step)
    reads = frozenset(name for found in step.columns for name in reads_of(found.expression))
    for given in scope.rows(step.input, reads):
        yield result_batch(step, schema, given.spread())


def result_batch(step: Project, schema: pa.Schema, frame: Frame) -> pa.RecordBatch:
    """The columns of the result over some rows; the schema is that of `result_schema`."""
    arrays = [_result(found.expression, frame) for found in step.columns]
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def result_schema(step: Project) -> pa.Schema:
    """The columns of the result with their types."""
    fields = []
    for found in step.columns:
        expr = found.expression
        kind = entity_arrow_type(expr.table) if isinstance(expr, EntityRef) else value_arrow_type(expr.type)
        fields.append(pa.field(found.name, kind, nullable=expr.nullable or pa.types.is_null(kind)))
    return pa.schema(fields)


def _result(expr: Expr, frame: Frame) -> Array:
    if isinstance(expr, EntityRef):
        return evaluate_entity(expr, frame)
    if isinstance(expr, ColumnRef | OutputRef):
        column: Any = frame.columns[expr.name]
        return column.array() if isinstance(column, Coded) else column
    return evaluate(expr, frame)


def whole_number(expr: Expr) -> int:
    """The count or the offset of a limit in a bound plan."""
    assert isinstance(expr, Literal), "the plan is bound"
    assert isinstance(expr.value, int), "a limit is a whole number"
    return expr.value
