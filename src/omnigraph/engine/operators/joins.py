"""Joins: the inner plans of `not` and `optional`, and parts of a pattern that are not connected.

An inner plan runs once per frame of outer rows. Its input has each distinct outer row once, with a hidden column for
the number of the row; the output of the inner plan has this number too, so it says which outer rows have a match.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import bool_mask, nulls
from omnigraph.engine.columns.dictionary import Codes
from omnigraph.engine.columns.expressions import value_arrow_type
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    concat_frames,
    expand_ranges,
    multiply_weights,
    output_slices,
    range_counts,
    weights_of,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators.aggregate import Groups, group_rows
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.walk import argument_columns


def exists_join(operator: op.ExistsJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows for which the inner plan has a match, or has none if the operator is negated."""
    outer_columns = argument_columns(operator.inner)
    has_match: bool | None = None
    for frame in context.run_operator(operator.input, needed | outer_columns | {*operator.keys}):
        if not operator.keys:
            if has_match is None:
                inner_frames = context.with_limit(True).run_operator(operator.inner, frozenset())
                has_match = any(inner_frame.length for inner_frame in inner_frames)
            if has_match is not operator.negated:
                yield frame
            continue
        groups = group_rows([frame.columns[key] for key in operator.keys], frame.length)
        inner, number_column = _inner_context(frame, groups, outer_columns | {*operator.keys}, context)
        matched = np.zeros(groups.count, dtype=np.bool_)
        for inner_frame in inner.run_operator(operator.inner, frozenset({number_column})):
            matched[inner_frame.array(number_column).to_numpy(zero_copy_only=False)] = True
        matching = frame.filter(matched[groups.numbers] != operator.negated)
        if matching.length:
            yield matching


def left_join(operator: op.LeftJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return each row with each match of the inner plan, or once with nulls."""
    outer_columns = argument_columns(operator.inner)
    inner_needed = (needed & {*ex.names(operator.inner.outputs)}) - {*ex.names(operator.input.outputs)}
    new_fields = [field for field in operator.inner.outputs if field.name in inner_needed]
    no_matches = Frame(0, {field.name: nulls(0, value_arrow_type(field.type)) for field in new_fields})
    uncorrelated: Frame | None = None
    uncorrelated_bytes = 0
    for frame in context.run_operator(operator.input, needed - inner_needed | outer_columns | {*operator.keys}):
        if not frame.length:
            continue
        if operator.keys:
            groups = group_rows([frame.columns[key] for key in operator.keys], frame.length)
            inner, number_column = _inner_context(frame, groups, outer_columns | {*operator.keys}, context)
            matches, held_bytes = _collect(operator.inner, inner_needed | {number_column}, inner)
            match_numbers = np.zeros(0, dtype=np.int64)
            if matches is not None:
                match_numbers = matches.array(number_column).to_numpy(zero_copy_only=False)
            numbers = groups.numbers
        else:
            if uncorrelated is None:
                matches, uncorrelated_bytes = _collect(operator.inner, inner_needed, context)
                uncorrelated = matches or no_matches
            matches, held_bytes = uncorrelated, 0
            match_numbers = np.zeros(matches.length, dtype=np.int64)
            numbers = np.zeros(frame.length, dtype=np.int64)
        matches = (matches or no_matches).select(inner_needed)
        yield from join_on_numbers(frame, numbers, matches, match_numbers, context)
        unmatched = frame.filter(~np.isin(numbers, match_numbers))
        if unmatched.length:
            yield unmatched.with_columns(
                {name: _null_column(column, unmatched.length) for name, column in matches.columns.items()}
            )
        context.budget.release(held_bytes)
    context.budget.release(uncorrelated_bytes)


def cross_join(operator: op.CrossJoin, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return each pair of rows that is equal in the columns of `on`. The right side is held in memory."""
    on_left = [left for left, _ in operator.on]
    on_right = [right for _, right in operator.on]
    needed_below = needed | {*on_left, *on_right}
    needed_right = needed_below & frozenset(ex.names(operator.right.outputs))
    right, held_bytes = _collect(operator.right, needed_right, context.with_limit(False))
    if right is None or not right.length:
        return
    for left in context.run_operator(operator.left, needed_below - needed_right):
        numbers, right_numbers = _number_keys(left, right, on_left, on_right)
        yield from join_on_numbers(left, numbers, right, right_numbers, context)
    context.budget.release(held_bytes)


def join_on_numbers(
    left: Frame, numbers: Codes, right: Frame, right_numbers: Codes, context: ExecutionContext
) -> Iterator[Frame]:
    """Return each pair of rows with equal numbers; -1 on the left has no pair."""
    order = np.argsort(right_numbers, kind="stable")
    largest = max(int(right_numbers.max(initial=-1)), int(numbers.max(initial=-1)))
    starts = np.searchsorted(right_numbers[order], np.arange(largest + 2))
    _, counts = range_counts(starts, numbers)
    for begin, end in output_slices(counts, context.options.expanded_rows_max):
        context.budget.require_time()
        positions, indices = expand_ranges(starts, numbers[begin:end])
        if not len(positions):
            continue
        left_rows, right_rows = left.take(positions + begin), right.take(order[indices])
        weights = None
        if left.weights is not None or right.weights is not None:
            weights = multiply_weights(weights_of(left_rows), weights_of(right_rows))
        yield Frame(len(positions), {**left_rows.columns, **right_rows.columns}, weights)


def _inner_context(
    frame: Frame, groups: Groups, columns: frozenset[str], context: ExecutionContext
) -> tuple[ExecutionContext, str]:
    """Return the context of an inner plan, with the distinct outer rows, and the name of their number column."""
    number_column = f"#{context.depth}"
    outer = Frame(frame.length, frame.columns).select(columns).take(groups.first_rows)
    numbered = outer.with_columns({number_column: pa.array(np.arange(groups.count))})
    return context.for_inner_plan(numbered), number_column


def _collect(operator: Relation, needed: RequiredColumns, context: ExecutionContext) -> tuple[Frame | None, int]:
    """Return all rows of an operator, and their bytes, which are reserved until the caller releases them."""
    frames, size = [], 0
    for frame in context.run_operator(operator, needed):
        frames.append(frame.select(needed).compact())
        size += frames[-1].nbytes
        context.budget.reserve(frames[-1].nbytes)
    return (concat_frames(frames) if frames else None), size


def _number_keys(left: Frame, right: Frame, on_left: list[str], on_right: list[str]) -> tuple[Codes, Codes]:
    """Return a number for each row of both sides, equal for equal keys; -1 on the left for a null."""
    if not on_left:
        return np.zeros(left.length, dtype=np.int64), np.zeros(right.length, dtype=np.int64)
    columns: list[Column] = []
    missing = np.zeros(left.length, dtype=np.bool_)
    for left_name, right_name in zip(on_left, on_right, strict=True):
        array = left.array(left_name)
        missing |= bool_mask(array.is_null())
        columns.append(pa.concat_arrays([array, right.array(right_name)]))
    numbers = group_rows(columns, left.length + right.length).numbers
    return np.where(missing, -1, numbers[: left.length]), numbers[left.length :]


def _null_column(column: Column, length: int) -> Column:
    if isinstance(column, DictionaryColumn):
        return DictionaryColumn(np.full(length, -1, dtype=np.int64), column.dictionary)
    return nulls(length, column.type)
