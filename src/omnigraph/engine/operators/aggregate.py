"""Aggregation: numbers rows by group, and reduces them to one row of states per group.

In: an `Aggregate` step. Out: one frame with one row per group. States (counts, sums, minima, maxima) can be merged, so
memory holds one row per group and the frames since the last reduction; `count(distinct …)` holds the distinct rows.
Sums of integers are exact: as I64, or as wide decimals until the final value is checked. `group_rows` also serves
joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_mask
from omnigraph.engine.columns.compute import overflow_error
from omnigraph.engine.columns.dictionary import Array, Codes, distinct_numbers, without_negative_zero
from omnigraph.engine.columns.expressions import evaluate, value_arrow_type
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, Weights, array_of, concat_frames
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of

_NUMBERS_MAX: Final = 2**62
_WIDE_DECIMAL: Final = pa.decimal256(76, 0)
_REDUCE_ROWS: Final = 1 << 18
_HELD_PART: Final = 4


def aggregate_rows(step: op.Aggregate, _needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return one frame with one row per group."""
    calls = tuple(aggregate.call for aggregate in step.aggregates)
    states = _states(calls)
    reads = frozenset(
        name for expr in (*(key.expression for key in step.keys), *calls) for name in required_names(expr)
    )
    reducer = _Reducer(tuple(f"key {number}" for number in range(len(step.keys))), states, context)
    for frame in context.limited(False).rows(step.input, reads):
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
    for number, aggregate in enumerate(step.aggregates):
        columns[aggregate.name] = _final_value(number, aggregate.call, groups)
    yield Frame(1 if groups is None else groups.length, columns)


def required_names(expr: ex.Expr) -> Iterator[str]:
    """Yield the columns that an expression reads; of an entity only the id."""
    if isinstance(expr, ex.EntityRef):
        yield expr.id.name
        return
    if isinstance(expr, ex.AggregateCall):
        if not is_row_count(expr):
            yield from required_names(expr.argument)
        return
    yield from reads_of(expr)


