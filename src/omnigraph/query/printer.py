"""Syntax tree to canonical text: one clause, column or statement per line, two spaces, a blank line between queries.

Reading the text again gives an equal tree, and printing that gives the same text. Comments are not part of the tree
and are lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, assert_never

from omnigraph.lang.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query.syntax import (
    Access,
    Arithmetic,
    Assignment,
    Binding,
    BoolLiteral,
    Call,
    Clause,
    Comparison,
    Delete,
    Expression,
    Filter,
    Insert,
    Inversion,
    Joined,
    Junction,
    Limit,
    ListLiteral,
    Negative,
    NotBlock,
    NullLiteral,
    NullTest,
    OptionalBlock,
    Query,
    QueryFile,
    ReadBody,
    Sign,
    Statement,
    Traversal,
    Update,
    Variable,
    Word,
)
from omnigraph.schema.printer import print_annotation, print_type

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_DIRECTIONS: Final = {None: "", False: " asc", True: " desc"}
_TIGHT: Final = frozenset({Sign.MUL, Sign.DIV})


def print_queries(file: QueryFile) -> str:
    """The canonical text; empty for an empty file."""
    return "\n".join(_query(query) for query in file.queries)


def print_expression(expression: Expression) -> str:
    """One expression as it is written."""
    return _at_least(expression, _OR)


def _query(query: Query) -> str:
    parameters = ", ".join(
        f"${parameter.variable.name}: {print_type(parameter.type)}" for parameter in query.parameters
    )
    annotations = "".join(f" {print_annotation(annotation)}" for annotation in query.annotations)
    head = f"query {query.name.text}({parameters}){annotations}"
    body = query.body
    lines = (
        list(_read_lines(body))
        if isinstance(body, ReadBody)
        else [_statement(statement) for statement in body.statements]
    )
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}", ""])


def _read_lines(body: ReadBody) -> Iterable[str]:
    yield from _block("match", body.clauses)
    yield "return {"
    for projection in body.projections:
        alias = f" as {projection.alias.text}" if projection.alias else ""
        yield f"  {print_expression(projection.expression)}{alias},"
    yield "}"
    if body.order is not None:
        keys = (
            print_expression(ordering.expression) + _DIRECTIONS[ordering.descending]
            for ordering in body.order
        )
        yield f"order {{ {', '.join(keys)} }}" if body.order else "order {}"
    if body.limit:
        yield _limit(body.limit)


def _limit(limit: Limit) -> str:
    text = f"limit {print_expression(limit.count)}"
    return text if limit.offset is None else f"{text} offset {print_expression(limit.offset)}"


def _block(keyword: str, clauses: tuple[Clause, ...]) -> Iterable[str]:
    if not clauses:
        yield f"{keyword} {{}}"
        return
    lines: list[str] = []
    for clause in reversed(clauses):
        lines[:0] = _clause_lines(clause, before_parenthesis=bool(lines) and lines[0].startswith("("))
    yield f"{keyword} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _clause_lines(clause: Clause, *, before_parenthesis: bool) -> Iterable[str]:
    match clause:
        case NotBlock(inner):
            return _block("not", inner)
        case OptionalBlock(inner):
            return _block("optional", inner)
        case Filter(condition) if before_parenthesis and _ends_in_word(condition):
            return (f"({print_expression(condition)})",)
        case Binding() | Traversal() | Filter():
            return (_clause(clause),)
        case _:
            assert_never(clause)


def _clause(clause: Binding | Traversal | Filter) -> str:
    match clause:
        case Binding(variable, name, properties):
            return f"${variable.name}: {name.text}{_properties(properties) if properties else ''}"
        case Traversal(source, edge, target, undirected, bounds, binding):
            bound = f" ${binding.name}:" if binding else " "
            edge_text = f"<{edge.text}>" if undirected else edge.text
            high = bounds.high.text if bounds and bounds.high else ""
            hops = f"{{{bounds.low.text},{high}}}" if bounds else ""
            return f"${source.name}{bound}{edge_text}{hops} ${target.name}"
        case Filter(condition):
            text = print_expression(condition)
            return f"({text})" if _needs_parentheses(condition) else text
        case _:
            assert_never(clause)


def _needs_parentheses(condition: Expression) -> bool:
    """A clause that begins with a bare `$x` reads as a binding or a traversal, one with `-` as the end of the last."""
    while True:
        match condition:
            case Joined(operands=[first, *_]) | Comparison(left=first) | Arithmetic(left=first):
                condition = first
            case NullTest(operand=first):
                condition = first
            case Variable() | Negative():
                return True
            case NumberLiteral(text):
                return text.startswith("-")
            case _:
                return False


def _ends_in_word(condition: Expression) -> bool:
    """Whether a parenthesis after it would make it a call of a function."""
    while True:
        match condition:
            case Joined(operands=[*_, last]) | Comparison(right=last) | Arithmetic(right=last):
                condition = last
            case Inversion(operand=last) | Negative(operand=last):
                condition = last
            case _:
                return isinstance(condition, Word)


def _properties(assignments: tuple[Assignment, ...]) -> str:
    if not assignments:
        return " {}"
    shown = (f"{assignment.name.text}: {print_expression(assignment.value)}" for assignment in assignments)
    return f" {{ {', '.join(shown)} }}"


def _statement(statement: Statement) -> str:
    match statement:
        case Insert(name, assignments):
            return f"insert {name.text}{_properties(assignments)}"
        case Update(name, assignments, where):
            return f"update {name.text} set{_properties(assignments)} where {print_expression(where)}"
        case Delete(name, where):
            return f"delete {name.text} where {print_expression(where)}"
        case _:
            assert_never(statement)


def _at_least(expression: Expression, level: int) -> str:
    """The expression, in parentheses if it binds less tightly than its place needs."""
    own, text = _leveled(expression)
    return text if own >= level else f"({text})"


def _leveled(expression: Expression) -> tuple[int, str]:
    match expression:
        case Joined(junction, operands):
            own = _OR if junction is Junction.OR else _AND
            return own, f" {junction.value} ".join(_at_least(operand, own + 1) for operand in operands)
        case Inversion(operand):
            return _NOT, f"not {_at_least(operand, _NOT)}"
        case Comparison(operator, left, right):
            return _COMPARISON, f"{_at_least(left, _SUM)} {operator.value} {_at_least(right, _SUM)}"
        case NullTest(operand, negated):
            return _COMPARISON, f"{_at_least(operand, _SUM)} is {'not ' if negated else ''}null"
        case Arithmetic(sign, left, right):
            own = _PRODUCT if sign in _TIGHT else _SUM
            return own, f"{_at_least(left, own)} {sign.value} {_at_least(right, own + 1)}"
        case Negative(operand):
            # A number after the sign would become one with it.
            inner = _at_least(operand, _SIGN)
            return _SIGN, f"-({inner})" if isinstance(operand, NumberLiteral) else f"-{inner}"
        case NumberLiteral(text):
            return (_SIGN if text.startswith("-") else _ATOM), text
        case StringLiteral() | TimeLiteral() | BoolLiteral() | NullLiteral() | Variable() | Access() | Word():
            return _ATOM, _atom(expression)
        case ListLiteral(items):
            return _ATOM, f"[{', '.join(print_expression(item) for item in items)}]"
        case Call():
            return _ATOM, _call(expression)
        case _:
            assert_never(expression)


def _atom(
    atom: StringLiteral | TimeLiteral | BoolLiteral | NullLiteral | Variable | Access | Word,
) -> str:
    match atom:
        case StringLiteral(value):
            return json.dumps(value, ensure_ascii=False)
        case TimeLiteral(text=text):
            return f"{atom.function}({json.dumps(text, ensure_ascii=False)})"
        case BoolLiteral(value):
            return "true" if value else "false"
        case NullLiteral():
            return "null"
        case Variable(name):
            return f"${name}"
        case Access(variable, property_name):
            return f"${variable.name}.{property_name.text}"
        case Word(text):
            return text
        case _:
            assert_never(atom)


def _call(call: Call) -> str:
    named = (f"{argument.name.text}={_at_least(argument.value, _SUM)}" for argument in call.named)
    arguments = ", ".join([*(print_expression(argument) for argument in call.arguments), *named])
    return f"{call.name.text}({'distinct ' if call.distinct else ''}{arguments})"
