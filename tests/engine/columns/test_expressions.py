"""Expressions over frames: three-valued logic, exact numbers, lists and texts."""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.base.errors import RunError
from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.columns.expressions import condition_mask, evaluate
from omnigraph.engine.columns.frame import DictionaryColumn, Frame
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import BOOL, DATE, DATETIME, F64, I64, STRING, U64, ValueType
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.schema.property_types import ListType, Scalar, ScalarType

I32 = ScalarType(Scalar.I32)
F32 = ScalarType(Scalar.F32)
ARROW: dict[ValueType, Any] = {
    STRING: pa.utf8(),
    BOOL: pa.bool_(),
    I32: pa.int32(),
    I64: pa.int64(),
    U64: pa.uint64(),
    F32: pa.float32(),
    F64: pa.float64(),
    DATE: pa.date32(),
    DATETIME: pa.timestamp("ms", "UTC"),
}
MEANINGS: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    ComparisonOperator.EQ: python.eq,
    ComparisonOperator.NE: python.ne,
    ComparisonOperator.LT: python.lt,
    ComparisonOperator.LE: python.le,
    ComparisonOperator.GT: python.gt,
    ComparisonOperator.GE: python.ge,
}
LEAST, MOST, MOST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1


def frame(**columns: tuple[ValueType, list[Any]]) -> Frame:
    arrays = {}
    for name, (kind, values) in columns.items():
        arrow: Any = pa.list_(pa.int64()) if isinstance(kind, ListType) else ARROW[kind]
        arrays[f"x.{name}"] = pa.array(values, arrow)
    return Frame(len(next(iter(columns.values()))[1]), arrays)


def column(name: str, kind: ValueType) -> ex.ColumnRef:
    return ex.ColumnRef("x", name, kind, nullable=True)


def values(expr: ex.Expr, rows: Frame) -> list[Any]:
    return evaluate(expr, rows).to_pylist()


TRUTH = [True, False, None]


def test_three_valued_logic() -> None:
    rows = frame(a=(BOOL, [value for value in TRUTH for _ in TRUTH]), b=(BOOL, TRUTH * 3))
    a, b = column("a", BOOL), column("b", BOOL)
    assert values(ex.And((a, b)), rows) == [True, False, None, False, False, False, None, False, None]
    assert values(ex.Or((a, b)), rows) == [True, True, True, True, False, None, True, None, None]
    assert values(ex.Not(b), rows) == [False, True, None] * 3
    assert values(ex.ConstantUnlessNull(True, b), rows) == [True, True, None] * 3
    assert values(ex.IsNull(b), rows) == [False, False, True] * 3
    assert condition_mask((a, b), rows).tolist() == [True] + [False] * 8


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((I64, [MOST, LEAST, 2**53 + 1, 0]), (F64, [2.0**63, -(2.0**63), 2.0**53, 0.5])),
        ((U64, [MOST_UNSIGNED, 0, 2**63, 2**53 + 1]), (F64, [2.0**64, -1.0, 2.0**63, 2.0**53])),
        ((I64, [-1, LEAST, MOST, 0]), (U64, [MOST_UNSIGNED, 2**63, 2**63 - 1, 0])),
        ((I32, [-1, 1, 0, 2**31 - 1]), (F32, [-1.0, 1.5, -0.0, 2.0**31])),
        ((F32, [0.5, 0.1, 1.0, -0.0]), (F64, [0.5, 0.1, 1.0, 0.0])),
        ((I64, [1, 2, 3, None]), (F64, [float("inf"), float("-inf"), None, 1.0])),
    ],
)
def test_numbers_of_different_types_compare_exactly(
    left: tuple[ValueType, list[Any]], right: tuple[ValueType, list[Any]]
) -> None:
    rows = frame(a=left, b=right)
    stored: list[tuple[Any, Any]] = list(zip(rows.array("x.a").to_pylist(), rows.array("x.b").to_pylist(), strict=True))
    for sign, meaning in MEANINGS.items():
        expected = [None if None in pair else meaning(*pair) for pair in stored]
        assert values(ex.Compare(sign, column("a", left[0]), column("b", right[0])), rows) == expected, sign
        swapped = [None if None in pair else meaning(*reversed(pair)) for pair in stored]
        assert values(ex.Compare(sign, column("b", right[0]), column("a", left[0])), rows) == swapped, sign


