"""`nearest`: a Vector property, and a vector of its length or, where a provider makes the vectors, a text."""

from __future__ import annotations

from omnigraph.query.checks.comparisons import Check
from omnigraph.query.checks.context import Env
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import ColumnRef, Expr, Literal, Nearest, Param
from omnigraph.query.json_values import value_from_expression
from omnigraph.query.syntax import Call, Expression, ListLiteral
from omnigraph.query.tables import Column
from omnigraph.query.value_types import Family, family_of, value_type_text
from omnigraph.schema.property_types import ListType, Scalar, VectorType
from omnigraph.schema.values import ValueMistake


def check_nearest(call: Call, env: Env, check: Check) -> Nearest | None:
    """The typed score, or None after a problem."""
    place, given = call.arguments
    found = check(place, env, None)
    column = found if isinstance(found, ColumnRef) and isinstance(found.type, VectorType) else None
    if found is not None and column is None:
        shown = value_type_text(found.type)
        message = f"`nearest` works on a Vector property, not {shown}"
        env.report(QueryCode.NEAREST_PROPERTY, place.span, message, "write `nearest($x.embedding, …)`")
    query = _vector(given, column, env) if isinstance(given, ListLiteral) else check(given, env, None)
    if column is None or query is None or not check_constant(query, given, "nearest", env):
        return None
    return _nearest(column, query, given, env)


def check_constant(query: Expr, given: Expression, name: str, env: Env) -> bool:
    """What is searched for is one value for the whole query, and never null."""
    if not isinstance(query, Literal | Param):
        message = f"`{name}` looks for a literal or a parameter, the same for every row"
        env.report(QueryCode.ARGUMENT_TYPE, given.span, message)
        return False
    if query.nullable:
        message = f"`{name}` cannot look for null"
        env.report(QueryCode.ARGUMENT_TYPE, given.span, message, "declare the parameter without `?`")
        return False
    return True


def _vector(given: ListLiteral, column: ColumnRef | None, env: Env) -> Literal | None:
    wanted = column.type if column else None
    if not isinstance(wanted, VectorType):
        return None
    value = value_from_expression(given, wanted)
    if isinstance(value, ValueMistake):
        code = QueryCode.VECTOR_LENGTH if len(given.items) != wanted.size else QueryCode.LITERAL
        env.report(code, given.span, value.message, value.hint)
        return None
    return Literal(value, wanted)


def _nearest(column: ColumnRef, query: Expr, given: Expression, env: Env) -> Nearest | None:
    assert isinstance(column.type, VectorType)
    match query.type:
        case VectorType(size):
            if size == column.type.size:
                return Nearest(column, query)
            message = f"the vector has {size} numbers, the property {column.type.size}"
            env.report(QueryCode.VECTOR_LENGTH, given.span, message)
            return None
        case ListType(Scalar.F32 | Scalar.F64):
            hint = f"declare the parameter as `{value_type_text(column.type)}`"
            env.report(QueryCode.VECTOR_LENGTH, given.span, "a list has no fixed length", hint)
            return None
    if family_of(query.type) is not Family.TEXT:
        message = f"`nearest` needs a vector or a text, not {value_type_text(query.type)}"
        env.report(QueryCode.ARGUMENT_TYPE, given.span, message)
        return None
    made = _embedded(column, env)
    if made is None:
        hint = 'give a vector, or declare the property with `@embed("source")`'
        message = "a text is looked for, and no `@embed` says how the property's vectors are made"
        env.report(QueryCode.NEAREST_TEXT, given.span, message, hint)
        return None
    return Nearest(column, query, embed=True, model=made.model)


def _embedded(column: ColumnRef, env: Env) -> Column | None:
    """By the entity of the column: in `order` it may be written as a name of `return`, without its variable."""
    entities = (bound.entity for bound in env.variables.values())
    table = next(found.table for found in entities if found.name == column.entity)
    made = table.column(column.column)
    return made if made is not None and made.embedded else None
