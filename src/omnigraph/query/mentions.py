"""Which variables and literals a query mentions, and where: from the text alone, without a catalog."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query.syntax import (
    Access,
    Arithmetic,
    Binding,
    Call,
    Clause,
    Comparison,
    Delete,
    Expression,
    Filter,
    Insert,
    Inversion,
    Joined,
    ListLiteral,
    Negative,
    NotBlock,
    NullTest,
    OptionalBlock,
    Query,
    ReadBody,
    Statement,
    Traversal,
    Update,
    Variable,
)


def variables_of(query: Query) -> dict[str, list[Variable]]:
    """Every mention of each variable or parameter in the body, by name, in the order of the text."""
    found: dict[str, list[Variable]] = {}
    for variable in _body_variables(query):
        found.setdefault(variable.name, []).append(variable)
    return found


def expressions_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it."""
    yield expression
    for part in _parts(expression):
        yield from expressions_of(part)


def clause_variables(clause: Clause) -> Iterator[Variable]:
    """The variables that a clause and all inside it mention."""
    match clause:
        case Binding(variable, properties=properties):
            yield variable
            for found in properties:
                yield from _expression_variables(found.value)
        case Traversal(source, _, target, binding=binding):
            yield source
            if binding:
                yield binding
            yield target
        case Filter(condition):
            yield from _expression_variables(condition)
        case NotBlock(clauses) | OptionalBlock(clauses):
            for inner in clauses:
                yield from clause_variables(inner)


def statement_expressions(statement: Statement) -> Iterator[Expression]:
    """The values and the predicate of a statement."""
    match statement:
        case Insert(_, assignments):
            yield from (found.value for found in assignments)
        case Update(_, assignments, where):
            yield from (found.value for found in assignments)
            yield where
        case Delete(_, where):
            yield where


def _body_variables(query: Query) -> Iterator[Variable]:
    body = query.body
    if not isinstance(body, ReadBody):
        for statement in body.statements:
            for expression in statement_expressions(statement):
                yield from _expression_variables(expression)
        return
    for clause in body.clauses:
        yield from clause_variables(clause)
    shown = [found.expression for found in body.projections]
    for expression in (*shown, *(found.expression for found in body.order or ())):
        yield from _expression_variables(expression)
    if body.limit:
        yield from (one for one in (body.limit.count, body.limit.offset) if isinstance(one, Variable))


def _expression_variables(expression: Expression) -> Iterator[Variable]:
    for found in expressions_of(expression):
        if isinstance(found, Variable):
            yield found
        elif isinstance(found, Access):
            yield found.variable


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case ListLiteral(items):
            return items
        case Call(_, arguments, named):
            return (*arguments, *(found.value for found in named))
        case Negative(operand) | Inversion(operand) | NullTest(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Joined(_, operands):
            return operands
        case _:
            return ()
