"""Prints a syntax tree as canonical text, to check that the parser loses nothing.

One clause, column or statement per line, two spaces of indentation, a blank line between queries. Parsing the text
gives an equal tree, and printing that tree gives the same text. Comments are not part of the tree and are lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from omnigraph.lang.syntax import NumberLiteral
from omnigraph.query import syntax
from omnigraph.query.printer import print_expression
from omnigraph.schema.printer import print_annotation, print_type

_DIRECTIONS: Final = {None: "", False: " asc", True: " desc"}


def print_queries(file: syntax.QueryFile) -> str:
    """Return the canonical text of a file."""
    return "\n".join(_query(query) for query in file.queries)


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
        else [line for statement in body.statements for line in _statement_lines(statement)]
    )
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}", ""])


def _read_lines(body: syntax.ReadBody) -> Iterable[str]:
    yield from _block("match", body.clauses)
    yield "return {"
    for projection in body.projections:
        alias = f" as {projection.alias.text}" if projection.alias else ""
        yield f"  {print_expression(projection.expression)}{alias},"
    yield "}"
    if body.having is not None:
        yield from _block("having", body.having)
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
        case syntax.Traversal(source=source, target=target, bounds=bounds, binding=binding):
            bound = f" ${binding.name}:" if binding else " "
            high = bounds.high.text if bounds and bounds.high else ""
            hops = f"{{{bounds.low.text},{high}}}" if bounds else ""
            return (f"${source.name}{bound}{clause.edge_text}{hops} ${target.name}",)
        case _:
            assert_never(clause)


def _starts_like_clause(condition: syntax.Expression) -> bool:
    """Return whether a filter starts with a bare `$x`, like a binding or traversal, or with `-`, like a subtraction."""
    while True:
        match condition:
            case syntax.Joined(operands=[first, *_]) | syntax.Comparison(left=first) | syntax.Arithmetic(left=first):
                condition = first
            case syntax.NullTest(operand=first) | syntax.Between(operand=first):
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
            case syntax.Inversion(operand=last) | syntax.Negative(operand=last) | syntax.Between(high=last):
                condition = last
            case _:
                return isinstance(condition, syntax.Word)


def _properties(assignments: tuple[syntax.Assignment, ...]) -> str:
    if not assignments:
        return " {}"
    shown = (f"{assignment.name.text}: {print_expression(assignment.value)}" for assignment in assignments)
    return f" {{ {', '.join(shown)} }}"


def _statement_lines(statement: syntax.Statement) -> Iterable[str]:
    match statement:
        case syntax.MatchedUpdate(clauses, variable, assignments):
            yield from _block("match", clauses)
            yield f"update ${variable.name} set{_properties(assignments)}"
        case syntax.MatchedDelete(clauses, variable):
            yield from _block("match", clauses)
            yield f"delete ${variable.name}"
        case _:
            yield _statement(statement)


def _statement(statement: syntax.Insert | syntax.Update | syntax.Delete) -> str:
    match statement:
        case syntax.Insert(name, assignments):
            return f"insert {name.text}{_properties(assignments)}"
        case syntax.Update(name, assignments, where):
            return f"update {name.text} set{_properties(assignments)} where {print_expression(where)}"
        case syntax.Delete(name, where):
            return f"delete {name.text} where {print_expression(where)}"
        case _:
            assert_never(statement)
