"""Parameters: valid and invalid values, and that no value changes the shape of a query."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base.errors import ParameterError
from omnigraph.query.explain import explain_plan, numbered_steps
from omnigraph.query.parameters import bind_plan, coerce_params
from omnigraph.query.plan.expression_walk import walk
from omnigraph.query.plan.expressions import Literal, Now, Param
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.statements import InsertRow, MutationPlan, QueryPlan, ReadPlan, UpdateRows
from omnigraph.query.plan.types import I64
from omnigraph.query.plan.walk import with_expressions
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.schema.property_types import PropertyType, type_text
from tests.query.golden_files import GOOD, checked, query_files, read_text

EAST: Final = timezone(timedelta(hours=2))
NOW: Final = datetime(2024, 5, 31, 12, 34, 56, 789_999, tzinfo=UTC)


def declared(types: str) -> tuple[Param, ...]:
    names = ", ".join(f"$p{number}: {text}" for number, text in enumerate(types.split(" ; ")))
    (query,) = checked(f"query a({names}) {{ match {{ $x: City }} return {{ $x.name }} }}")
    return query.plan.parameters


@pytest.mark.parametrize(
    ("type_name", "given_value", "expected"),
    [
        ("String", "a'; drop", "a'; drop"),
        ("Bool", True, True),
        ("I32", -(2**31), -(2**31)),
        ("I64", "9223372036854775807", 2**63 - 1),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("F32", 0.1, 0.10000000149011612),
        ("F64", 3, 3.0),
        ("F64", -0.0, 0.0),
        ("Date", "2024-05-31", date(2024, 5, 31)),
        ("DateTime", "2024-05-31T14:00:00+02:00", datetime(2024, 5, 31, 12, tzinfo=UTC)),
        ("enum(a, b)", "b", "b"),
        ("[I32]", [1, 2], (1, 2)),
        ("[String]", [], ()),
        ("Vector(2)", [1, 0.5], (1.0, 0.5)),
        ("Blob", "base64:aGk=", b"hi"),
        ("Blob", "s3://bucket/key", "s3://bucket/key"),
        ("I32?", None, None),
        ("Date", date(2024, 5, 31), date(2024, 5, 31)),
        ("DateTime", datetime(2024, 5, 31, 14, 0, 0, 7000, EAST), datetime(2024, 5, 31, 12, 0, 0, 7000, UTC)),
        ("DateTime", date(2024, 5, 31), datetime(2024, 5, 31, tzinfo=UTC)),
        ("Date", pd.Timestamp("2024-05-31"), date(2024, 5, 31)),
        ("Date", pd.Timestamp("2024-05-31", tz="UTC"), date(2024, 5, 31)),
        ("DateTime", pd.Timestamp("2024-05-31T14:00:00+02:00"), datetime(2024, 5, 31, 12, tzinfo=UTC)),
        ("[Date]", [date(2024, 5, 31)], (date(2024, 5, 31),)),
        ("F64", Decimal("0.1"), 0.1),
        ("I64", Decimal(3), 3),
        ("I64", np.int64(3), 3),
        ("F64", np.float64(0.1), 0.1),
        ("F32", np.float32(0.1), 0.10000000149011612),
        ("Bool", np.True_, True),
        ("String", np.str_("a"), "a"),
        ("[I64]", np.array([1, 2]), (1, 2)),
        ("Vector(2)", np.array([1, 0.5], np.float32), (1.0, 0.5)),
        ("Blob", b"hi", b"hi"),
    ],
)
def test_valid_value(type_name: str, given_value: object, expected: object) -> None:
    params = declared(type_name)
    assert coerce_params(params, {"p0": given_value}) == {"p0": expected}
    assert coerce_params(params, {"$p0": given_value}) == {"p0": expected}


@pytest.mark.parametrize(
    ("type_name", "given_value", "message"),
    [
        ("String", 3, "expected String, got a number"),
        ("Bool", "true", 'expected Bool, got "true"'),
        ("Bool", 1, "expected Bool, got a number"),
        ("I32", 2**31, "out of range for I32"),
        ("I32", "3", 'expected I32, got "3"'),
        ("I32", 3.0, "3.0"),
        ("I32", True, "expected I32, got true"),
        ("I64", "x", "`x`"),
        ("U32", -1, "out of range for U32"),
        ("U64", 10**4000, "out of range for U64"),
        ("F64", 10**4000, "the number is too large"),
        ("F64", float("inf"), "too large"),
        ("F32", 1e300, "too large for F32"),
        ("Vector(2)", [float("nan"), 1.0], "`nan` is not a number"),
        ("F64", "1", 'expected F64, got "1"'),
        ("Date", "31.05.2024", "31.05.2024"),
        ("DateTime", "2024-05-31", "2024-05-31"),
        ("enum(a, b)", "c", "`c` is not"),
        ("[I32]", [1, "x"], "item 1: "),
        ("[I32]", 3, "expected [I32], got a number"),
        ("[String]", [None], "item 0: expected String, got null"),
        ("Vector(2)", [1], "wrong vector length: expected 2, got 1"),
        ("Vector(2)", [1, float("nan")], "item 1: "),
        ("Blob", "base64:%", "is not valid base64"),
        ("String", {"a": 1}, "expected String, got an object"),
        ("String", "\ud800", "unpaired surrogate"),
        ("String", None, "cannot be null"),
        ("Date", datetime(2024, 5, 31, 12, tzinfo=UTC), "not midnight in UTC"),
        ("Date", datetime(2024, 5, 31, tzinfo=EAST), "not midnight in UTC"),
        ("Date", pd.NaT, "not midnight in UTC"),
        ("DateTime", datetime(2024, 5, 31), "has no time zone"),
        ("DateTime", NOW, "more precise than milliseconds"),
        ("DateTime", datetime(1, 1, 1, tzinfo=EAST), "out of range for a DateTime"),
        ("DateTime", pd.NaT, "has no time zone"),
        ("I32", Decimal("3.5"), "3.5"),
        ("F64", Decimal("NaN"), "not a number"),
        ("I64", np.datetime64("2024-05-31T12:00:00.000000000"), "expected I64, got datetime64"),
        ("[I64]", np.array(["2024-05-31"], "datetime64[ns]"), "expected [I64], got ndarray"),
        ("[I64]", np.array([[1], [2]]), "item 0: expected I64, got a list"),
    ],
)
def test_invalid_value(type_name: str, given_value: object, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        coerce_params(declared(type_name), {"p0": given_value})
    assert message in caught.value.message
    assert len(caught.value.message) < 200


def test_all_errors_are_reported() -> None:
    with pytest.raises(ParameterError) as caught:
        coerce_params(declared("I32 ; String ; Bool?"), {"p0": "x", "q": 1})
    listed: Any = caught.value.facts["parameters"]
    assert [fact["parameter"] for fact in listed] == ["q", "p0", "p1"]
    assert "did you mean" in listed[0]["hint"] or "The parameters are" in listed[0]["hint"]
    assert caught.value.message.endswith("(and 2 more)")
    assert [line.split(":")[0] for line in caught.value.render().splitlines()[1:]] == ["  `q`", "  `p0`", "  `p1`"]


def test_duplicate_parameter_raises() -> None:
    declared = (Param("x", I64),)
    assert coerce_params(declared, {"$x": 1}) == {"x": 1}
    with pytest.raises(ParameterError, match="duplicate"):
        coerce_params(declared, {"$x": 1, "x": 2})


def test_nullable_parameter_is_optional() -> None:
    assert coerce_params(declared("I32? ; String?"), {"p1": "a"}) == {"p0": None, "p1": "a"}


def values_for(param: Param) -> st.SearchStrategy[object]:
    """Generate values of the type, including hostile ones."""
    kinds: dict[str, st.SearchStrategy[object]] = {
        "String": st.text() | st.sampled_from(['"', "' or 1=1 --", "}) return { $p }", "\\", "$p"]),
        "Bool": st.booleans(),
        "I32": st.integers(-(2**31), 2**31 - 1),
        "I64": st.integers(-(2**63), 2**63 - 1),
        "U32": st.integers(0, 2**32 - 1),
        "F64": st.floats(allow_nan=False, allow_infinity=False),
        "DateTime": st.just("2024-05-31T12:00:00Z"),
        "Date": st.just("2024-05-31"),
        "[I64]": st.lists(st.integers(-5, 5), max_size=3),
        "[String]": st.lists(st.text(max_size=3), max_size=3),
        "Vector(4)": st.just([0.0, 1.0, 2.0, 3.0]),
    }
    property_type: PropertyType = param.type  # type: ignore[assignment]  # parameters have types of properties
    inner = kinds[type_text(property_type)]
    return st.none() | inner if param.nullable else inner


PLANS: Final = [query.plan for path in query_files(GOOD) for query in checked(read_text(path))]
WITH_PARAMS: Final = [plan for plan in PLANS if plan.parameters]


@given(st.data())
@settings(max_examples=60)
def test_no_value_changes_the_shape(data: st.DataObject) -> None:
    plan = rewrite_plan(data.draw(st.sampled_from(WITH_PARAMS)))
    drawn = {param.name: data.draw(values_for(param)) for param in plan.parameters}
    for name, value in drawn.items():
        if isinstance(value, int) and name in {"n", "m"}:
            drawn[name] = abs(value) % 100
    bound = bind_plan(plan, coerce_params(plan.parameters, drawn), NOW)
    assert [type(step) for step in numbered_steps(bound)] == [type(step) for step in numbered_steps(plan)]
    if isinstance(plan, ReadPlan):
        assert isinstance(bound, ReadPlan)
        assert [(field.name, field.type) for field in bound.outputs] == [
            (field.name, field.type) for field in plan.outputs
        ]
    assert_bound(bound)


def assert_bound(plan: QueryPlan) -> None:
    """Require that the plan has no parameter and no `now()`."""

    def check(expr: Any) -> Any:
        assert not [part for part in walk(expr) if isinstance(part, Param | Now)]
        return expr

    for step in numbered_steps(plan):
        with_expressions(step, check)
    if isinstance(plan, MutationPlan):
        for statement in plan.statements:
            if isinstance(statement, InsertRow | UpdateRows):
                for assigned in statement.values:
                    check(assigned.value)


def bound_text(text: str, given_values: dict[str, object]) -> str:
    (query,) = checked(text)
    plan = rewrite_plan(query.plan)
    return explain_plan(bind_plan(plan, coerce_params(plan.parameters, given_values), NOW))


@pytest.mark.parametrize(
    ("declared_as", "condition", "given_value", "expected"),
    [
        ("F64", "$p.age < $x", 2.5, "where p.age <= 2:I32"),
        ("F64", "$p.age = $x", 2.7, "where false"),
        ("I64", "$x > $p.age", 2**40, "where p.age is not null"),
        ("I32?", "$p.age >= $x", None, "where false"),
        ("[I64]", "$p.age in $x", [1, 2**40], "where p.age in [1:I32]"),
        ("[I64]", "$p.age in $x", [], "where false"),
        ("String", "$p.bio contains $x", "y", 'then p.bio contains "y"'),
        ("String?", "$p.bio starts_with $x", None, "where false"),
        ("F64", "$p.height = $x", 0.1, "where p.height = 0.1:F32"),
        ("DateTime", "$p.joined < $x", "2024-05-31T12:00:00Z", "where p.joined <= 2024-05-31:Date"),
    ],
)
def test_values_are_fitted_like_literals(declared_as: str, condition: str, given_value: object, expected: str) -> None:
    text = f"query a($x: {declared_as}) {{ match {{ $p: Person ({condition}) }} return {{ $p.slug }} }}"
    assert expected in bound_text(text, {"x": given_value})


def test_now_is_one_time_in_milliseconds() -> None:
    text = "query a() { match { $p: Person { seen: now() } } return { $p.slug, now() as at } }"
    assert bound_text(text, {}).count("2024-05-31T12:34:56.789Z:DateTime") == 2
    (query,) = checked(text)
    moments = {
        literal.value
        for step in numbered_steps(bind_plan(rewrite_plan(query.plan), {}, NOW))
        for literal in literals_of(step)
        if isinstance(literal.value, datetime)
    }
    assert moments == {NOW.replace(microsecond=789_000)}


def literals_of(step: Relation) -> list[Literal]:
    literals: list[Literal] = []

    def keep(expr: Any) -> Any:
        literals.extend(part for part in walk(expr) if isinstance(part, Literal))
        return expr

    with_expressions(step, keep)
    return literals


def test_stored_values_have_the_type_of_the_column() -> None:
    text = (
        "query a($v: U32, $s: String) { update Person set { ratio: $v, joined: now(), status: $s, age: null }"
        ' where slug = "a" }'
    )
    shown = bound_text(text, {"v": 3, "s": "left"})
    assert '{ ratio: 3.0, joined: 2024-05-31:Date, status: "left", age: null }' in shown


def test_negative_limit_raises() -> None:
    text = "query a($n: I32) { match { $p: Person } return { $p.slug } limit $n }"
    assert "limit 0:I32" in bound_text(text, {"n": 0})
    with pytest.raises(ParameterError, match="negative"):
        bound_text(text, {"n": -1})


def test_an_enum_lists_its_values() -> None:
    with pytest.raises(ParameterError) as raised:
        coerce_params(declared("enum(a, b)"), {"p0": "c"})
    assert raised.value.hint == "The values are a, b."