def is_row_count(call: ex.AggregateCall) -> bool:
    """Return whether a call counts all rows, so that it needs no column."""
    return call.function is ex.Function.COUNT and not call.distinct and not call.argument.nullable


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, the number of groups, and one row of each group."""

    numbers: Codes
    count: int
    first_rows: Codes


def group_rows(columns: Sequence[Column], length: int) -> Groups:
    """Number the rows by the values of these columns; without columns all rows are one group."""
    if not columns:
        return Groups(np.zeros(length, dtype=np.int64), 1, np.zeros(min(length, 1), dtype=np.int64))
    numbers, size = value_numbers(columns[0])
    for column in columns[1:]:
        more, more_size = value_numbers(column)
        if size > _NUMBERS_MAX // max(more_size, 1):
            numbers, size = _dense(numbers)
        numbers = numbers * more_size + more
        size *= more_size
    if size > 4 * length + 1024:
        unique, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return Groups(inverse.reshape(-1), len(unique), first)
    # Few possible numbers: get the last row of each group without sorting.
    last_rows = np.full(size, -1, dtype=np.int64)
    last_rows[numbers] = np.arange(length)
    used = np.flatnonzero(last_rows >= 0)
    if len(used) == size:
        return Groups(numbers, size, last_rows)
    ranks = np.zeros(size, dtype=np.int64)
    ranks[used] = np.arange(len(used))
    return Groups(ranks[numbers], len(used), last_rows[used])


def value_numbers(column: Column) -> tuple[Codes, int]:
    """Return a number from 0 for each row, equal for equal values, and their upper bound; null has number 0."""
    if isinstance(column, DictionaryColumn) and not pa.types.is_list(column.dictionary.array.type):
        if column.dictionary.is_unique:
            return column.codes + 1, len(column.dictionary) + 1
        if not column.dictionary.is_own or len(column.dictionary) <= len(column.codes):
            factors, distinct = column.dictionary.factors()
            return np.where(column.codes < 0, -1, factors[column.codes]) + 1, len(distinct) + 1
    if isinstance(column, DictionaryColumn):
        column = column.array()
    if pa.types.is_list(column.type):
        return _list_numbers(column)
    encoded: Any = without_negative_zero(column).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes + 1, len(encoded.dictionary) + 1


def _dense(numbers: Codes) -> tuple[Codes, int]:
    unique, inverse = np.unique(numbers, return_inverse=True)
    return inverse.reshape(-1), len(unique)


def _list_numbers(column: Any) -> tuple[Codes, int]:
    """Number lists, which Arrow cannot encode; they are only group keys, so few Python values are created."""
    by_value: dict[tuple[object, ...] | None, int] = {None: 0}
    numbers = [
        by_value.setdefault(None if items is None else tuple(items), len(by_value)) for items in column.to_pylist()
    ]
    return np.asarray(numbers, dtype=np.int64), len(by_value)


class _Reducer:
    """Collects frames of keys and inputs, and reduces them when they become large."""

    def __init__(self, keys: tuple[str, ...], states: tuple[State, ...], context: ExecutionContext) -> None:
        self.keys = keys
        self._states = states
        self._context = context
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
        bytes_max = self._context.options.memory_bytes_max // _HELD_PART
        is_large = self._fresh_rows > done and self._held > bytes_max
        if is_large or self._fresh_rows >= max(_REDUCE_ROWS, 2 * done):
            self._reduce()

    def finish(self) -> Frame | None:
        """Return the groups with their states; None if there were no rows."""
        self._reduce()
        if self._reduced is not None and self._is_distinct:
            return reduce_groups(self._reduced, self.keys, self._states, merge=False)
        return self._reduced

    def _reduce(self) -> None:
        if not self._fresh:
            return
        fresh = concat_frames(self._fresh)
        if self._is_distinct:
            # The distinct rows of keys and inputs with their weights are enough to compute all states.
            rows = fresh if self._reduced is None else concat_frames([self._reduced, fresh])
            self._reduced = distinct_rows(rows)
        else:
            reduced = reduce_groups(fresh, self.keys, self._states, merge=False)
            if self._reduced is not None:
                both = concat_frames(with_equal_types([self._reduced, reduced]))
                reduced = reduce_groups(both, self.keys, self._states, merge=True)
            self._reduced = reduced
        self._fresh, self._fresh_rows = [], 0
        self._context.budget.release(self._held)
        self._held = 0
        self._hold(self._reduced.nbytes)

    def _hold(self, size: int) -> None:
        self._context.budget.reserve(size)
        self._held += size


class StateKind(Enum):
    """The kinds of states. Distinct values are counted at the end, from all rows; the others can be merged."""

    DISTINCT = "distinct"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class State:
    """One column of states: its kind, the number of its aggregate, and the argument of the aggregate."""

    kind: StateKind
    number: int
    argument: ex.Expr

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.number}"


def _states(calls: tuple[ex.AggregateCall, ...]) -> tuple[State, ...]:
    return tuple(State(kind, number, call.argument) for number, call in enumerate(calls) for kind in _kinds(call))


def _kinds(call: ex.AggregateCall) -> tuple[StateKind, ...]:
    match call.function:
        case ex.Function.COUNT:
            return (StateKind.DISTINCT,) if call.distinct else (StateKind.COUNT,)
        case ex.Function.SUM:
            return (StateKind.SUM,)
        case ex.Function.AVG:
            return (StateKind.SUM, StateKind.COUNT)
        case ex.Function.MIN:
            return (StateKind.MIN,)
        case ex.Function.MAX:
            return (StateKind.MAX,)


def _column(expr: ex.Expr, frame: Frame) -> Column:
    """Return the values of an expression; a column remains a dictionary column."""
    if isinstance(expr, ex.ColumnRef | ex.OutputRef):
        return frame.columns[expr.name]
    if isinstance(expr, ex.EntityRef):
        return frame.columns[expr.id.name]
    return evaluate(expr, frame)


def _state_input(state: State, frame: Frame) -> Column:
    if state.kind is StateKind.COUNT and not state.argument.nullable:
        return pa.array(np.ones(frame.length, dtype=np.bool_))
    column = _column(state.argument, frame)
    if state.kind is not StateKind.COUNT:
        return column if state.kind is StateKind.DISTINCT else array_of(column)
    if isinstance(column, DictionaryColumn) and column.dictionary.is_unique:
        return pa.array(column.codes >= 0)
    values: Any = array_of(column)
    is_valid: Column = values.is_valid()
    return is_valid


def _final_value(number: int, call: ex.AggregateCall, groups: Frame | None) -> Array:
    """Return the values of an aggregate from its states."""
    kind = value_arrow_type(call.type)
    if groups is None:
        return pa.array([0 if call.function is ex.Function.COUNT else None], type=kind)
    first, *others = (groups.array(State(state_kind, number, call.argument).name) for state_kind in _kinds(call))
    if call.function is ex.Function.AVG:
        totals: Any = first.cast(pa.float64(), safe=False)
        means: Array = pc.divide(totals, others[0].cast(pa.float64()))
        return means
    if first.type == kind:
        return first
    try:
        return first.cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow_error() from error


def distinct_rows(frame: Frame) -> Frame:
    """Return the distinct rows, each with its number of rows as weight."""
    groups = group_rows(list(frame.columns.values()), frame.length)
    weights = np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights
    totals = _exact_sums(groups, weights)
    if totals.dtype == object:
        raise overflow_error()
    distinct = Frame(frame.length, frame.columns).take(groups.first_rows)
    return Frame(distinct.length, distinct.columns, totals.astype(np.int64))


def reduce_groups(frame: Frame, keys: tuple[str, ...], states: tuple[State, ...], *, merge: bool) -> Frame:
    """Return one row per group with its states. With `merge` the input rows are states."""
    groups = group_rows([frame.columns[name] for name in keys], frame.length)
    first = Frame(frame.length, {name: frame.columns[name] for name in keys}).take(groups.first_rows)
    columns: dict[str, Column] = dict(first.columns)
    for state in states:
        column = frame.columns[state.name]
        kind = StateKind.SUM if merge and state.kind == StateKind.COUNT else state.kind
        columns[state.name] = _reduce_column(kind, column, groups, frame.weights)
    return Frame(groups.count, columns)


def _reduce_column(kind: StateKind, column: Column, groups: Groups, weights: Weights | None) -> Array:
    if kind == StateKind.DISTINCT:
        numbers, size = value_numbers(column)
        present = numbers > 0
        pairs = distinct_numbers(groups.numbers[present] * size + numbers[present])
        return pa.array(np.bincount(pairs // size, minlength=groups.count))
    array = array_of(column)
    if kind == StateKind.COUNT:
        return pa.array(_counts(array, groups, weights))
    if array.null_count:
        present = bool_mask(array.is_valid())
        weights = None if weights is None else weights[present]
        groups = Groups(groups.numbers[present], groups.count, groups.first_rows)
        array = array.drop_null()
    if kind == StateKind.SUM:
        return _sums(array, groups, weights)
    return _extremes(array, groups, is_min=kind == StateKind.MIN)


def _counts(present: Array, groups: Groups, weights: Weights | None) -> npt.NDArray[np.int64]:
    mask = bool_mask(present)
    is_complete = bool(mask.all())
    numbers = groups.numbers if is_complete else groups.numbers[mask]
    if weights is None:
        return np.bincount(numbers, minlength=groups.count)
    totals = _exact_sums(Groups(numbers, groups.count, groups.first_rows), weights if is_complete else weights[mask])
    if totals.dtype == object:
        raise overflow_error()
    return totals.astype(np.int64)


def _sums(array: Array, groups: Groups, weights: Weights | None) -> Array:
    """Return the sum of each group, null without values. Integers are exact, as I64 or as wide decimals."""
    present = np.bincount(groups.numbers, minlength=groups.count) > 0
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False).astype(np.float64)
        totals = np.bincount(
            groups.numbers, weights=values if weights is None else values * weights, minlength=groups.count
        )
        return pa.array(totals, mask=~present, from_pandas=False)
    if pa.types.is_decimal(array.type):
        numbers = np.array([int(str(value)) for value in array.to_pylist()], dtype=object)
    else:
        numbers = array.to_numpy(zero_copy_only=False)
    exact = _exact_sums(groups, numbers, weights)
    if exact.dtype == object:
        wide = [int(total) if has_values else None for total, has_values in zip(exact, present, strict=True)]
        return pa.array(wide, type=_WIDE_DECIMAL)
    return pa.array(exact.astype(np.int64), mask=~present)


def _exact_sums(groups: Groups, numbers: npt.NDArray[Any], weights: Weights | None = None) -> npt.NDArray[Any]:
    """Return the exact sum of each group: computed as floats while these are exact, as I64 or as Python integers."""
    if not len(numbers):
        return np.zeros(groups.count, dtype=np.int64)
    largest = max(abs(int(numbers.max())), abs(int(numbers.min())))
    heaviest = 1 if weights is None else int(weights.max())
    bound = largest * heaviest * len(numbers)
    if bound < 2**53:
        product = numbers if weights is None else numbers.astype(np.int64) * weights
        return np.bincount(groups.numbers, weights=product, minlength=groups.count).astype(np.int64)
    wide = numbers.astype(np.int64 if bound < 2**63 else object)
    product = wide if weights is None else wide * weights
    totals = np.zeros(groups.count, dtype=wide.dtype)
    np.add.at(totals, groups.numbers, product)
    if totals.dtype == object and all(-(2**63) <= total < 2**63 for total in totals):
        return totals.astype(np.int64)
    return totals


def _extremes(array: Array, groups: Groups, *, is_min: bool) -> Array:
    """Return the minimum or maximum of each group; null without values."""
    numbers = _as_numbers(array)
    if numbers is not None:
        bounds: Any = np.iinfo(numbers.dtype) if numbers.dtype.kind in "iu" else np.finfo(numbers.dtype)
        best = np.full(groups.count, bounds.max if is_min else bounds.min, dtype=numbers.dtype)
        if numbers.dtype.kind == "f":
            best[:] = np.inf if is_min else -np.inf
        (np.minimum if is_min else np.maximum).at(best, groups.numbers, numbers)
        empty = np.bincount(groups.numbers, minlength=groups.count) == 0
        extremes: Any = pa.array(best, mask=empty, from_pandas=False)
        typed: Array = extremes.cast(array.type)
        return typed
    codes = np.full(groups.count, -1, dtype=np.int64)
    if len(array):
        order: Any = pc.sort_indices(array, sort_keys=[("", "ascending" if is_min else "descending")])
        rows = order.to_numpy(zero_copy_only=False).astype(np.int64)[::-1]
        # The last assignment wins, so the best value must be last.
        codes[groups.numbers[rows]] = rows
    missing = codes < 0
    return array.take(pa.array(codes, mask=missing))


def _as_numbers(array: Array) -> npt.NDArray[Any] | None:
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind):
        return array.view(pa.int64()).to_numpy(zero_copy_only=False)
    return None


def with_equal_types(frames: list[Frame]) -> list[Frame]:
    """Return frames of states with equal column types: exact sums may be wide decimals in only some of them."""
    wide = {
        name
        for frame in frames
        for name, column in frame.columns.items()
        if not isinstance(column, DictionaryColumn) and pa.types.is_decimal(column.type)
    }
    return [frame.with_columns({name: frame.array(name).cast(_WIDE_DECIMAL) for name in wide}) for frame in frames]
