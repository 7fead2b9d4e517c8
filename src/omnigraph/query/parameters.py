"""Checks the values of parameters, and binds them and the current time into a plan.

Input: a plan, values by name, and the time. Output: a plan of the same steps and columns without `Param` and `Now`. A
value always becomes a literal, never a part of the plan's structure. Comparisons with the new literals are fitted to
their columns, as for literals of the text. All errors of the values are raised together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from omnigraph.base import limits
from omnigraph.base.errors import Fact, ParameterError, UsageError
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import statements, types
from omnigraph.query.plan.expression_walk import transform
from omnigraph.query.plan.operators import LimitRows, Relation
from omnigraph.query.plan.walk import Change, steps_of, transform_plan, with_expressions
from omnigraph.query.rules.coerce_literals import coerce_expression, coerce_literals
from omnigraph.query.values import value_from_json
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType, item_type
from omnigraph.schema.values import InvalidValue, narrow

ParameterValues = Mapping[str, ex.LiteralValue]


def coerce_params(declared: tuple[ex.Param, ...], values_by_name: Mapping[str, object]) -> ParameterValues:
    """Return a typed value for every declared parameter, or raise one `ParameterError` with all errors.

    A nullable parameter without a value is null. A name can start with `$`.
    """
    if not isinstance(values_by_name, Mapping):  # Python does not check the type that the caller passes
        raise UsageError(
            f"invalid params: expected a dict of values by name, got {type(values_by_name).__name__}",
            code="params_malformed",
            hint='Pass it as in `params={"name": "Ada"}`.',
        )
    params = {param.name: param for param in declared}
    named = {name.removeprefix("$"): value for name, value in values_by_name.items()}
    values: dict[str, ex.LiteralValue] = {}
    errors = [_unknown_parameter(name, params) for name in named if name not in params]
    duplicate = InvalidValue("duplicate value, with and without `$`", "Pass it once.")
    errors += [(name, duplicate) for name in named if name in values_by_name and f"${name}" in values_by_name]
    for param in declared:
        value = _convert_value(param, named)
        if isinstance(value, InvalidValue):
            errors.append((param.name, value))
        else:
            values[param.name] = value
    if errors:
        raise _parameter_error(errors)
    return values


def _convert_value(param: ex.Param, values_by_name: Mapping[str, object]) -> ex.LiteralValue | InvalidValue:
    if param.name not in values_by_name:
        if param.nullable:
            return None
        hint = f"Pass a value of type {types.value_type_text(param.type)}."
        return InvalidValue("the parameter is required and has no value", hint)
    value = values_by_name[param.name]
    if value is None:
        return None if param.nullable else InvalidValue("the parameter cannot be null, because its type has no `?`")
    assert isinstance(param.type, PropertyType), "a parameter has the type of a property"
    return value_from_json(value, param.type)


def _unknown_parameter(name: str, params: Mapping[str, ex.Param]) -> tuple[str, InvalidValue]:
    hint = ProblemList("", "").did_you_mean(name, params)
    if not hint:
        listed = ", ".join(quoted(param_name) for param_name in list(params)[:20])
        hint = f"The parameters are {listed}." if params else "The query has no parameters."
    return name, InvalidValue("the query does not declare this parameter", hint)


def _parameter_error(errors: list[tuple[str, InvalidValue]]) -> ParameterError:
    name, first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    listed: list[Fact] = [
        {"parameter": parameter, "message": error.message, "hint": error.hint}
        for parameter, error in errors[: limits.QUERY_PROBLEMS_MAX]
    ]
    return ParameterError(
        f"parameter {quoted(name)}: {first.message}{more}",
        code="query_parameter",
        hint=first.hint,
        facts={"parameters": listed},
    )


def bind_plan(plan: statements.QueryPlan, values: ParameterValues, now: datetime) -> statements.QueryPlan:
    """Return the plan with the values of its parameters; `now` is truncated to milliseconds."""
    timestamp = now.astimezone(UTC)
    timestamp = timestamp.replace(microsecond=timestamp.microsecond // 1000 * 1000)

    def change(expr: ex.Expr) -> ex.Expr:
        match expr:
            case ex.Param(name, value_type):
                return ex.Literal(values[name], value_type)
            case ex.Now():
                return ex.Literal(timestamp, types.DATETIME)
            case _:
                return expr

    def run(root: Relation) -> Relation:
        bound = transform_plan(root, lambda step: with_expressions(step, lambda expr: transform(expr, change)))
        _require_valid_limits(bound)
        return coerce_literals(bound, types.NO_FACTS)

    if isinstance(plan, statements.ReadPlan):
        return replace(plan, root=run(plan.root))

    def statement(unbound: statements.StatementPlan) -> statements.StatementPlan:
        match unbound:
            case statements.InsertRow(table, assigned):
                return replace(unbound, values=_bind_values(assigned, table, change))
            case statements.UpdateRows(entity, assigned, rows):
                return replace(unbound, values=_bind_values(assigned, entity.table, change), rows=run(rows))
            case statements.DeleteRows(_, rows):
                return replace(unbound, rows=run(rows))

    return replace(plan, statements=tuple(statement(unbound) for unbound in plan.statements))


def _require_valid_limits(root: Relation) -> None:
    """Raise if a parameter is a negative limit or offset."""
    for step in steps_of(root):
        for bound_count in (step.count, step.offset) if isinstance(step, LimitRows) else ():
            if isinstance(bound_count, ex.Literal) and isinstance(bound_count.value, int) and bound_count.value < 0:
                message = f"a limit or an offset must not be negative, got {bound_count.value}"
                raise ParameterError(message, code="query_parameter", hint="Pass 0 or more.")


def _bind_values(
    values: tuple[statements.ColumnAssignment, ...], table: types.Table, change: Change
) -> tuple[statements.ColumnAssignment, ...]:
    stored = []
    for assigned in values:
        column = table.column(assigned.column)
        assert column is not None
        value = coerce_expression(transform(assigned.value, change))
        stored.append(statements.ColumnAssignment(assigned.column, _with_type(value, column.type)))
    return tuple(stored)


def _with_type(value: ex.Expr, column_type: PropertyType) -> ex.Expr:
    match value, item_type(column_type):
        case ex.Literal(literal), _:
            return ex.Literal(_convert_literal(literal, column_type), column_type)
        case ex.ListOf(items), ScalarType() as item:
            return ex.ListOf(tuple(_with_type(item_value, item) for item_value in items), column_type)
        case _:
            return value


def _convert_literal(value: ex.LiteralValue, column_type: PropertyType) -> ex.LiteralValue:
    """Convert a value of an assignable type to the type of the column: integer to float, datetime to date."""
    if isinstance(value, int) and not isinstance(value, bool) and types.is_float(column_type):
        return float(value) if column_type == types.F64 else narrow(float(value))
    if isinstance(value, datetime) and column_type == types.DATE:
        return value.date()
    if isinstance(value, float) and column_type == ScalarType(Scalar.F32):
        return narrow(value)
    return value
