"""Reduces rows to one row of states per group: counts, sums, least and greatest values, which can be reduced again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.arithmetic import overflow
from omnigraph.engine.domain import Array, distinct_numbers
from omnigraph.engine.frame import Coded, Column, Frame, Weights
from omnigraph.engine.groups import Groups, group_rows, value_numbers
from omnigraph.engine.masks import mask_of
from omnigraph.query.expressions import Expr

_WIDE: Final = pa.decimal256(76, 0)


class StateKind(Enum):
    """What a state is. Distinct values are counted once, from all rows; the others can be merged."""

    DISTINCT = "distinct"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class State:
    """One column of states: what it is, for which aggregate, and the argument it is made from."""

    kind: StateKind
    number: int
    argument: Expr

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.number}"


def distinct_rows(frame: Frame) -> Frame:
    """The distinct rows, each with the number of its rows as weight."""
    groups = group_rows(list(frame.columns.values()), frame.length)
    weights = np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights
    totals = _whole_sums(groups, weights)
    if totals.dtype == object:
        raise overflow()
    kept = Frame(frame.length, frame.columns).take(groups.first_rows)
    return Frame(kept.length, kept.columns, totals.astype(np.int64))


def reduced_groups(frame: Frame, keys: tuple[str, ...], states: tuple[State, ...], *, merge: bool) -> Frame:
    """One row per group with its states. With `merge` the inputs are states already."""
    groups = group_rows([frame.columns[name] for name in keys], frame.length)
    first = Frame(frame.length, {name: frame.columns[name] for name in keys}).take(groups.first_rows)
    columns: dict[str, Column] = dict(first.columns)
    for state in states:
        column = frame.columns[state.name]
        kind = StateKind.SUM if merge and state.kind == StateKind.COUNT else state.kind
        columns[state.name] = _reduced(kind, column, groups, frame.weights)
    return Frame(groups.count, columns)


def _reduced(kind: StateKind, column: Column, groups: Groups, weights: Weights | None) -> Array:
    if kind == StateKind.DISTINCT:
        numbers, size = value_numbers(column)
        present = numbers > 0
        pairs = distinct_numbers(groups.numbers[present] * size + numbers[present])
        return pa.array(np.bincount(pairs // size, minlength=groups.count))
    array = column.array() if isinstance(column, Coded) else column
    if kind == StateKind.COUNT:
        return pa.array(_counts(array, groups, weights))
    if array.null_count:
        present = mask_of(array.is_valid())
        weights = None if weights is None else weights[present]
        groups = Groups(groups.numbers[present], groups.count, groups.first_rows)
        array = array.drop_null()
    if kind == StateKind.SUM:
        return _sums(array, groups, weights)
    return _extremes(array, groups, is_min=kind == StateKind.MIN)


def _counts(present: Array, groups: Groups, weights: Weights | None) -> npt.NDArray[np.int64]:
    mask = mask_of(present)
    every = bool(mask.all())
    numbers = groups.numbers if every else groups.numbers[mask]
    if weights is None:
        return np.bincount(numbers, minlength=groups.count)
    totals = _whole_sums(
        Groups(numbers, groups.count, groups.first_rows), weights if every else weights[mask]
    )
    if totals.dtype == object:
        raise overflow()
    return totals.astype(np.int64)


def _sums(array: Array, groups: Groups, weights: Weights | None) -> Array:
    """Null for a group without values. Integers are exact, as I64 or as wide decimals."""
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
    exact = _whole_sums(groups, numbers, weights)
    if exact.dtype == object:
        values_list = [int(value) if there else None for value, there in zip(exact, present, strict=True)]
        return pa.array(values_list, type=_WIDE)
    return pa.array(exact.astype(np.int64), mask=~present)


def _whole_sums(
    groups: Groups, numbers: npt.NDArray[Any], weights: Weights | None = None
) -> npt.NDArray[Any]:
    """The exact sum of each group: as floats while these are exact, as 64 bits, or as Python integers."""
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
    """The least or greatest value of each group; null for a group without values."""
    numbers = _as_numbers(array)
    if numbers is not None:
        bounds: Any = np.iinfo(numbers.dtype) if numbers.dtype.kind in "iu" else np.finfo(numbers.dtype)
        best = np.full(groups.count, bounds.max if is_min else bounds.min, dtype=numbers.dtype)
        if numbers.dtype.kind == "f":
            best[:] = np.inf if is_min else -np.inf
        (np.minimum if is_min else np.maximum).at(best, groups.numbers, numbers)
        empty = np.bincount(groups.numbers, minlength=groups.count) == 0
        found: Any = pa.array(best, mask=empty, from_pandas=False)
        answer: Array = found.cast(array.type)
        return answer
    codes = np.full(groups.count, -1, dtype=np.int64)
    if len(array):
        order: Any = pc.sort_indices(array, sort_keys=[("", "ascending" if is_min else "descending")])
        rows = order.to_numpy(zero_copy_only=False).astype(np.int64)[::-1]
        # The last write wins, so the best value comes last.
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


def alike(one: Frame, other: Frame) -> list[Frame]:
    """Two frames of states with the same column types: exact sums may be wide in one and not in the other."""
    wide = {
        name
        for frame in (one, other)
        for name, column in frame.columns.items()
        if not isinstance(column, Coded) and pa.types.is_decimal(column.type)
    }

    def widened(frame: Frame) -> Frame:
        return frame.plus({name: frame.array(name).cast(_WIDE) for name in wide})

    return [widened(one), widened(other)] if wide else [one, other]
