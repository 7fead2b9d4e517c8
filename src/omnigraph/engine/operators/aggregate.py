"""Aggregation: numbers rows by group, and reduces them to one row of states per group.

In: an `Aggregate`. Out: one frame with one row per group. States (counts, sums, minima, maxima) can be merged, so
memory holds one row per group and the frames since the last reduction; `count(distinct …)` and `collect` hold the
distinct rows.
Sums of integers are exact: as I64, or as wide decimals until the final value is checked. `group_rows` also serves
joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_mask
from omnigraph.engine.columns.compute import overflow_error
from omnigraph.engine.columns.dictionary import Array, Codes, distinct_numbers, encode_values
from omnigraph.engine.columns.expressions import evaluate, evaluate_entity, value_arrow_type
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, Weights, array_of, concat_frames
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of

_NUMBERS_MAX: Final = 2**62  # of the product of the numbers of two columns
_WIDE_DECIMAL: Final = pa.decimal256(76, 0)
_REDUCE_ROWS: Final = 1 << 18  # fewer rows are not reduced
_HELD_PART: Final = 4  # frames that are not reduced take at most this part of the memory
_EMPTY: Final[dict[ex.Function, Any]] = {ex.Function.COUNT: 0, ex.Function.COLLECT: []}


def aggregate_rows(operator: op.Aggregate, _needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return one frame with one row per group."""
    keys = {f"key {number}": key for number, key in enumerate(operator.keys)}
    calls = tuple(aggregate.expression for aggregate in operator.aggregates)
    states = tuple(state for number, call in enumerate(calls) for state in _states(number, call))
    expressions = (*(key.expression for key in operator.keys), *calls)
    reads = frozenset(name for expr in expressions for name in required_names(expr))
    reducer = _Reducer(tuple(keys), states, context)
    for frame in context.with_limit(False).run_operator(operator.input, reads):
        columns = {name: _column(key.expression, frame) for name, key in keys.items()}
        inputs = {state.name: _state_input(state, frame) for state in states}
        reducer.add(Frame(frame.length, columns | inputs, frame.weights))
    groups = reducer.finish()
    if groups is None:
        if operator.keys:
            return
        empty: dict[str, Column] = {}
        for aggregate in operator.aggregates:
            call = aggregate.expression
            value = _EMPTY.get(call.function)
            empty[aggregate.name] = pa.array([value], value_arrow_type(call.type))
        yield Frame(1, empty)
        return
    results: dict[str, Column] = {key.name: groups.columns[name] for name, key in keys.items()}
    for number, aggregate in enumerate(operator.aggregates):
        results[aggregate.name] = _final_value(number, aggregate.expression, groups)
    yield Frame(groups.length, results)


def required_names(expr: ex.Expr) -> Iterator[str]:
    """Yield the columns that an expression reads; of an entity only the id."""
    if isinstance(expr, ex.EntityRef):
        yield expr.id.name
        return
    if isinstance(expr, ex.AggregateCall):
        if expr.function is ex.Function.COLLECT:
            yield from reads_of(expr.argument)
        elif not is_row_count(expr):
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
        column_numbers, column_size = value_numbers(column)
        if size > _NUMBERS_MAX // max(column_size, 1):
            unique, numbers = np.unique(numbers, return_inverse=True)
            size = len(unique)
        numbers = numbers * column_size + column_numbers
        size *= column_size
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
        if not column.dictionary.is_per_query or len(column.dictionary) <= len(column.codes):
            factors, distinct = column.dictionary.factors()
            return np.where(column.codes < 0, -1, factors[column.codes]) + 1, len(distinct) + 1
    if isinstance(column, DictionaryColumn):
        column = column.array()
    values = _identity(column)
    if pa.types.is_list(values.type):
        return _list_numbers(values)
    codes, distinct = encode_values(values)
    return codes + 1, len(distinct) + 1