def test_date_is_compared_as_midnight() -> None:
    midnight = datetime(2020, 1, 1, tzinfo=UTC)
    rows = frame(d=(DATE, [date(2020, 1, 1)] * 2), t=(DATETIME, [midnight, midnight.replace(microsecond=1000)]))
    assert values(ex.Compare(ComparisonOperator.EQ, column("d", DATE), column("t", DATETIME)), rows) == [True, False]
    assert values(ex.Compare(ComparisonOperator.LT, column("d", DATE), column("t", DATETIME)), rows) == [False, True]


def test_integers_are_exact_or_an_error() -> None:
    rows = frame(a=(I64, [MOST - 1, None]), u=(U64, [2**63, 1]))
    unit = ex.Literal(1, I64)
    assert values(ex.BinaryOperation(Sign.ADD, column("a", I64), unit), rows) == [MOST, None]
    assert values(ex.BinaryOperation(Sign.SUB, column("u", U64), unit), rows) == [MOST, 0]
    assert values(ex.Negation(column("u", U64)), rows) == [LEAST, -1]
    for expr in (
        ex.BinaryOperation(Sign.ADD, column("a", I64), ex.Literal(2, I64)),
        ex.BinaryOperation(Sign.MUL, column("a", I64), ex.Literal(MOST, I64)),
        ex.BinaryOperation(Sign.ADD, column("u", U64), ex.Literal(0, I64)),
        ex.Negation(ex.Literal(LEAST, I64)),
    ):
        with pytest.raises(RunError) as caught:
            values(expr, rows)
        assert caught.value.code == "integer_overflow"


def test_division_returns_floats_and_null_for_zero() -> None:
    rows = frame(a=(I64, [1, 1, None, MOST]), b=(F64, [0.0, -0.0, 1.0, 2.0]))
    assert values(ex.BinaryOperation(Sign.DIV, column("a", I64), column("b", F64)), rows) == [None, None, None, 2.0**62]
    assert values(ex.BinaryOperation(Sign.DIV, column("a", I64), ex.Literal(0, I64)), rows) == [None] * 4


def test_membership_text_tests_and_in_list() -> None:
    rows = frame(
        items=(ListType(Scalar.I64), [None, [], [1, 2], [3]]),
        n=(I64, [1, 1, 2, None]),
        text=(STRING, ["äöü", "", None, "ab%c"]),
        part=(STRING, ["ö", "", "x", None]),
    )
    listed = column("items", ListType(Scalar.I64))
    assert values(ex.ListMembership(column("n", I64), listed), rows) == [None, False, True, None]
    assert values(ex.ListMembership(ex.Literal(3, I64), listed), rows) == [None, False, False, True]
    text, part = column("text", STRING), column("part", STRING)
    assert values(ex.Substring(text, part), rows) == [True, True, None, None]
    assert values(ex.Substring(text, ex.Literal("%", STRING)), rows) == [False, False, None, True]
    assert values(ex.Prefix(text, ex.Literal("äö", STRING)), rows) == [True, False, None, False]
    assert values(ex.Prefix(text, part), rows) == [False, True, None, None]
    choices = (ex.Literal(1, I64), ex.Literal(7, I64))
    assert values(ex.InList(column("n", I64), choices), rows) == [True, True, False, None]
    with_null = (ex.Literal(1, I64), ex.Literal(None, I64))
    assert values(ex.InList(column("n", I64), with_null), rows) == [True, True, None, None]


@pytest.mark.parametrize("rows", [0, 2])
def test_list_literal_is_repeated_for_each_row(rows: int) -> None:
    literal = ex.Literal((1, 2), ListType(Scalar.I64))
    assert values(literal, frame(n=(I64, [7] * rows))) == [[1, 2]] * rows


def test_ids_of_one_dictionary_are_compared_by_code() -> None:
    dictionary = ValueDictionary(pa.array(["a", "b"]), is_unique=True)
    rows = Frame(
        3,
        {
            "x.id": DictionaryColumn(pa.array([0, 1, -1]).to_numpy(), dictionary),
            "y.id": DictionaryColumn(pa.array([0, 0, 0]).to_numpy(), dictionary),
        },
    )
    same = ex.Compare(ComparisonOperator.EQ, ex.ColumnRef("x", "id", STRING), ex.ColumnRef("y", "id", STRING))
    assert values(same, rows) == [True, False, None]
