"""Inserts, updates and deletes: whether the properties exist, are complete, and get values of their types."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Name, NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query.checks.context import SHOW_TYPES, Context, Env, ExpressionPosition
from omnigraph.query.checks.expressions import check_condition, check_expression, report_no_property
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expressions import ColumnRef, Expr, ListOf, Literal, Now, Param
from omnigraph.query.plan.operators import FilterRows, Pattern
from omnigraph.query.plan.statements import (
    Assigned,
    DeleteRows,
    InsertRow,
    Relation,
    StatementPlan,
    UpdateRows,
)
from omnigraph.query.plan.types import (
    DATE,
    DATETIME,
    Column,
    Entity,
    Table,
    is_assignable,
    is_float,
    is_integer,
    is_number,
    value_type_text,
)
from omnigraph.query.syntax import (
    Assignment,
    BoolLiteral,
    Call,
    Delete,
    Expression,
    Insert,
    ListLiteral,
    MutationBody,
    NullLiteral,
    Statement,
    Update,
    Variable,
)
from omnigraph.query.values import value_from_expression
from omnigraph.schema.catalog import EdgeType, NodeType, Property, TypeKind
from omnigraph.schema.property_types import Scalar, ScalarType, VectorType, item_type
from omnigraph.schema.tables import system_columns
from omnigraph.schema.values import ValueMistake


def check_value(assignment: Assignment, column: Column, env: Env) -> Expr | None:
    """The value, or None after a problem."""
    name, value = assignment.name.text, assignment.value
    match value:
        case NullLiteral() if not column.nullable:
            message = f"{quoted(name)} cannot be null"
            env.report(QueryCode.NULL_VALUE, value.span, message)
            return None
        case ListLiteral(items) if any(not _is_literal(item) for item in items):
            return _list(value, column, name, env)
        case (
            StringLiteral() | NumberLiteral() | TimeLiteral() | BoolLiteral() | NullLiteral() | ListLiteral()
        ):
            return _literal(value, column, name, env)
        case Variable():
            return _param(value, column, name, env)
        case Call() if value.name.text == "now":
            return _now(value, column, name, env)
        case _:
            return _computed(value, column, name, env)


def _literal(literal: Expression, column: Column, name: str, env: Env) -> Literal | None:
    value = value_from_expression(literal, column.type)
    if isinstance(value, ValueMistake):
        match literal, column.type:
            case ListLiteral(items), VectorType(size) if len(items) != size:
                code = QueryCode.VECTOR_LENGTH
            case _:
                code = QueryCode.LITERAL
        env.report(code, literal.span, f"{quoted(name)}: {value.message}", value.hint)
        return None
    return Literal(value, column.type)


def _is_literal(expression: Expression) -> bool:
    return isinstance(
        expression, StringLiteral | NumberLiteral | TimeLiteral | BoolLiteral | NullLiteral | ListLiteral
    )


def _list(list_literal: ListLiteral, column: Column, name: str, env: Env) -> Expr | None:
    """A list with computed items: each is a value that is never null, of the type that items have."""
    required_type = item_type(column.type)
    if required_type is None or (
        isinstance(column.type, VectorType) and len(list_literal.items) != column.type.size
    ):
        return _literal(list_literal, column, name, env)
    checked = [
        check_value(Assignment(Name(f"{name}[{index}]"), item), Column(name, required_type), env)
        for index, item in enumerate(list_literal.items)
    ]
    items = tuple(item for item in checked if item is not None)
    return ListOf(items, column.type) if len(items) == len(checked) else None


def _param(variable: Variable, column: Column, name: str, env: Env) -> Param | None:
    checked = check_expression(variable, env)
    if not isinstance(checked, Param):
        return None
    if not is_assignable(checked.type, column.type):
        have, want = value_type_text(checked.type), value_type_text(column.type)
        message = f"{quoted(name)} is {want}, and {quoted(f'${variable.name}')} is {have}"
        env.report(QueryCode.ARGUMENT_TYPE, variable.span, message, f"declare `${variable.name}: {want}`")
        return None
    if checked.nullable and not column.nullable:
        message = f"{quoted(name)} cannot be null, and {quoted(f'${variable.name}')} may be"
        env.report(QueryCode.NULL_VALUE, variable.span, message, "declare the parameter without `?`")
        return None
    return checked


def _now(call: Call, column: Column, name: str, env: Env) -> Expr | None:
    checked = check_expression(call, env)
    if checked is None or column.type in {DATE, DATETIME}:
        return checked if isinstance(checked, Now) else None
    message = f"{quoted(name)} is {value_type_text(column.type)}, and `now()` is a moment"
    env.report(QueryCode.ARGUMENT_TYPE, call.span, message)
    return None


def _computed(expression: Expression, column: Column, name: str, env: Env) -> Expr | None:
    checked = check_expression(expression, env)
    if checked is None:
        return None
    if checked.type == ScalarType(Scalar.BLOB):
        hint = "only whether a Blob is there can be asked: `photo is null`"
        env.report(QueryCode.ARGUMENT_TYPE, expression.span, "the content of a Blob is not read here", hint)
        return None
    if not _can_hold(checked, column):
        have, want = value_type_text(checked.type), value_type_text(column.type)
        env.report(QueryCode.ARGUMENT_TYPE, expression.span, f"{quoted(name)} is {want}, and this is {have}")
        return None
    return checked


def _can_hold(value: Expr, column: Column) -> bool:
    """Whether values of the expression's type can be values of the column's: integers of any width are numbers."""
    if is_integer(value.type):
        return is_number(column.type)
    if is_float(value.type):
        return is_float(column.type)
    return is_assignable(value.type, column.type)


def check_mutation(body: MutationBody, context: Context) -> tuple[StatementPlan, ...]:
    """The statements that have no problem, in order."""
    _check_mix(body, context)
    checked = (_statement(statement, context) for statement in body.statements)
    return tuple(statement for statement in checked if statement is not None)


def _check_mix(body: MutationBody, context: Context) -> None:
    deletes = [statement for statement in body.statements if isinstance(statement, Delete)]
    if deletes and len(deletes) < len(body.statements):
        message = "a query deletes, or inserts and updates, but not both"
        context.report(QueryCode.MIXED_DELETE, deletes[0].type.span, message, "write two queries")


def _statement(statement: Statement, context: Context) -> StatementPlan | None:
    entity_type = _type(statement.type, context)
    if entity_type is None:
        return None
    table = context.table(entity_type)
    match statement:
        case Insert(name, assignments):
            values = _assigned(assignments, table, Env(context, {}, ExpressionPosition.VALUE))
            _check_complete(assignments, entity_type, name, context)
            return None if values is None else InsertRow(table, values)
        case Update(name, assignments, where):
            if not assignments:
                hint = "name a property and its value: `set { age: 3 }`"
                context.report(QueryCode.NOTHING_SET, name.span, "the update sets nothing", hint)
            _check_updatable(assignments, entity_type, context)
            entity = context.new_entity(Variable("row"), table)
            words = _own_columns(entity)
            values = _assigned(assignments, table, Env(context, {}, ExpressionPosition.VALUE, words))
            rows = _rows(where, entity, Env(context, {}, ExpressionPosition.WHERE, words))
            return None if values is None or rows is None else UpdateRows(entity, values, rows)
        case Delete(_, where):
            entity = context.new_entity(Variable("row"), table)
            rows = _rows(where, entity, Env(context, {}, ExpressionPosition.WHERE, _own_columns(entity)))
            return None if rows is None else DeleteRows(entity, rows)
        case _:
            assert_never(statement)


def _type(name: Name, context: Context) -> NodeType | EdgeType | None:
    entity_type = context.catalog.type_named(name.text)
    if entity_type is None:
        type_names = [candidate.name for candidate in context.catalog.types]
        near = context.problems.did_you_mean(name.text, type_names) or SHOW_TYPES
        if context.catalog.interface_named(name.text):
            near = f"{name.text} is an interface, which has no rows"
        context.report(QueryCode.UNKNOWN_TYPE, name.span, f"no type is called {quoted(name.text)}", near)
    return entity_type


def _assigned(assignments: tuple[Assignment, ...], table: Table, env: Env) -> tuple[Assigned, ...] | None:
    values: list[Assigned] = []
    seen: set[str] = set()
    for assignment in assignments:
        name = assignment.name
        column = table.column(name.text)
        if column is None:
            report_no_property(table.name, name.text, name.span, env)
            continue
        if column.name in seen:
            env.report(QueryCode.PROPERTY_TWICE, name.span, f"{quoted(name.text)} is given twice")
        seen.add(column.name)
        value = check_value(assignment, column, env)
        if value is not None:
            values.append(Assigned(column.name, value))
    return tuple(values) if len(values) == len(assignments) == len(seen) else None


def _check_complete(
    assignments: tuple[Assignment, ...], entity_type: NodeType | EdgeType, name: Name, context: Context
) -> None:
    assigned_names = {assignment.name.text for assignment in assignments}
    for assignment in assignments:
        if assignment.name.text == "id":
            _report_system(assignment.name, "ids are made from the key, or made up", context)
    if isinstance(entity_type, EdgeType):
        ends = [end for end, other in (("from", "src"), ("to", "dst")) if not assigned_names & {end, other}]
        if ends:
            shown = " and ".join(f"`{end}`" for end in ends)
            hint = f"add `{', '.join(f'{end}: …' for end in ends)}`, the ids of nodes"
            context.report(QueryCode.MISSING_END, name.span, f"an edge needs {shown}", hint)
    missing = [
        prop.name
        for prop in entity_type.properties
        if prop.name not in assigned_names
        and (_is_required(prop) or _lacks_source(prop, assigned_names, entity_type))
    ]
    if missing:
        shown = ", ".join(quoted(property_name) for property_name in missing)
        message = f"{entity_type.name} needs {shown}: required, and without a default"
        hint = f"add `{', '.join(f'{property_name}: …' for property_name in missing)}`"
        context.report(QueryCode.MISSING_PROPERTY, name.span, message, hint)


def _is_required(prop: Property) -> bool:
    return not prop.nullable and prop.default is None


def _lacks_source(prop: Property, assigned_names: set[str], entity_type: NodeType | EdgeType) -> bool:
    """Whether a required vector could not be made later, because the row has no text for it either."""
    if prop.embedding is None or not prop.embedding.required or prop.embedding.source in assigned_names:
        return False
    source = entity_type.property_named(prop.embedding.source)
    # A required source that is not given is reported itself, and giving it is enough.
    return source is None or source.nullable


def _check_updatable(
    assignments: tuple[Assignment, ...], entity_type: NodeType | EdgeType, context: Context
) -> None:
    table = context.table(entity_type)
    system = system_columns(entity_type)
    for assignment in assignments:
        name = assignment.name
        if name.text in entity_type.key:
            hint = "a key is the row's identity: delete the row and insert another"
            message = f"{quoted(name.text)} is part of the key and cannot be updated"
            context.report(QueryCode.KEY_UPDATE, name.span, message, hint)
        elif (column := table.column(name.text)) and column.name in system:
            _report_system(name, "delete the row and insert another", context)


def _report_system(name: Name, hint: str, context: Context) -> None:
    message = f"{quoted(name.text)} is set by the system"
    context.report(QueryCode.SYSTEM_PROPERTY, name.span, message, hint)


def _own_columns(entity: Entity) -> dict[str, Expr]:
    """The properties of the row itself, by the names that a statement uses."""
    names = list(entity.table.column_names)
    if entity.table.kind is TypeKind.EDGE:
        names += ["from", "to"]
    words: dict[str, Expr] = {}
    for name in names:
        column = entity.table.column(name)
        assert column is not None
        words[name] = ColumnRef(entity.name, column.name, column.type, column.nullable)
    return words


def _rows(where: Expression, entity: Entity, env: Env) -> Relation | None:
    """The rows of the table for which the predicate is true."""
    condition = check_condition(where, env)
    return None if condition is None else FilterRows(Pattern(None, (entity,)), (condition,))
