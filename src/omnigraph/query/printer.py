"""Prints a syntax tree as canonical text.

One clause, column or statement per line, two spaces of indentation, a blank line between queries. Parsing the text
gives an equal tree, and printing that tree gives the same text. Comments are not part of the tree and are lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, assert_never

from omnigraph.lang.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.schema.printer import print_annotation, print_type

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_DIRECTIONS: Final = {None: "", False: " asc", True: " desc"}
_TIGHT: Final = frozenset({syntax.Sign.MUL, syntax.Sign.DIV})


def print_queries(file: syntax.QueryFile) -> str:
    """Return the canonical text of a file."""
    return "\n".join(_query(query) for query in file.queries)


def print_expression(expression: syntax.Expression) -> str:
    """Return the canonical text of an expression."""
    return _text_at_level(expression, _OR)


def _query(query: syntax.Query) -> str:
    parameters = ", ".join(
        f"${parameter.variable.name}: {print_type(parameter.type)}" for parameter in query.parameters
    )
    annotations = "".join(f" {print_annotation(annotation)}" for annotation in query.annotations)
    head = f"query {query.name.text}({parameters}){annotations}"
    body = query.body
    lines = (
        list(_read_lines(body))
        if isinstance(body, syntax.ReadBody)
        else [_statement(statement) for statement in body.statements]
    )
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}", ""])


def _read_lines(body: syntax.ReadBody) -> Iterable[str]:
    yield from _block("match", body.clauses)
    yield "return {"
    for projection in body.projections:
        alias = f" as {projection.alias.text}" if projection.alias else ""
        yield f"  {print_expression(projection.expression)}{alias},"
    yield "}"
    if body.order is not None:
        keys = (print_expression(ordering.expression) + _DIRECTIONS[ordering.descending] for ordering in body.order)
        yield f"order {{ {', '.join(keys)} }}" if body.order else "order {}"
    if body.limit:
        offset = f" offset {print_expression(body.limit.offset)}" if body.limit.offset else ""
        yield f"limit {print_expression(body.limit.count)}{offset}"


def _block(keyword: str, clauses: tuple[syntax.Clause, ...]) -> Iterable[str]:
    if not clauses:
        yield f"{keyword} {{}}"
        return
    lines: list[str] = []
    for clause in reversed(clauses):
        lines[:0] = _clause_lines(clause, before_parenthesis=bool(lines) and lines[0].startswith("("))
    yield f"{keyword} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _clause_lines(clause: syntax.Clause, *, before_parenthesis: bool) -> Iterable[str]:
    match clause:
        case syntax.NotBlock(inner):
            return _block("not", inner)
        case syntax.OptionalBlock(inner):
            return _block("optional", inner)
        case syntax.Filter(condition):
            text = print_expression(condition)
            is_ambiguous = _starts_like_clause(condition) or (before_parenthesis and _ends_in_word(condition))
            return (f"({text})" if is_ambiguous else text,)
        case syntax.Binding(variable, name, properties):
            return (f"${variable.name}: {name.text}{_properties(properties) if properties else ''}",)
        case syntax.Traversal(source, edge, target, undirected, bounds, binding):
            bound = f" ${binding.name}:" if binding else " "
            edge_text = f"<{edge.text}>" if undirected else edge.text
            high = bounds.high.text if bounds and bounds.high else ""
            hops = f"{{{bounds.low.text},{high}}}" if bounds else ""
            return (f"${source.name}{bound}{edge_text}{hops} ${target.name}",)
        case _:
            assert_never(clause)


def _starts_like_clause(condition: syntax.Expression) -> bool:
    """Return whether a filter starts with a bare `$x`, like a binding or traversal, or with `-`, like a subtraction."""
    while True:
        match condition:
            case syntax.Joined(operands=[first, *_]) | syntax.Comparison(left=first) | syntax.Arithmetic(left=first):
                condition = first
            case syntax.NullTest(operand=first):
                condition = first
            case syntax.Variable() | syntax.Negative():
                return True
            case NumberLiteral(text):
                return text.startswith("-")
            case _:
                return False


def _ends_in_word(condition: syntax.Expression) -> bool:
    """Return whether the condition ends in a word, which a following parenthesis would turn into a call."""
    while True:
        match condition:
            case syntax.Joined(operands=[*_, last]) | syntax.Comparison(right=last) | syntax.Arithmetic(right=last):
                condition = last
            case syntax.Inversion(operand=last) | syntax.Negative(operand=last):
                condition = last
            case _:
                return isinstance(condition, syntax.Word)


def _properties(assignments: tuple[syntax.Assignment, ...]) -> str:
    if not assignments:
        return " {}"
    shown = (f"{assignment.name.text}: {print_expression(assignment.value)}" for assignment in assignments)
    return f" {{ {', '.join(shown)} }}"


def _statement(statement: syntax.Statement) -> str:
    match statement:
        case syntax.Insert(name, assignments):
            return f"insert {name.text}{_properties(assignments)}"
        case syntax.Update(name, assignments, where):
            return f"update {name.text} set{_properties(assignments)} where {print_expression(where)}"
        case syntax.Delete(name, where):
            return f"delete {name.text} where {print_expression(where)}"
        case _:
            assert_never(statement)


def _text_at_level(expression: syntax.Expression, level: int) -> str:
    """Return the text, in parentheses if the expression binds less tightly than the level."""
    own, text = _level_and_text(expression)
    return text if own >= level else f"({text})"


def _level_and_text(expression: syntax.Expression) -> tuple[int, str]:  # noqa: PLR0912 - one case per node
    match expression:
        case syntax.Joined(junction, operands):
            own = _OR if junction is syntax.Junction.OR else _AND
            return own, f" {junction.value} ".join(_text_at_level(operand, own + 1) for operand in operands)
        case syntax.Inversion(operand):
            return _NOT, f"not {_text_at_level(operand, _NOT)}"
        case syntax.Comparison(operator, left, right):
            return _COMPARISON, f"{_text_at_level(left, _SUM)} {operator.value} {_text_at_level(right, _SUM)}"
        case syntax.NullTest(operand, negated):
            return _COMPARISON, f"{_text_at_level(operand, _SUM)} is {'not ' if negated else ''}null"
        case syntax.Arithmetic(sign, left, right):
            own = _PRODUCT if sign in _TIGHT else _SUM
            return own, f"{_text_at_level(left, own)} {sign.value} {_text_at_level(right, own + 1)}"
        case syntax.Negative(operand):
            # Without parentheses the sign would become part of the number.
            inner = _text_at_level(operand, _SIGN)
            return _SIGN, f"-({inner})" if isinstance(operand, NumberLiteral) else f"-{inner}"
        case NumberLiteral(text):
            return (_SIGN if text.startswith("-") else _ATOM), text
        case StringLiteral(value):
            return _ATOM, json.dumps(value, ensure_ascii=False)
        case TimeLiteral(text=text):
            return _ATOM, f"{expression.function}({json.dumps(text, ensure_ascii=False)})"
        case syntax.BoolLiteral(is_true):
            return _ATOM, "true" if is_true else "false"
        case syntax.NullLiteral():
            return _ATOM, "null"
        case syntax.Variable(name):
            return _ATOM, f"${name}"
        case syntax.Access(variable, property_name):
            return _ATOM, f"${variable.name}.{property_name.text}"
        case syntax.Word(text):
            return _ATOM, text
        case syntax.ListLiteral(items):
            return _ATOM, f"[{', '.join(print_expression(item) for item in items)}]"
        case syntax.Call():
            return _ATOM, _call(expression)
        case _:
            assert_never(expression)


def _call(call: syntax.Call) -> str:
    named = (f"{argument.name.text}={_text_at_level(argument.value, _SUM)}" for argument in call.named)
    arguments = ", ".join([*(print_expression(argument) for argument in call.arguments), *named])
    return f"{call.name.text}({'distinct ' if call.distinct else ''}{arguments})"