def _identity(array: Any) -> Any:
    """Return the ids of entities, which identify them, or the values themselves."""
    return pc.struct_field(array, 0) if pa.types.is_struct(array.type) else array


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
        self._new_frames: list[Frame] = []
        self._new_row_count = 0
        self._reduced: Frame | None = None
        self._held_bytes = 0
        self._is_distinct = any(state.needs_rows for state in states)

    def add(self, frame: Frame) -> None:
        self._new_frames.append(frame)
        self._new_row_count += frame.length
        self._hold(frame.nbytes)
        reduced_rows = self._reduced.length if self._reduced else 0
        bytes_max = self._context.options.memory_bytes_max // _HELD_PART
        is_large = self._new_row_count > reduced_rows and self._held_bytes > bytes_max
        if is_large or self._new_row_count >= max(_REDUCE_ROWS, 2 * reduced_rows):
            self._reduce()

    def finish(self) -> Frame | None:
        """Return the groups with their states; None if there were no rows."""
        self._reduce()
        if self._reduced is not None and self._is_distinct:
            return reduce_groups(self._reduced, self.keys, self._states, merge=False)
        return self._reduced

    def _reduce(self) -> None:
        if not self._new_frames:
            return
        new_rows = concat_frames(self._new_frames)
        if self._is_distinct:
            # The distinct rows of keys and inputs with their weights are enough to compute all states.
            rows = new_rows if self._reduced is None else concat_frames([self._reduced, new_rows])
            self._reduced = distinct_rows(rows)
        else:
            reduced = reduce_groups(new_rows, self.keys, self._states, merge=False)
            if self._reduced is not None:
                partial_groups = concat_frames(with_equal_types([self._reduced, reduced]))
                reduced = reduce_groups(partial_groups, self.keys, self._states, merge=True)
            self._reduced = reduced
        self._new_frames, self._new_row_count = [], 0
        self._context.budget.release(self._held_bytes)
        self._held_bytes = 0
        self._hold(self._reduced.nbytes)

    def _hold(self, size: int) -> None:
        self._context.budget.reserve(size)
        self._held_bytes += size


@dataclass(frozen=True, slots=True)
class State:
    """One column of states of an aggregate: a count, sum, minimum or maximum, which can be merged.

    Distinct values are counted, and lists collected, at the end, from all rows.
    """

    function: ex.Function
    number: int
    argument: ex.Expr
    distinct: bool

    @property
    def name(self) -> str:
        return f"{self.function.value} {self.number}"

    @property
    def needs_rows(self) -> bool:
        """Whether its states cannot be merged."""
        return self.distinct or self.function is ex.Function.COLLECT


def _states(number: int, call: ex.AggregateCall) -> tuple[State, ...]:
    is_mean = call.function is ex.Function.AVG
    functions = (ex.Function.SUM, ex.Function.COUNT) if is_mean else (call.function,)
    return tuple(State(function, number, call.argument, call.distinct) for function in functions)


def _column(expr: ex.Expr, frame: Frame) -> Column:
    """Return the values of an expression; a column remains a dictionary column."""
    if isinstance(expr, ex.ColumnRef | ex.OutputRef):
        return frame.columns[expr.name]
    if isinstance(expr, ex.EntityRef):
        return frame.columns[expr.id.name]
    return evaluate(expr, frame)


def _state_input(state: State, frame: Frame) -> Column:
    """Return the values to reduce; for a count, whether there is a value."""
    is_count = state.function is ex.Function.COUNT and not state.distinct
    if is_count and not state.argument.nullable:
        return pa.array(np.ones(frame.length, dtype=np.bool_))
    if state.function is ex.Function.COLLECT and isinstance(state.argument, ex.EntityRef):
        return evaluate_entity(state.argument, frame)
    column = _column(state.argument, frame)
    if state.needs_rows:
        return column
    if is_count and isinstance(column, DictionaryColumn) and column.dictionary.is_unique:
        return pa.array(column.codes >= 0)
    array: Any = array_of(column)
    state_input: Column = array.is_valid() if is_count else array
    return state_input


def _final_value(number: int, call: ex.AggregateCall, groups: Frame) -> Array:
    """Return the values of an aggregate from its states."""
    kind = value_arrow_type(call.type)
    first, *others = (groups.array(state.name) for state in _states(number, call))
    if call.function is ex.Function.AVG:
        totals: Any = first.cast(pa.float64(), safe=False)
        means: Array = pc.divide(totals, others[0].cast(pa.float64()))
        return means
    try:
        return first if first.type == kind else first.cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow_error() from error


def distinct_rows(frame: Frame) -> Frame:
    """Return the distinct rows, each with its number of rows as weight."""
    groups = group_rows(list(frame.columns.values()), frame.length)
    totals = _counts(groups.numbers, groups.count, frame.weights)
    return replace(Frame(frame.length, frame.columns).take(groups.first_rows), weights=totals)


def reduce_groups(frame: Frame, keys: tuple[str, ...], states: tuple[State, ...], *, merge: bool) -> Frame:
    """Return one row per group with its states. With `merge` the input rows are states."""
    groups = group_rows([frame.columns[name] for name in keys], frame.length)
    first = Frame(frame.length, {name: frame.columns[name] for name in keys}).take(groups.first_rows)
    columns = {state.name: _reduce(state, frame, groups, merge=merge) for state in states}
    return Frame(groups.count, {**first.columns, **columns})


