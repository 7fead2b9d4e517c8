"""Joins: the inner plans of `not` and `optional`, and parts of a pattern that nothing connects.

An inner plan runs once per frame of outer rows. It gets each distinct outer row once, with a hidden column that has the
row's number; the number comes out of the inner plan again and says which outer rows have a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import mask_of
from omnigraph.engine.columns.dictionary import Array, Codes
from omnigraph.engine.columns.expressions import value_arrow_type
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    concat_frames,
    expand_ranges,
    gather,
    multiply_weights,
    output_slices,
    weights_of,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators.aggregate import Groups, group_rows
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.walk import argument_columns


def exists_join(step: op.ExistsJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """The rows for which the inner plan has a match, or none."""
    outer_columns = argument_columns(step.inner)
    answer: bool | None = None
    for frame in context.rows(step.input, needed | outer_columns | {*step.keys}):
        if not step.keys:
            if answer is None:
                answer = any(found.length for found in context.limited(True).rows(step.inner, frozenset()))
            if answer is not step.negated:
                yield frame
            continue
        groups = group_rows([frame.columns[key] for key in step.keys], frame.length)
        inner, hidden = _inner_context(frame, groups, outer_columns | {*step.keys}, context)
        matched = np.zeros(groups.count, dtype=np.bool_)
        for found in inner.rows(step.inner, frozenset({hidden})):
            matched[found.array(hidden).to_numpy(zero_copy_only=False)] = True
        kept = frame.filter(matched[groups.numbers] != step.negated)
        if kept.length:
            yield kept


def left_join(step: op.LeftJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Each row with each match of the inner plan, or once with nulls."""
    outer_columns = argument_columns(step.inner)
    outside = set(ex.names(step.input.outputs))
    new = tuple(field for field in step.inner.outputs if field.name not in outside and field.name in needed)
    inner_needed = frozenset(ex.names(new))
    same: Frame | None = None
    kept = 0
    for frame in context.rows(step.input, needed - inner_needed | outer_columns | {*step.keys}):
        if not frame.length:
            continue
        if step.keys:
            groups = group_rows([frame.columns[key] for key in step.keys], frame.length)
            inner, hidden = _inner_context(frame, groups, outer_columns | {*step.keys}, context)
            found, held = _collect(step.inner, inner_needed | {hidden}, inner)
            numbers = groups.numbers
            count = groups.count
            at = np.zeros(0, dtype=np.int64) if found is None else _numbers(found, hidden)
        else:
            if same is None:
                once, kept = _collect(step.inner, inner_needed, context)
                same = once or Frame(0, _null_columns(new, 0))
            found, held, numbers, count = same, 0, np.zeros(frame.length, dtype=np.int64), 1
            at = np.zeros(same.length, dtype=np.int64)
        matches = found or Frame(0, _null_columns(new, 0))
        order = np.argsort(at, kind="stable")
        starts = np.searchsorted(at[order], np.arange(count + 1))
        yield from _join_matches(frame, (matches.select(inner_needed), order), (starts, numbers), context)
        context.budget.release(held)
    context.budget.release(kept)


