"""Groups and aggregates, frame by frame: what is held follows the groups, not the rows.

Every aggregate is made of states that can be merged: a count, a sum, the least, the greatest. Frames are reduced to
states as they come, and states are reduced again. `count(distinct …)` cannot be merged so; there the distinct rows of
keys and arguments are kept, with their weights. Sums of integers are exact: beyond 64 bits they are Python integers
until the end, when what is no I64 is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.arithmetic import overflow
from omnigraph.engine.domain import Array
from omnigraph.engine.expressions import evaluate
from omnigraph.engine.frame import Coded, Column, Frame, concat_frames
from omnigraph.engine.reduce import State, StateKind, alike, distinct_rows, reduced_groups
from omnigraph.engine.scope import Scope
from omnigraph.engine.values import value_arrow_type
from omnigraph.query.expression_walk import reads_of
from omnigraph.query.expressions import AggregateCall, ColumnRef, EntityRef, Expr, Function, OutputRef
from omnigraph.query.plan import Aggregate

_REDUCE_ROWS: Final = 1 << 18
_HELD_PART: Final = 4


def aggregate_rows(step: Aggregate, scope: Scope) -> Iterator[Frame]:
    """One frame with one row per group."""
    calls = tuple(found.call for found in step.aggregates)
    states = _states(calls)
    reads = frozenset(
        name for expr in (*(key.expression for key in step.keys), *calls) for name in read_names(expr)
    )
    reducer = _Reducer(tuple(f"key {number}" for number in range(len(step.keys))), states, scope)
    for frame in scope.rows(step.input, reads):
        work: dict[str, Column] = {
            name: _column(key.expression, frame) for name, key in zip(reducer.keys, step.keys, strict=True)
        }
        for state in states:
            work[state.name] = _state_input(state, frame)
        reducer.add(Frame(frame.length, work, frame.weights))
    groups = reducer.finish()
    if groups is None and step.keys:
        return
    columns: dict[str, Column] = {}
    for name, key in zip(reducer.keys, step.keys, strict=True):
        assert groups is not None
        columns[key.name] = groups.columns[name]
    for number, found in enumerate(step.aggregates):
        columns[found.name] = _final(number, found.call, groups)
    yield Frame(1 if groups is None else groups.length, columns)


def read_names(expr: Expr) -> Iterator[str]:
    """The columns of the rows that an expression reads; an entity counts by its id alone."""
    if isinstance(expr, EntityRef):
        yield expr.id.name
        return
    if isinstance(expr, AggregateCall):
        if not counts_rows(expr):
            yield from read_names(expr.argument)
        return
    yield from reads_of(expr)


def counts_rows(call: AggregateCall) -> bool:
    """Whether a call counts rows, whatever is in them: then no column is needed for it."""
    return call.function is Function.COUNT and not call.distinct and not call.argument.nullable


class _Reducer:
    """Collects frames of keys and inputs, and reduces them when they grow."""

    def __init__(self, keys: tuple[str, ...], states: tuple[State, ...], scope: Scope) -> None:
        self.keys = keys
        self._states = states
        self._scope = scope
        self._fresh: list[Frame] = []
        self._fresh_rows = 0
        self._reduced: Frame | None = None
        self._held = 0
        self._is_distinct = any(state.kind == StateKind.DISTINCT for state in states)

    def add(self, frame: Frame) -> None:
        self._fresh.append(frame)
        self._fresh_rows += frame.length
        self._hold(frame.nbytes)
        done = self._reduced.length if self._reduced else 0
        most = self._scope.options.memory_bytes_max // _HELD_PART
        if self._fresh_rows >= max(_REDUCE_ROWS, 2 * done) or (self._fresh_rows > done and self._held > most):
            self._reduce()

    def finish(self) -> Frame | None:
        """The groups with their states; None if there were no rows."""
        self._reduce()
        if self._reduced is not None and self._is_distinct:
            return reduced_groups(self._reduced, self.keys, self._states, merge=False)
        return self._reduced

    def _reduce(self) -> None:
        if not self._fresh:
            return
        fresh = concat_frames(self._fresh)
        if self._is_distinct:
            # The distinct rows of keys and inputs, counted, are as good as the rows themselves.
            every = fresh if self._reduced is None else concat_frames([self._reduced, fresh])
            self._reduced = distinct_rows(every)
        else:
            reduced = reduced_groups(fresh, self.keys, self._states, merge=False)
            if self._reduced is not None:
                both = concat_frames(alike(self._reduced, reduced))
                reduced = reduced_groups(both, self.keys, self._states, merge=True)
            self._reduced = reduced
        self._fresh, self._fresh_rows = [], 0
        self._scope.budget.release(self._held)
        self._held = 0
        self._hold(self._reduced.nbytes)

    def _hold(self, size: int) -> None:
        self._scope.budget.hold(size)
        self._held += size


def _states(calls: tuple[AggregateCall, ...]) -> tuple[State, ...]:
    return tuple(
        State(kind, number, call.argument) for number, call in enumerate(calls) for kind in _kinds(call)
    )


def _kinds(call: AggregateCall) -> tuple[StateKind, ...]:
    match call.function:
        case Function.COUNT:
            return (StateKind.DISTINCT,) if call.distinct else (StateKind.COUNT,)
        case Function.SUM:
            return (StateKind.SUM,)
        case Function.AVG:
            return (StateKind.SUM, StateKind.COUNT)
        case Function.MIN:
            return (StateKind.MIN,)
        case Function.MAX:
            return (StateKind.MAX,)


def _column(expr: Expr, frame: Frame) -> Column:
    """The values of an expression; a column as it is, so that its domain stays known."""
    if isinstance(expr, ColumnRef | OutputRef):
        return frame.columns[expr.name]
    if isinstance(expr, EntityRef):
        return frame.columns[expr.id.name]
    return evaluate(expr, frame)


def _state_input(state: State, frame: Frame) -> Column:
    if state.kind is StateKind.COUNT and not state.argument.nullable:
        return pa.array(np.ones(frame.length, dtype=np.bool_))
    column = _column(state.argument, frame)
    if state.kind is not StateKind.COUNT:
        return column if state.kind is StateKind.DISTINCT or not isinstance(column, Coded) else column.array()
    if isinstance(column, Coded) and column.domain.is_unique:
        return pa.array(column.codes >= 0)
    values: Any = column.array() if isinstance(column, Coded) else column
    answer: Column = values.is_valid()
    return answer


def _final(number: int, call: AggregateCall, groups: Frame | None) -> Array:
    """The value of an aggregate from its states."""
    wanted = value_arrow_type(call.type)
    if groups is None:
        return pa.array([0 if call.function is Function.COUNT else None], type=wanted)
    first, *others = (groups.array(State(kind, number, call.argument).name) for kind in _kinds(call))
    if call.function is Function.AVG:
        totals: Any = first.cast(pa.float64(), safe=False)
        answer: Array = pc.divide(totals, others[0].cast(pa.float64()))
        return answer
    if first.type == wanted:
        return first
    try:
        return first.cast(wanted)
    except pa.ArrowInvalid as beyond:
        raise overflow() from beyond
