"""Checks inserts, updates and deletes: properties exist, required ones are set, and values have the right types.

Input: the statements of a mutation. Output: one typed statement for each that has no problem. The rows of an update or
a delete are a relation with one entity, whose properties `where` uses without `$`, or the matches of a `match`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import assert_never

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Name, NumberLiteral, Span, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.query.checks.blocks import assemble, check_block
from omnigraph.query.checks.context import Context, Env, ExpressionPosition, VariableBinding
from omnigraph.query.checks.expressions import check_condition, check_expression, report_unknown_property
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan import types
from omnigraph.query.plan.statements import ColumnAssignment, DeleteRows, InsertRow, StatementPlan, UpdateRows
from omnigraph.query.values import value_from_expression
from omnigraph.schema.catalog import EdgeType, NodeType, Property, TypeKind
from omnigraph.schema.property_types import Scalar, ScalarType, VectorType, item_type
from omnigraph.schema.tables import system_columns
from omnigraph.schema.values import InvalidValue

_AnyLiteral = StringLiteral | NumberLiteral | TimeLiteral | syntax.BoolLiteral | syntax.NullLiteral | syntax.ListLiteral


def check_mutation(body: syntax.MutationBody, context: Context) -> tuple[StatementPlan, ...]:
    """Return the typed statements that have no problem, in order."""
    _check_mix(body, context)
    checked = (_check_statement(statement, context) for statement in body.statements)
    return tuple(statement for statement in checked if statement is not None)


def _check_mix(body: syntax.MutationBody, context: Context) -> None:
    deletes = [statement for statement in body.statements if isinstance(statement, syntax.Delete)]
    if deletes and len(deletes) < len(body.statements):
        message = "a query cannot combine deletes with inserts or updates"
        context.report(QueryCode.MIXED_DELETE, deletes[0].type.span, message, "Write two queries.")


def _check_statement(statement: syntax.Statement, context: Context) -> StatementPlan | None:
    if isinstance(statement, syntax.Matched):
        return _check_matched(statement, context)
    entity_type = _find_type(statement.type, context)
    if entity_type is None:
        return None
    table = context.table(entity_type)
    match statement:
        case syntax.Insert(name, assignments):
            values = _check_assignments(assignments, table, Env(context, {}, ExpressionPosition.VALUE))
            _check_complete(assignments, entity_type, name, context)
            return None if values is None else InsertRow(table, values)
        case syntax.Update(name, assignments, where):
            _check_updatable(assignments, entity_type, name.span, context)
            entity = context.new_entity(syntax.Variable("row"), table)
            words = _own_columns(entity)
            values = _check_assignments(assignments, table, Env(context, {}, ExpressionPosition.VALUE, words))
            rows = _check_where(where, entity, Env(context, {}, ExpressionPosition.WHERE, words))
            if values is None or rows is None:
                return None
            return UpdateRows(entity, _with_stale_vectors(values, entity_type), rows)
        case syntax.Delete(_, where):
            entity = context.new_entity(syntax.Variable("row"), table)
            rows = _check_where(where, entity, Env(context, {}, ExpressionPosition.WHERE, _own_columns(entity)))
            return None if rows is None else DeleteRows(entity, rows)
        case _:
            assert_never(statement)


def _check_matched(statement: syntax.Matched, context: Context) -> StatementPlan | None:
    """Check a statement on the rows that a variable of its `match` is bound to."""
    variable = statement.variable
    block = check_block(statement.clauses, context, {}, statement.span)
    bound = None if variable.is_anonymous else block.visible.get(variable.name)
    if bound is None:
        if variable.name not in context.broken:
            near = context.problems.did_you_mean(variable.name, block.visible).replace("`", "`$", 1)
            hint = near or "Name a variable that the `match` binds outside of `not`."
            message = f"unknown variable {quoted(f'${variable.name}')}"
            context.report(QueryCode.UNKNOWN_VARIABLE, variable.span, message, hint)
        return None
    if bound.is_path:
        message = f"{quoted(f'${variable.name}')} is a path, which cannot be changed"
        context.report(QueryCode.EDGE_BINDING_HOPS, variable.span, message, "Remove the bounds to bind an edge.")
        return None
    entity = bound.entity
    values: tuple[ColumnAssignment, ...] | None = ()
    if isinstance(statement, syntax.MatchedUpdate):
        entity_type = context.catalog.type_with_id(entity.table.type_id)
        assert entity_type is not None, "the entity is of a type of the catalog"
        _check_updatable(statement.assignments, entity_type, statement.span, context)
        own = {variable.name: VariableBinding(entity)}
        env = Env(context, own, ExpressionPosition.VALUE, _own_columns(entity))
        values = _check_assignments(statement.assignments, entity.table, env)
        values = None if values is None else _with_stale_vectors(values, entity_type)
    if values is None or context.problems.sorted():
        return None
    rows = assemble(block)
    return UpdateRows(entity, values, rows) if values else DeleteRows(entity, rows)


def _find_type(name: Name, context: Context) -> NodeType | EdgeType | None:
    entity_type = context.catalog.type_named(name.text)
    if entity_type is None:
        type_names = [candidate.name for candidate in context.catalog.types]
        near = context.suggest_name(name.text, type_names)
        if context.catalog.interface_named(name.text):
            near = f"{name.text} is an interface, which has no rows. Name a node or edge type."
        context.report(QueryCode.UNKNOWN_TYPE, name.span, f"unknown type {quoted(name.text)}", near)
    return entity_type


def _check_assignments(
    assignments: tuple[syntax.Assignment, ...], table: types.Table, env: Env
) -> tuple[ColumnAssignment, ...] | None:
    values: list[ColumnAssignment] = []
    seen: set[str] = set()
    for assignment in assignments:
        name = assignment.name
        column = table.column(name.text)
        if column is None:
            report_unknown_property(table.name, name.text, name.span, env)
            continue
        if column.name in seen:
            env.report(QueryCode.PROPERTY_TWICE, name.span, f"duplicate property {quoted(name.text)}")
        seen.add(column.name)
        value = _check_value(assignment, column, env)
        if value is not None:
            values.append(ColumnAssignment(column.name, value))
    return tuple(values) if len(values) == len(assignments) == len(seen) else None


def _check_value(assignment: syntax.Assignment, column: types.Column, env: Env) -> ex.Expr | None:
    """Return the typed value of a property, or None after a problem."""
    name, value = assignment.name.text, assignment.value
    match value:
        case syntax.NullLiteral() if not column.nullable:
            env.report(QueryCode.NULL_VALUE, value.span, f"{quoted(name)} cannot be null")
            return None
        case syntax.ListLiteral(items) if not all(isinstance(item, _AnyLiteral) for item in items):
            return _check_list(value, column, name, env)
        case _ if isinstance(value, _AnyLiteral):
            return _check_literal(value, column, name, env)
        case syntax.Variable():
            return _check_param(value, column, name, env)
        case syntax.Call() if value.name.text == "now":
            return _check_now(value, column, name, env)
        case _:
            return _check_computed(value, column, name, env)


def _check_literal(literal: syntax.Expression, column: types.Column, name: str, env: Env) -> ex.Literal | None:
    value = value_from_expression(literal, column.type)
    if isinstance(value, InvalidValue):
        match literal, column.type:
            case syntax.ListLiteral(items), VectorType(size) if len(items) != size:
                code = QueryCode.VECTOR_LENGTH
            case _:
                code = QueryCode.LITERAL
        env.report(code, literal.span, f"{quoted(name)}: {value.message}", value.hint)
        return None
    return ex.Literal(value, column.type)


def _check_list(list_literal: syntax.ListLiteral, column: types.Column, name: str, env: Env) -> ex.Expr | None:
    """Check a list with computed items: each must be a value of the item type that cannot be null."""
    required_type = item_type(column.type)
    if required_type is None or (isinstance(column.type, VectorType) and len(list_literal.items) != column.type.size):
        return _check_literal(list_literal, column, name, env)
    checked = [
        _check_value(
            syntax.Assignment(Name(f"{name}[{index}]"), item), types.Column(name=name, type=required_type), env
        )
        for index, item in enumerate(list_literal.items)
    ]
    items = tuple(item for item in checked if item is not None)
    return ex.ListOf(items, column.type) if len(items) == len(checked) else None


def _check_param(variable: syntax.Variable, column: types.Column, name: str, env: Env) -> ex.Param | None:
    checked = check_expression(variable, env)
    if not isinstance(checked, ex.Param):
        return None
    if not types.is_assignable(checked.type, column.type):
        have, want = types.value_type_text(checked.type), types.value_type_text(column.type)
        message = f"{quoted(name)}: expected {want}, got {have}"
        env.report(QueryCode.ARGUMENT_TYPE, variable.span, message, f"Declare `${variable.name}: {want}`.")
        return None
    if checked.nullable and not column.nullable:
        message = f"{quoted(name)} cannot be null, but {quoted(f'${variable.name}')} is nullable"
        env.report(QueryCode.NULL_VALUE, variable.span, message, "Declare the parameter without `?`.")
        return None
    return checked


def _check_now(call: syntax.Call, column: types.Column, name: str, env: Env) -> ex.Expr | None:
    checked = check_expression(call, env)
    if checked is None or column.type in {types.DATE, types.DATETIME}:
        return checked if isinstance(checked, ex.Now) else None
    message = f"{quoted(name)}: expected {types.value_type_text(column.type)}, got `now()`, a DateTime"
    env.report(QueryCode.ARGUMENT_TYPE, call.span, message)
    return None


def _check_computed(expression: syntax.Expression, column: types.Column, name: str, env: Env) -> ex.Expr | None:
    checked = check_expression(expression, env)
    if checked is None:
        return None
    if checked.type == ScalarType(Scalar.BLOB):
        hint = "Only `is null` can be used on a Blob: `photo is null`."
        env.report(QueryCode.ARGUMENT_TYPE, expression.span, "an expression cannot read the content of a Blob", hint)
        return None
    if not _can_hold(checked, column):
        have, want = types.value_type_text(checked.type), types.value_type_text(column.type)
        env.report(QueryCode.ARGUMENT_TYPE, expression.span, f"{quoted(name)}: expected {want}, got {have}")
        return None
    return checked


def _can_hold(value: ex.Expr, column: types.Column) -> bool:
    """Return whether the column can store the value; an integer of any width is a number."""
    if types.is_integer(value.type):
        return types.is_number(column.type)
    if types.is_float(value.type):
        return types.is_float(column.type)
    return types.is_assignable(value.type, column.type)


def _check_complete(
    assignments: tuple[syntax.Assignment, ...], entity_type: NodeType | EdgeType, name: Name, context: Context
) -> None:
    assigned_names = {assignment.name.text for assignment in assignments}
    for assignment in assignments:
        if assignment.name.text == "id":
            _report_system_property(assignment.name, "Remove it. An id is generated, or derived from the key.", context)
    if isinstance(entity_type, EdgeType):
        ends = [end for end, other in (("from", "src"), ("to", "dst")) if not assigned_names & {end, other}]
        if ends:
            shown = " and ".join(f"`{end}`" for end in ends)
            hint = f"Add `{', '.join(f'{end}: …' for end in ends)}` with node ids."
            context.report(QueryCode.MISSING_END, name.span, f"an edge requires {shown}", hint)
    missing = [
        prop.name
        for prop in entity_type.properties
        if prop.name not in assigned_names
        and ((not prop.nullable and prop.default is None) or _lacks_source(prop, assigned_names, entity_type))
    ]
    if missing:
        shown = ", ".join(quoted(property_name) for property_name in missing)
        plural = "y" if len(missing) == 1 else "ies"
        message = f"missing required propert{plural} of {entity_type.name}: {shown}"
        hint = f"Add `{', '.join(f'{property_name}: …' for property_name in missing)}`."
        context.report(QueryCode.MISSING_PROPERTY, name.span, message, hint)


def _lacks_source(prop: Property, assigned_names: set[str], entity_type: NodeType | EdgeType) -> bool:
    """Return whether a required vector can never be embedded, because the row has no source text either."""
    if prop.embedding is None or not prop.embedding.required or prop.embedding.source in assigned_names:
        return False
    source = entity_type.property_named(prop.embedding.source)
    # A missing required source is reported itself; the vector is embedded from it.
    return source is None or source.nullable


def _check_updatable(
    assignments: tuple[syntax.Assignment, ...], entity_type: NodeType | EdgeType, span: Span, context: Context
) -> None:
    if not assignments:
        hint = "Set at least one property: `set { age: 3 }`."
        context.report(QueryCode.NOTHING_SET, span, "the update sets no properties", hint)
    table = context.table(entity_type)
    system = system_columns(entity_type)
    for assignment in assignments:
        name = assignment.name
        if name.text in entity_type.key:
            hint = "Delete the row and insert another one. The key is the identity of a row."
            message = f"cannot update {quoted(name.text)}: it is part of the key"
            context.report(QueryCode.KEY_UPDATE, name.span, message, hint)
        elif (column := table.column(name.text)) and column.name in system:
            _report_system_property(name, "Delete the row and insert another one.", context)


def stale_vectors(entity_type: NodeType | EdgeType, assigned_names: AbstractSet[str]) -> tuple[Property, ...]:
    """Return the vectors that an update of these properties makes stale: it sets the source and not the vector.

    A vector that cannot be null, in a graph of an earlier release, is kept.
    """
    return tuple(
        prop
        for prop in entity_type.properties
        if prop.embedding is not None
        and prop.nullable
        and prop.embedding.source in assigned_names
        and prop.name not in assigned_names
    )


def _with_stale_vectors(
    values: tuple[ColumnAssignment, ...], entity_type: NodeType | EdgeType
) -> tuple[ColumnAssignment, ...]:
    """Return the assignments of an update, and null for each vector of another text: `embed` computes it again."""
    stale = stale_vectors(entity_type, {assigned.column for assigned in values})
    return (*values, *(ColumnAssignment(prop.name, ex.Literal(None, prop.type)) for prop in stale))


def _report_system_property(name: Name, hint: str, context: Context) -> None:
    message = f"cannot set {quoted(name.text)}: it is a system property"
    context.report(QueryCode.SYSTEM_PROPERTY, name.span, message, hint)


def _own_columns(entity: types.Entity) -> dict[str, ex.Expr]:
    """Return the properties of the row, by the names that a statement uses."""
    names = list(entity.table.column_names)
    if entity.table.kind is TypeKind.EDGE:
        names += ["from", "to"]
    words: dict[str, ex.Expr] = {}
    for name in names:
        column = entity.table.column(name)
        assert column is not None
        words[name] = ex.ColumnRef.of(entity.name, column)
    return words


def _check_where(where: syntax.Expression, entity: types.Entity, env: Env) -> op.Relation | None:
    """Return the rows of the table for which the predicate is true."""
    condition = check_condition(where, env)
    return None if condition is None else op.FilterRows(op.Pattern(None, (entity,)), (condition,))
