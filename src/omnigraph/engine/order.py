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

from omnigraph.engine.aggregate import read_names
from omnigraph.engine.domain import Array, Codes
from omnigraph.engine.expressions import evaluate
from omnigraph.engine.frame import Frame, concat_frames
from omnigraph.engine.masks import mask_of
from omnigraph.engine.scope import Needed, Scope
from omnigraph.query.plan import Order


def ordered_rows(step: Order, needed: Needed, scope: Scope, top: int | None = None) -> Iterator[Frame]:
    """The rows in order, in one frame; with `top` at most so many."""
    reads = {name for key in step.keys for name in read_names(key.expression)}
    below = needed | reads | {*step.ties}
    held: list[Frame] = []
    size = rows = 0
    for given in scope.cut(False).rows(step.input, below):
        frame = given.spread() if top is None else _cut_weights(given, top).spread()
        if top is not None and frame.length > top:
            frame = frame.take(_first(step, frame, top)).settled()
        held.append(frame)
        rows += frame.length
        size += frame.nbytes
        scope.budget.hold(frame.nbytes)
        if top is not None and rows > 4 * top + 4096:
            whole = concat_frames(held)
            kept = whole.take(_first(step, whole, top)).settled()
            scope.budget.release(size)
            held, rows, size = [kept], kept.length, kept.nbytes
            scope.budget.hold(size)
    if held:
        whole = concat_frames(held)
        yield whole.take(_first(step, whole, whole.length if top is None else top))
        scope.budget.release(size)


def _cut_weights(frame: Frame, top: int) -> Frame:
    """No row is needed more often than there are places."""
    if frame.weights is None:
        return frame
    return Frame(frame.length, frame.columns, np.minimum(frame.weights, top))


def _first(step: Order, frame: Frame, top: int) -> Codes:
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


def _candidates(step: Order, frame: Frame, top: int) -> Codes | None:
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
