"""The parameters of a query: what it declares, and whether the given JSON values fit.

Every value is checked against its declared type and becomes one typed value. It is only ever put where the parameter
stands, as a literal of that type, so no value can change what a query does.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.base import limits
from omnigraph.base.errors import Fact, ParameterError
from omnigraph.query.expressions import LiteralValue, Param
from omnigraph.query.json_values import value_from_json
from omnigraph.query.value_types import EntityType, NullType, value_type_text
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.values import ValueMistake

ParameterValues = Mapping[str, LiteralValue]


def coerce_params(declared: tuple[Param, ...], given: Mapping[str, object]) -> ParameterValues:
    """A typed value for every declared parameter, or one `ParameterError` with every mistake.

    A nullable parameter that is not given is null. A leading `$` of a given name is taken as part of the sign.
    """
    known = {param.name: param for param in declared}
    named = {name.removeprefix("$"): value for name, value in given.items()}
    values: dict[str, LiteralValue] = {}
    mistakes = [_unknown(name, known) for name in named if name not in known]
    mistakes += [_twice(name) for name in named if name in given and f"${name}" in given]
    for param in declared:
        value = _value(param, named)
        if isinstance(value, ValueMistake):
            mistakes.append((param.name, value))
        else:
            values[param.name] = value
    if mistakes:
        raise _error(mistakes)
    return values


def _value(param: Param, given: Mapping[str, object]) -> LiteralValue | ValueMistake:
    if param.name not in given:
        if param.nullable:
            return None
        shown = value_type_text(param.type)
        return ValueMistake("it is required and not given", f"give `{param.name}`, of type {shown}")
    value = given[param.name]
    if value is None:
        return None if param.nullable else ValueMistake("it is null, and its type has no `?`")
    assert not isinstance(param.type, EntityType | NullType), "a parameter has the type of a property"
    return value_from_json(value, param.type)


def _unknown(name: str, known: Mapping[str, Param]) -> tuple[str, ValueMistake]:
    hint = ProblemList("", "").did_you_mean(name, known)
    if not hint:
        listed = ", ".join(quoted(found) for found in list(known)[:20])
        hint = f"the query has {listed}" if known else "the query has no parameters"
    return name, ValueMistake("the query does not declare it", hint)


def _twice(name: str) -> tuple[str, ValueMistake]:
    return name, ValueMistake("it is given twice, with and without `$`", "give it once")


def _error(mistakes: list[tuple[str, ValueMistake]]) -> ParameterError:
    name, first = mistakes[0]
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    listed: list[Fact] = [
        {"parameter": found, "message": mistake.message, "hint": mistake.hint}
        for found, mistake in mistakes[: limits.QUERY_PROBLEMS_MAX]
    ]
    return ParameterError(
        f"parameter {quoted(name)}: {first.message}{more}",
        code="query_parameter",
        hint=first.hint,
        facts={"parameters": listed},
    )
