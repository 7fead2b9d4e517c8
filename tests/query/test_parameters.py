"""Parameters: what is accepted, what is refused and how, and that no value changes the shape of a query."""

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
from omnigraph.query.plan.statements import InsertRow, MutationPlan, QueryPlan, ReadPlan, Relation, UpdateRows
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
def test_accepted(type_name: str, given_value: object, expected: object) -> None:
    params = declared(type_name)
    assert coerce_params(params, {"p0": given_value}) == {"p0": expected}
    assert coerce_params(params, {"$p0": given_value}) == {"p0": expected}


@pytest.mark.parametrize(
    ("type_name", "given_value", "message"),
    [
        ("String", 3, "a number is no String"),
        ("Bool", "true", '"true" is no Bool'),
        ("Bool", 1, "a number is no Bool"),
        ("I32", 2**31, "the number does not fit I32"),
        ("I32", "3", '"3" is no I32'),
        ("I32", 3.0, "`3.0` is no whole number"),
        ("I32", True, "true is no I32"),
        ("I64", "x", "`x` is no whole number"),
        ("U32", -1, "the number does not fit U32"),
        ("U64", 10**4000, "the number does not fit U64"),
        ("F64", 10**4000, "the number is too large"),
        ("F64", float("inf"), "too large"),
        ("F32", 1e300, "too large for F32"),
        ("Vector(2)", [float("nan"), 1.0], "`nan` is not a number"),
        ("F64", "1", '"1" is no F64'),
        ("Date", "31.05.2024", "is no date"),
        ("DateTime", "2024-05-31", "is no datetime"),
        ("enum(a, b)", "c", "`c` is not one of the enum's values"),
        ("[I32]", [1, "x"], "item 1: "),
        ("[I32]", 3, "a number is no [I32]"),
        ("[String]", [None], "item 0: null is no String"),
        ("Vector(2)", [1], "a vector of 1 number is no Vector(2)"),
        ("Vector(2)", [1, float("nan")], "item 1: "),
        ("Blob", "base64:%", "is not valid base64"),
        ("String", {"a": 1}, "an object is no String"),
        ("String", "\ud800", "half of a surrogate pair"),
        ("String", None, "it is null"),
        ("Date", datetime(2024, 5, 31, tzinfo=UTC), "datetime is no Date"),
        ("DateTime", date(2024, 5, 31), "date is no DateTime"),
        ("DateTime", datetime(2024, 5, 31), "a datetime without its offset"),  # what it is about
        ("DateTime", NOW, "this one is finer"),
        ("DateTime", datetime(1, 1, 1, tzinfo=EAST), "no moment of the calendar"),
        ("DateTime", pd.NaT, "a datetime without its offset"),
        ("I32", Decimal("3.5"), "`3.5` is no whole number"),
        ("F64", Decimal("NaN"), "not a number"),
        ("I64", np.datetime64("2024-05-31T12:00:00.000000000"), "datetime64 is no I64"),
        ("[I64]", np.array(["2024-05-31"], "datetime64[ns]"), "ndarray is no [I64]"),
        ("[I64]", np.array([[1], [2]]), "item 0: a list is no I64"),
    ],
)
def test_refused(type_name: str, given_value: object, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        coerce_params(declared(type_name), {"p0": given_value})
    assert message in caught.value.message
    assert len(caught.value.message) < 200


def test_all_mistakes_are_told() -> None:
    with pytest.raises(ParameterError) as caught:
        coerce_params(declared("I32 ; String ; Bool?"), {"p0": "x", "q": 1})
    listed: Any = caught.value.facts["parameters"]
    assert [found["parameter"] for found in listed] == ["q", "p0", "p1"]
    assert "did you mean" in listed[0]["hint"] or "the query has" in listed[0]["hint"]
    assert caught.value.message.endswith("(and 2 more)")
    assert [line.split(":")[0] for line in caught.value.render().splitlines()[1:]] == [
        "  `q`",
        "  `p0`",
        "  `p1`",
    ]


def test_one_parameter_under_two_names_is_refused() -> None:
    declared = (Param("x", I64),)
    assert coerce_params(declared, {"$x": 1}) == {"x": 1}
    with pytest.raises(ParameterError, match="given twice"):
        coerce_params(declared, {"$x": 1, "x": 2})


def test_a_nullable_parameter_may_be_left_out() -> None:
    assert coerce_params(declared("I32? ; String?"), {"p1": "a"}) == {"p0": None, "p1": "a"}


def values_for(param: Param) -> st.SearchStrategy[object]:
    """Values of the type, hostile ones among them."""
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
    found: PropertyType = param.type  # type: ignore[assignment]  # parameters have types of properties
    inner = kinds[type_text(found)]
    return st.none() | inner if param.nullable else inner


PLANS: Final = [query.plan for path in query_files(GOOD) for query in checked(read_text(path))]
WITH_PARAMS: Final = [plan for plan in PLANS if plan.parameters]


@given(st.data())
@settings(max_examples=60)
def test_no_value_changes_the_shape(data: st.DataObject) -> None:
    plan = rewrite_plan(data.draw(st.sampled_from(WITH_PARAMS)))
    drawn = {param.name: data.draw(values_for(param)) for param in plan.parameters}
    for name, found in drawn.items():
        if isinstance(found, int) and name in {"n", "m"}:
            drawn[name] = abs(found) % 100
    bound = bind_plan(plan, coerce_params(plan.parameters, drawn), NOW)
    assert [type(step) for step in numbered_steps(bound)] == [type(step) for step in numbered_steps(plan)]
    if isinstance(plan, ReadPlan):
        assert isinstance(bound, ReadPlan)
        assert [(field.name, field.type) for field in bound.outputs] == [
            (field.name, field.type) for field in plan.outputs
        ]
    assert_bound(bound)


def assert_bound(plan: QueryPlan) -> None:
    """No parameter and no `now()` is left anywhere."""

    def check(expr: Any) -> Any:
        assert not [found for found in walk(expr) if isinstance(found, Param | Now)]
        return expr

    for step in numbered_steps(plan):
        with_expressions(step, check)
    if isinstance(plan, MutationPlan):
        for statement in plan.statements:
            if isinstance(statement, InsertRow | UpdateRows):
                for found in statement.values:
                    check(found.value)


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
def test_values_are_fitted_like_literals(
    declared_as: str, condition: str, given_value: object, expected: str
) -> None:
    text = f"query a($x: {declared_as}) {{ match {{ $p: Person ({condition}) }} return {{ $p.slug }} }}"
    assert expected in bound_text(text, {"x": given_value})


def test_now_is_one_moment_in_milliseconds() -> None:
    text = "query a() { match { $p: Person { seen: now() } } return { $p.slug, now() as at } }"
    assert bound_text(text, {}).count("2024-05-31T12:34:56.789Z:DateTime") == 2
    (query,) = checked(text)
    moments = {
        found.value
        for step in numbered_steps(bind_plan(rewrite_plan(query.plan), {}, NOW))
        for found in literals_of(step)
        if isinstance(found.value, datetime)
    }
    assert moments == {NOW.replace(microsecond=789_000)}


def literals_of(step: Relation) -> list[Literal]:
    found: list[Literal] = []

    def keep(expr: Any) -> Any:
        found.extend(part for part in walk(expr) if isinstance(part, Literal))
        return expr

    with_expressions(step, keep)
    return found


def test_stored_values_have_the_type_of_the_column() -> None:
    text = (
        "query a($v: U32, $s: String) { update Person set { ratio: $v, joined: now(), status: $s, age: null }"
        ' where slug = "a" }'
    )
    shown = bound_text(text, {"v": 3, "s": "left"})
    assert '{ ratio: 3.0, joined: 2024-05-31:Date, status: "left", age: null }' in shown


def test_a_negative_limit_is_refused() -> None:
    text = "query a($n: I32) { match { $p: Person } return { $p.slug } limit $n }"
    assert "limit 0:I32" in bound_text(text, {"n": 0})
    with pytest.raises(ParameterError, match="negative"):
        bound_text(text, {"n": -1})
