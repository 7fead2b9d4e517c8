"""Generates parameters of queries: their types and values, and conditions and columns that use them.

Comments name the cases that are excluded because the result follows a documented rule and not exact values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.query.parameters import ParameterValues, bind_plan, coerce_params
from omnigraph.query.plan.expression_walk import transform
from omnigraph.query.plan.expressions import Expr, Literal, Now, Param
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.plan.types import DATETIME
from omnigraph.query.plan.walk import transform_plan, with_expressions
from omnigraph.schema.values import narrow

NOW: Final = datetime(2020, 1, 1, 0, 0, 0, 1000, UTC)
_EAST: Final = "2020-01-01T02:00:00+02:00"
_NUMBERS: Final[dict[str, tuple[object, ...]]] = {
    "I32": (0, 1, 2, -1, 2**31 - 1, -(2**31)),
    "U32": (0, 1, 2, 2**32 - 1),
    "I64": (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), "2"),
    "U64": (0, 1, 2**53 + 1, 2**63, 2**64 - 1, "1"),
    "F32": (0.0, -0.0, 0.5, 1.5, 1, 0.1, -2.5),
    "F64": (0.0, -0.0, 0.5, 1.5, 1, 0.1, -0.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e300, 5e-324),
}
_TEXTS: Final = ("", "m", "n", "nö", "m%", "a", "ü'", "a\x00b", "\U0010ffff", "\ud7ff", "active", "None")
_TIMES: Final[dict[str, tuple[object, ...]]] = {
    "Date": ("2020-01-01", date(1969, 12, 31), "2019-12-31", "0001-01-01", "9999-12-31"),
    "DateTime": (
        "2020-01-01T00:00:00Z",
        _EAST,
        NOW,
        "1969-12-31T23:59:59.999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
    ),
}
_SCALARS: Final = {
    **_NUMBERS,
    **_TIMES,
    "String": _TEXTS,
    "enum(active, left)": ("active", "left"),
    "Bool": (True, False),
}
_LISTS: Final[dict[str, tuple[object, ...]]] = {
    "[I32]": ([], [1, 2], [2**31 - 1, 0]),
    "[I64]": ([], [1, 0], [2**53 + 1, -(2**63)]),
    "[U64]": ([1], [2**64 - 1, 2**53 + 1, 0]),
    "[F32]": ([], [0.5, -0.0]),
    "[F64]": ([0.5, 1.0], [0.1, -0.0, 2.0**53], [1e300]),
    "[String]": ([], ["m", "a", ""], ["ü'", "a\x00b", "left"]),
    "[Date]": ([], ["2020-01-01", "9999-12-31"]),
    "[DateTime]": ([_EAST], [NOW, "1969-12-31T00:00:00Z"]),
    "[Bool]": ([], [True], [True, False]),
}
_CHOICES: Final = [
    *((kind, value) for kind, values in _SCALARS.items() for value in values),
    *((f"{kind}?", value) for kind, values in _SCALARS.items() for value in (None, values[1])),
    *((kind, value) for kind, values in _LISTS.items() for value in values),
    *((f"{kind}?", value) for kind, values in _LISTS.items() for value in (None, values[-1])),
]
_COLUMNS: Final = {
    "number": (
        *("$p.age", "$q.age", "$p.height", "$p.ratio", "$q.ratio", "$p.visits", "$p.total", "$p.big"),
        *("$q.big", "$k.weight"),
    ),
    "text": ("$p.name", "$p.bio", "$q.slug", "$p.id", "$p.status", "$r.name", "$c.name"),
    "time": ("$p.joined", "$p.seen", "$q.joined", "$q.seen", "$k.since", "$c.founded", "now()"),
    "bool": ("$p.active", "$q.active", "true"),
}
_COLUMN_LISTS: Final = {"number": "$p.points", "text": "$p.tags"}
_INLINE: Final = {
    "number": ("age", "ratio", "visits", "total", "big", "points"),
    "text": ("name", "slug", "bio", "status", "tags"),
    "time": ("joined", "seen"),
    "bool": ("active",),
}
_FLOAT_COLUMNS: Final = frozenset({"$p.height", "$p.ratio", "$q.ratio", "$k.weight", "ratio"})
_WHOLE_MAX: Final = 2**24


@dataclass(frozen=True, slots=True)
class SampleParameter:
    """A declared parameter and its value."""

    name: str
    kind: str
    value: object

    @property
    def family(self) -> str:
        """The kind of values that it can be compared with."""
        name = self.kind.strip("[]?")
        if name in _NUMBERS:
            return "number"
        return "time" if name in _TIMES else "bool" if name == "Bool" else "text"

    @property
    def is_list(self) -> bool:
        return self.kind.startswith("[")

    def is_exact_with(self, column: str) -> bool:
        """Return whether a comparison is exact; a number compared with a float column is rounded to its precision."""
        if column not in _FLOAT_COLUMNS:
            return True
        numbers = [number for number in self.numbers() if isinstance(number, int) or column == "$p.height"]
        return all(narrow(float(number)) == number and abs(number) <= _WHOLE_MAX for number in numbers)

    @property
    def is_small(self) -> bool:
        """Whether no sum or product with it overflows I64; which of two overflows is reported is not defined."""
        return all(isinstance(number, float) or abs(number) <= 2**32 for number in self.numbers())

    def numbers(self) -> list[Any]:
        if self.value is None or self.family != "number":
            return []
        values: Any = self.value if isinstance(self.value, list) else [self.value]
        return [int(value) if isinstance(value, str) else value for value in values]


parameters: Final = st.lists(st.sampled_from(_CHOICES), min_size=2, max_size=4).map(
    lambda chosen: tuple(SampleParameter(f"$x{number}", kind, value) for number, (kind, value) in enumerate(chosen))
)


def declared(declared_parameters: tuple[SampleParameter, ...]) -> str:
    """Return the declarations of the parameters."""
    return ", ".join(f"{parameter.name}: {parameter.kind}" for parameter in declared_parameters)


def values_of(declared_parameters: tuple[SampleParameter, ...]) -> dict[str, object]:
    return {parameter.name: parameter.value for parameter in declared_parameters}


@st.composite
def conditions(draw: st.DrawFn, choices: tuple[SampleParameter, ...]) -> str:
    """Generate a condition on one of the parameters and another parameter, a column or a literal."""
    parameter = draw(st.sampled_from(choices))
    text = draw(_about_list(parameter, choices) if parameter.is_list else _about_scalar(parameter, choices))
    match draw(st.integers(0, 7)):
        case 0 | 1:
            return f"not ({text})"
        case 2:
            return f"({text} or {draw(_about_any(choices))})"
        case 3:
            return f"not ({text} and {draw(_about_any(choices))})"
        case 4:
            return f"({text}) is {draw(st.sampled_from(('', 'not ')))}null"
        case _:
            # Without parentheses a filter that starts with a parameter is parsed as a traversal.
            return f"({text})"


def _about_any(choices: tuple[SampleParameter, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(choices).flatmap(
        lambda parameter: _about_list(parameter, choices) if parameter.is_list else _about_scalar(parameter, choices)
    )


def _others(parameter: SampleParameter, choices: tuple[SampleParameter, ...]) -> list[str]:
    """Return operands for a parameter: columns, and the other parameters twice, because they are few."""
    names = [choice.name for choice in choices if choice.family == parameter.family and not choice.is_list]
    return [*(column for column in _COLUMNS[parameter.family] if parameter.is_exact_with(column)), *names, *names]


@st.composite
def _about_scalar(draw: st.DrawFn, parameter: SampleParameter, choices: tuple[SampleParameter, ...]) -> str:
    others = st.sampled_from(_others(parameter, choices))
    lists = [_COLUMN_LISTS[parameter.family]] if parameter.family in _COLUMN_LISTS else []
    lists += [choice.name for choice in choices if choice.is_list and choice.family == parameter.family]
    side = draw(others)
    left, right = draw(st.sampled_from(((parameter.name, side), (side, parameter.name))))
    operator = draw(st.sampled_from(("=", "!=", "<", "<=", ">", ">=")))
    match draw(st.integers(0, 6)):
        case 0:
            fitting = {choice.name: choice.is_exact_with(left) for choice in choices}
            third = draw(others)
            return f"{left} in [{right}, {third if fitting.get(third, True) else right}]"
        case 1 if lists:
            return f"{draw(st.sampled_from(lists))} contains {parameter.name}"
        case 2 if parameter.family == "number" and parameter.is_small:
            return _arithmetic(draw, parameter, choices, operator)
        case 1 | 2 if parameter.family == "text":
            return f"{left} {draw(st.sampled_from(('contains', 'starts_with')))} {right}"
        case 3 if parameter.family == "bool":
            return parameter.name
        case 4:
            return f"{parameter.name} is {draw(st.sampled_from(('', 'not ')))}null"
        case _:
            return f"{left} {operator} {right}"


def _arithmetic(
    draw: st.DrawFn, parameter: SampleParameter, choices: tuple[SampleParameter, ...], operator: str
) -> str:
    small = [choice.name for choice in choices if choice.family == "number" and not choice.is_list and choice.is_small]
    # Columns with small numbers; no product of two parameters, which can overflow I64 (see `is_small`).
    column = draw(st.sampled_from(("$p.age", "$q.age", "$p.height", "1", "2.5")))
    beyond = draw(st.sampled_from(("$p.age", "$q.total", "$p.ratio", *small)))
    computed = draw(
        st.sampled_from(
            (
                f"{parameter.name} + {draw(st.sampled_from(small))}",
                f"{draw(st.sampled_from(small))} - {parameter.name}",
                f"{parameter.name} * {column}",
                f"{column} / {parameter.name}",
                f"{parameter.name} / {draw(st.sampled_from(small))}",
                f"-{parameter.name}",
            )
        )
    )
    return draw(st.sampled_from((f"{computed} {operator} {beyond}", f"{beyond} {operator} {computed}")))


@st.composite
def _about_list(draw: st.DrawFn, many: SampleParameter, choices: tuple[SampleParameter, ...]) -> str:
    item = draw(st.sampled_from(_others(many, choices)))
    return draw(st.sampled_from((f"{item} in {many.name}", f"{many.name} contains {item}", f"{many.name} is null")))


@st.composite
def columns(draw: st.DrawFn, choices: tuple[SampleParameter, ...]) -> str:
    """Generate result columns that use the parameters."""
    parameter = draw(st.sampled_from(choices))
    match draw(st.integers(0, 4)):
        case 0:
            return ""
        case 1 if parameter.family == "number" and not parameter.is_list and parameter.is_small:
            return f", {parameter.name} + 1 as v, -{parameter.name} as w"
        case 2 if not parameter.is_list:
            names = [choice.name for choice in choices if choice.family == parameter.family and not choice.is_list]
            return f", {parameter.name} = {draw(st.sampled_from(names))} as v, {parameter.name} is null as w"
        case _:
            return f", {parameter.name} as v"


@st.composite
def aggregates(draw: st.DrawFn, choices: tuple[SampleParameter, ...]) -> str:
    """Generate a group by one parameter, and aggregates of another."""
    key_parameter, parameter = draw(st.sampled_from(choices)), draw(st.sampled_from(choices))
    shown = [f"count({parameter.name}) as pn"]
    if not parameter.is_list:
        shown += [f"min({parameter.name}) as pm", f"count(distinct {parameter.name}) as pd"]
        if parameter.family == "number" and parameter.is_small:
            shown += [f"sum({parameter.name}) as ps", f"avg({parameter.name}) as pa"]
    key = f"{key_parameter.name} as pk, " if draw(st.booleans()) else ""
    return key + draw(st.sampled_from(shown))


@st.composite
def inline(draw: st.DrawFn, choices: tuple[SampleParameter, ...]) -> str:
    """Generate an inline value for the binding of a person, or nothing."""
    parameter = draw(st.sampled_from(choices))
    column = draw(st.sampled_from(_INLINE[parameter.family]))
    if parameter.is_list or not parameter.is_exact_with(column) or draw(st.booleans()):
        return ""
    return f" {{ {column}: {parameter.name} }}"


def bound(plan: QueryPlan, values: Mapping[str, object]) -> ReadPlan:
    """Return the plan with these values, as it runs."""
    bound_plan = bind_plan(plan, coerce_params(plan.parameters, values), NOW)
    assert isinstance(bound_plan, ReadPlan)
    return bound_plan


def as_written(plan: QueryPlan, values: Mapping[str, object]) -> ReadPlan:
    """Return the plan with these values in place of the parameters and no other change, to compare with `bound`."""
    assert isinstance(plan, ReadPlan)
    typed: ParameterValues = coerce_params(plan.parameters, values)

    def change(expr: Expr) -> Expr:
        match expr:
            case Param(name, value_type):
                return Literal(typed[name], value_type)
            case Now():
                return Literal(NOW, DATETIME)
            case _:
                return expr

    root = transform_plan(plan.root, lambda step: with_expressions(step, lambda expr: transform(expr, change)))
    return replace(plan, root=root)
