"""Fitting literals to the type of a column: a table of cases, and the same result for every value of the type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import BOOL, DATE, DATETIME, F64, I64
from omnigraph.query.rules.coerce_literals import as_filter, coerce_expression
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.query.values import FittedComparison, fit, midnight, value_from_json
from omnigraph.schema.property_types import INTEGER_BOUNDS, Scalar, ScalarType, VectorType
from omnigraph.schema.values import InvalidValue, narrow
from tests.query.reference import compared, value

COMPARISONS: Final = (
    ComparisonOperator.EQ,
    ComparisonOperator.NE,
    ComparisonOperator.LT,
    ComparisonOperator.LE,
    ComparisonOperator.GT,
    ComparisonOperator.GE,
)
I32: Final = ScalarType(Scalar.I32)
U32: Final = ScalarType(Scalar.U32)
F32: Final = ScalarType(Scalar.F32)
NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("operator", "given_value", "column_type", "expected"),
    [
        (ComparisonOperator.EQ, Decimal("2.0"), I32, FittedComparison(ComparisonOperator.EQ, 2)),
        (ComparisonOperator.EQ, Decimal("2.7"), I32, False),
        (ComparisonOperator.NE, Decimal("2.7"), I32, True),
        (ComparisonOperator.LT, Decimal("2.7"), I32, FittedComparison(ComparisonOperator.LE, 2)),
        (ComparisonOperator.GE, Decimal("-2.7"), I32, FittedComparison(ComparisonOperator.GT, -3)),
        (ComparisonOperator.LT, 3_000_000_000, I32, True),
        (ComparisonOperator.GT, 3_000_000_000, I32, False),
        (ComparisonOperator.EQ, 2**63, I64, False),
        (ComparisonOperator.GE, -1, U32, True),
        (ComparisonOperator.LT, 0, U32, False),
        (ComparisonOperator.LE, 2**32 - 1, U32, True),
        (ComparisonOperator.EQ, Decimal("2.00000000000000000001"), I64, False),
        (ComparisonOperator.EQ, Decimal("0.1"), F32, FittedComparison(ComparisonOperator.EQ, narrow(0.1))),
        (ComparisonOperator.EQ, Decimal("0.1"), F64, FittedComparison(ComparisonOperator.EQ, 0.1)),
        (ComparisonOperator.LT, Decimal("1e300"), F32, True),
        (ComparisonOperator.EQ, Decimal("1e400"), F64, False),
        (ComparisonOperator.GT, Decimal("-1e400"), F64, True),
        (ComparisonOperator.EQ, 16_777_217, F32, FittedComparison(ComparisonOperator.EQ, 16_777_216.0)),
        (ComparisonOperator.EQ, NOON, DATE, False),
        (ComparisonOperator.LT, NOON, DATE, FittedComparison(ComparisonOperator.LE, date(2024, 5, 31))),
        (ComparisonOperator.GE, NOON, DATE, FittedComparison(ComparisonOperator.GT, date(2024, 5, 31))),
        (
            ComparisonOperator.GE,
            midnight(date(2024, 5, 31)),
            DATE,
            FittedComparison(ComparisonOperator.GE, date(2024, 5, 31)),
        ),
        (
            ComparisonOperator.EQ,
            date(2024, 5, 31),
            DATETIME,
            FittedComparison(ComparisonOperator.EQ, midnight(date(2024, 5, 31))),
        ),
    ],
)
def test_fit(
    operator: ComparisonOperator, given_value: Any, column_type: ScalarType, expected: FittedComparison | bool
) -> None:
    assert fit(operator, given_value, column_type) == expected


numbers = (
    st.integers(-(2**70), 2**70)
    | st.sampled_from([edge + step for bounds in INTEGER_BOUNDS.values() for edge in bounds for step in (-1, 0, 1)])
    | st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12)
    | st.sampled_from([Decimal("1e300"), Decimal("-1e300"), Decimal("0.5"), Decimal("-0.5")])
)


@st.composite
def integer_cases(draw: st.DrawFn) -> tuple[ScalarType, Any, int]:
    scalar = draw(st.sampled_from(tuple(INTEGER_BOUNDS)))
    low, high = INTEGER_BOUNDS[scalar]
    literal = draw(numbers)
    near = [number for number in (int(literal) - 1, int(literal), int(literal) + 1) if low <= number <= high]
    stored = draw(st.sampled_from([low, high, *near]) | st.integers(low, high))
    return ScalarType(scalar), literal, stored


@given(integer_cases(), st.sampled_from(COMPARISONS))
@settings(max_examples=400)
def test_fitting_keeps_the_result_for_integers(case: tuple[ScalarType, Any, int], operator: ComparisonOperator) -> None:
    column_type, literal, stored = case
    fitted = fit(operator, literal, column_type)
    exact = compared(operator, Fraction(stored), Fraction(literal))
    if isinstance(fitted, bool):
        assert fitted is exact
    else:
        low, high = INTEGER_BOUNDS[column_type.scalar]
        assert type(fitted.value) is int
        assert low <= fitted.value <= high
        assert compared(fitted.operator, stored, fitted.value) is exact


@given(numbers, st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(COMPARISONS))
def test_floats_compare_at_column_precision(literal: Any, stored: float, operator: ComparisonOperator) -> None:
    fitted = fit(operator, literal, F32)
    rounded = narrow(float(literal))
    if isinstance(fitted, bool):
        assert math.isinf(rounded)
        assert fitted is compared(operator, stored, rounded)
    else:
        assert fitted == FittedComparison(operator, rounded)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2000, 1, 9)), st.integers(0, 9), st.sampled_from(COMPARISONS))
def test_fitting_keeps_the_result_for_dates(naive: datetime, days: int, operator: ComparisonOperator) -> None:
    timestamp = naive.replace(tzinfo=UTC)
    stored = date(2000, 1, 1) + timedelta(days=days)
    fitted = fit(operator, timestamp, DATE)
    answer = fitted if isinstance(fitted, bool) else compared(fitted.operator, stored, fitted.value)
    assert answer is compared(operator, stored, timestamp)


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2000, 1, 3)).map(lambda naive: naive.replace(tzinfo=UTC)),
    st.dates(date(2000, 1, 1), date(2000, 1, 3)),
    st.sampled_from(COMPARISONS),
)
@example(datetime(2000, 1, 2, tzinfo=UTC), date(2000, 1, 2), ComparisonOperator.EQ)
def test_comparison_of_two_literals_is_constant(timestamp: datetime, day: date, operator: ComparisonOperator) -> None:
    first, second = ex.Literal(timestamp, DATETIME), ex.Literal(day, DATE)
    for left, right in ((first, second), (second, first), (second, second)):
        decided = coerce_expression(ex.Compare(operator, left, right))
        assert decided == ex.Literal(compared(operator, left.value, right.value), BOOL)


columns = st.sampled_from([ex.ColumnRef("x", name, I32, nullable=True) for name in "ab"])
leaves: st.SearchStrategy[ex.Expr] = st.one_of(
    st.builds(
        ex.Compare,
        st.sampled_from(COMPARISONS),
        columns,
        st.sampled_from(
            [ex.Literal(1, I64), ex.Literal(Decimal("1.5"), F64), ex.Literal(2**40, I64), ex.Literal(None, I64)]
        ),
    ),
    st.builds(ex.Compare, st.sampled_from(COMPARISONS), st.just(ex.Literal(Decimal("0.5"), F64)), columns),
    st.builds(ex.Compare, st.sampled_from(COMPARISONS), columns, columns),
    st.builds(ex.IsNull, columns, st.booleans()),
    st.builds(
        ex.InList,
        columns,
        st.sampled_from(
            [(ex.Literal(1, I64),), (ex.Literal(Decimal("1.5"), F64),), (), (ex.Literal(None, I64), ex.Literal(1, I64))]
        ),
    ),
)
conditions: st.SearchStrategy[ex.Expr] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(ex.Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: ex.And(tuple(operands))),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: ex.Or(tuple(operands))),
    ),
    max_leaves=6,
)
cells = st.sampled_from((None, 0, 1, 2))


@given(conditions, cells, cells)
@settings(max_examples=300)
def test_filter_form_keeps_the_rows(condition: ex.Expr, first: int | None, second: int | None) -> None:
    """Fitting literals changes no value; the filter form can only turn null into false."""
    row = {"x.a": first, "x.b": second}
    expected = value(condition, row)
    fitted = coerce_expression(condition)
    assert value(fitted, row) is expected
    assert (value(as_filter(fitted), row) is True) is (expected is True)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0.1, 2], (narrow(0.1), 2.0)),
        ([-0.0, 16_777_217], (0.0, 16_777_216.0)),
        ([Decimal("0.5"), 1], (0.5, 1.0)),
        ([1.0], "wrong vector length: expected 2, got 1"),
        ([], "wrong vector length: expected 2, got 0"),
        ([1.0, 1e300], "item 1: `1e+300` is too large for F32"),
        ([1.0, 10**400], "item 1: the number is too large for F32"),
        ([math.nan, 1.0], "item 0: `nan` is not a number"),
        ([1.0, math.inf], "item 1: `inf` is too large for F32"),
        ([1.0, True], "item 1: expected F32, got true"),
        ([1.0, "2"], 'item 1: expected F32, got "2"'),
    ],
)
def test_vectors_are_converted_and_checked(numbers: list[object], expected: tuple[float, ...] | str) -> None:
    vector = value_from_json(numbers, VectorType(2))
    if isinstance(vector, InvalidValue):
        assert vector.message == expected
        return
    assert vector == expected
    assert isinstance(vector, tuple)
    assert [math.copysign(1, float(str(number))) for number in vector] == [1, 1]