def cross_join(step: op.CrossJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Every pair of rows, or with `on` every pair that is equal there. The right side is held."""
    on_left = [left for left, _ in step.on]
    on_right = [right for _, right in step.on]
    below = needed | {*on_left, *on_right}
    of_right = below & frozenset(ex.names(step.right.outputs))
    right, held = _collect(step.right, of_right, context.limited(False))
    if right is None or not right.length:
        return
    for left in context.rows(step.left, below - of_right):
        numbers, at = _number_keys(left, right, on_left, on_right)
        order = np.argsort(at, kind="stable")
        starts = np.searchsorted(
            at[order], np.arange(max(int(at.max(initial=-1)), int(numbers.max(initial=-1))) + 2)
        )
        for rows, positions in _pairs(starts, numbers, context):
            part = right.take(order[positions])
            yield _concat_pairs(left.take(rows), part)
    context.budget.release(held)


def _inner_context(
    frame: Frame, groups: Groups, columns: frozenset[str], context: ExecutionContext
) -> tuple[ExecutionContext, str]:
    hidden = f"#{context.depth}"
    outer = Frame(frame.length, frame.columns).select(columns).take(groups.first_rows)
    compact_codes = outer.with_columns({hidden: pa.array(np.arange(groups.count))})
    return context.for_inner_plan(compact_codes), hidden


def _collect(step: Relation, needed: RequiredColumns, context: ExecutionContext) -> tuple[Frame | None, int]:
    """All rows of a step, and their bytes, which are held until the caller releases them."""
    frames, size = [], 0
    for frame in context.rows(step, needed):
        frames.append(frame.select(needed).compact())
        size += frames[-1].nbytes
        context.budget.reserve(frames[-1].nbytes)
    return (concat_frames(frames) if frames else None), size


def _numbers(frame: Frame, hidden: str) -> Codes:
    return frame.array(hidden).to_numpy(zero_copy_only=False).astype(np.int64)


def _join_matches(
    frame: Frame, inner: tuple[Frame, Codes], match: tuple[Codes, Codes], context: ExecutionContext
) -> Iterator[Frame]:
    """Outer rows beside their matches; one null row where there is none."""
    (matches, order), (starts, numbers) = inner, match
    counts = starts[numbers + 1] - starts[numbers]
    sizes = np.maximum(counts, 1)
    for begin, end in output_slices(sizes, context.options.expanded_rows_max):
        size = sizes[begin:end]
        positions = np.repeat(np.arange(begin, end), size)
        before = np.cumsum(size) - size
        at = np.arange(len(positions)) + np.repeat(starts[numbers[begin:end]] - before, size)
        there = np.repeat(counts[begin:end] > 0, size)
        rows = np.full(len(positions), -1, dtype=np.int64)
        rows[there] = order[at[there]]
        part = frame.take(positions)
        columns = {name: _take_or_null(column, rows) for name, column in matches.columns.items()}
        weights = part.weights
        if matches.weights is not None:
            own = np.ones(len(rows), dtype=np.int64)
            own[there] = matches.weights[rows[there]]
            weights = multiply_weights(own, weights_of(part))
        yield Frame(part.length, {**part.columns, **columns}, weights)


def _take_or_null(column: Column, rows: Codes) -> Column:
    if isinstance(column, DictionaryColumn):
        codes = np.full(len(rows), -1, dtype=np.int64)
        there = rows >= 0
        codes[there] = column.codes[rows[there]]
        return DictionaryColumn(codes, column.dictionary)
    return gather(column, rows)


def _null_columns(fields: ex.Fields, length: int) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for field in fields:
        kind: Any = value_arrow_type(field.type)
        found[field.name] = pa.nulls(length, kind)
    return found


def _number_keys(left: Frame, right: Frame, on_left: list[str], on_right: list[str]) -> tuple[Codes, Codes]:
    """A number for each row of both sides, equal where the columns are; -1 on the left for a null."""
    if not on_left:
        return np.zeros(left.length, dtype=np.int64), np.zeros(right.length, dtype=np.int64)
    columns: list[Column] = []
    missing = np.zeros(left.length, dtype=np.bool_)
    for one, other in zip(on_left, on_right, strict=True):
        array = left.array(one)
        missing |= mask_of(array.is_null())
        columns.append(pa.concat_arrays([array, right.array(other)]))
    numbers = group_rows(columns, left.length + right.length).numbers
    return np.where(missing, -1, numbers[: left.length]), numbers[left.length :]


def _pairs(starts: Codes, numbers: Codes, context: ExecutionContext) -> Iterator[tuple[Codes, Codes]]:
    counts = np.where(numbers < 0, 0, starts[numbers + 1] - starts[numbers])
    for begin, end in output_slices(counts, context.options.expanded_rows_max):
        context.budget.require_time()
        positions, at = expand_ranges(starts, numbers[begin:end])
        if len(positions):
            yield positions + begin, at


def _concat_pairs(left: Frame, right: Frame) -> Frame:
    weights = None
    if left.weights is not None or right.weights is not None:
        weights = multiply_weights(weights_of(left), weights_of(right))
    return Frame(left.length, {**left.columns, **right.columns}, weights)