def _reduce(state: State, frame: Frame, groups: Groups, *, merge: bool) -> Array:
    column, numbers, weights = frame.columns[state.name], groups.numbers, frame.weights
    if state.function is ex.Function.COLLECT:
        return _collect(array_of(column), numbers, groups.count, weights, distinct=state.distinct)
    if state.distinct:
        values, size = value_numbers(column)
        pairs = distinct_numbers((numbers * size + values)[values > 0])
        return pa.array(np.bincount(pairs // size, minlength=groups.count))
    array = array_of(column)
    is_count = state.function is ex.Function.COUNT and not merge
    if is_count or array.null_count:
        present = bool_mask(array if is_count else array.is_valid())
        if not present.all():
            numbers = numbers[present]
            weights = None if weights is None else weights[present]
            array = array.drop_null()
    if is_count:
        return pa.array(_counts(numbers, groups.count, weights))
    if state.function in {ex.Function.MIN, ex.Function.MAX}:
        return _extremes(array, numbers, groups.count, is_min=state.function is ex.Function.MIN)
    return _sums(array, numbers, groups.count, weights)


def _collect(array: Array, numbers: Codes, count: int, weights: Weights | None, *, distinct: bool) -> Array:
    """Return the values of each group as a list in ascending order, each as often as its rows, or once.

    Entities are ordered by id.
    """
    columns: Any = pa.table({"group": pa.array(numbers), "value": _identity(array)})
    order: Any = pc.sort_indices(columns, sort_keys=[("group", "ascending"), ("value", "ascending")])
    rows = order.to_numpy()[: len(array)]
    rows = rows[bool_mask(array.is_valid().take(order))]
    if distinct:
        values, size = value_numbers(array)
        _, first = np.unique(numbers[rows] * size + values[rows], return_index=True)
        rows = rows[np.sort(first)]
    elif weights is not None:
        rows = np.repeat(rows, weights[rows])
    offsets = np.concatenate(([0], np.cumsum(np.bincount(numbers[rows], minlength=count))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array.take(pa.array(rows)))


def _counts(numbers: Codes, count: int, weights: Weights | None) -> npt.NDArray[np.int64]:
    if weights is None:
        return np.bincount(numbers, minlength=count)
    totals = _exact_sums(numbers, count, weights)
    if totals.dtype == object:
        raise overflow_error()
    return totals


def _sums(array: Array, numbers: Codes, count: int, weights: Weights | None) -> Array:
    """Return the sum of each group, null without values. Integers are exact, as I64 or as wide decimals."""
    present = np.bincount(numbers, minlength=count) > 0
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False).astype(np.float64)
        totals = np.bincount(numbers, weights=values if weights is None else values * weights, minlength=count)
        return pa.array(totals, mask=~present, from_pandas=False)
    if pa.types.is_decimal(array.type):
        integers = np.array([int(str(value)) for value in array.to_pylist()], dtype=object)
    else:
        integers = array.to_numpy(zero_copy_only=False)
    exact = _exact_sums(numbers, count, integers, weights)
    if exact.dtype == object:
        wide = [int(total) if has_values else None for total, has_values in zip(exact, present, strict=True)]
        return pa.array(wide, type=_WIDE_DECIMAL)
    sums: Array = pa.array(exact, mask=~present)
    return sums


def _exact_sums(
    numbers: Codes, count: int, integers: npt.NDArray[Any], weights: Weights | None = None
) -> npt.NDArray[Any]:
    """Return the exact sum of each group, as I64, or as Python integers where a sum is outside I64."""
    if not len(integers):
        return np.zeros(count, dtype=np.int64)
    largest = max(abs(int(integers.max())), abs(int(integers.min())))
    heaviest = 1 if weights is None else int(weights.max())
    kind = np.int64 if largest * heaviest * len(integers) < 2**63 else object
    totals: npt.NDArray[Any] = np.zeros(count, dtype=kind)
    typed = integers.astype(kind, copy=False)
    np.add.at(totals, numbers, typed if weights is None else typed * weights)
    if kind is object and all(-(2**63) <= total < 2**63 for total in totals):
        return totals.astype(np.int64)
    return totals


def _extremes(array: Array, numbers: Codes, count: int, *, is_min: bool) -> Array:
    """Return the minimum or maximum of each group; null without values."""
    values = _as_numbers(array)
    if values is not None:
        best = np.zeros(count, dtype=values.dtype)
        best[numbers] = values
        (np.minimum if is_min else np.maximum).at(best, numbers, values)
        empty = np.bincount(numbers, minlength=count) == 0
        extremes: Any = pa.array(best, mask=empty, from_pandas=False)
        typed: Array = extremes.cast(array.type)
        return typed
    codes = np.full(count, -1, dtype=np.int64)
    if len(array):
        order: Any = pc.sort_indices(array, sort_keys=[("", "ascending" if is_min else "descending")])
        rows = order.to_numpy(zero_copy_only=False).astype(np.int64)[::-1]
        # The last assignment wins, so the best value must be last.
        codes[numbers[rows]] = rows
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
