"""The parser's tree → the syntax tree, and the messages for syntax errors.

In: a tree of the grammar, or an error of the parser. Out: declarations, with the annotations of a body sorted into
those of a property, constraints of the type and misplaced ones; or a problem. Reports only syntax and escapes.

A body has no separators, so the position does not distinguish `weight: F64 @index(since)` from `since: Date @index`.
The rule: `@key`, `@unique` and `@index` with arguments (`@index`: with names of properties), and `@range` and `@check`
always, are constraints; any other annotation belongs to the property before it. The endpoints `@src` and `@dst` become
the words `src` and `dst`.
"""

from __future__ import annotations

import re
from typing import Final

from lark import Token, Tree

from omnigraph.lang.builder import TreeBuilder, node_rule, token_span, tuple_rule
from omnigraph.lang.parsing import InvalidSyntax, join_alternatives
from omnigraph.lang.problems import ProblemList
from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    Literal,
    Name,
    NamedArgument,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    WordLiteral,
)
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Body, Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax, PropertySyntax

HEADER: Final = re.compile(r"^[ \t]*(node|edge|interface)[ \t]+([A-Za-z_][A-Za-z0-9_]{0,127})", re.MULTILINE)
_KEYWORDS: Final = frozenset({"node", "edge", "interface"})
_ALWAYS_CONSTRAINTS: Final = frozenset({"range", "check"})
_CONSTRAINTS_WITH_ARGUMENTS: Final = frozenset({"key", "unique", "index"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Header = tuple[tuple[Name, ...], tuple[Annotation, ...]]


def report_syntax_error(invalid: InvalidSyntax, problems: ProblemList) -> None:
    """Report the problem of a syntax error."""
    message = f"{invalid.declaration}unexpected {invalid.shown}"
    problems.report(SchemaCode.SYNTAX, invalid.span, message, _hint(invalid, problems.text))


def _hint(invalid: InvalidSyntax, text: str) -> str:
    position, expected = invalid.offset, invalid.expected
    line_start = text.rfind("\n", 0, position) + 1
    rest = text[position : position + 2]
    if rest.startswith('"') and "a string" in expected:
        return 'end the string with `"` on the same line'
    if rest == "/*":
        return "end the comment with `*/`"
    if rest[:1] in {"'", "‘", "“"}:
        return 'write strings in double quotes: "…"'
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "a name consists of the letters A to Z and a to z, digits and `_`"
    if rest[:1] == "#":
        return "write comments as `// …` or `/* … */`"
    if rest[:1] in {",", ";"} and "`}`" in expected:
        return "separate properties by spaces or new lines only"
    if rest[:1] == "[" and "a name" in expected:
        return "the items of a list are scalars: `[String]`"
    if text[line_start:position].strip() in _KEYWORDS and expected == ["`:`"]:
        return "is a `}` missing before this declaration?"
    return f"expected {join_alternatives(expected)}" if expected else ""


def build_tree(tree: Tree[Token], problems: ProblemList) -> tuple[Declaration, ...]:
    """Return the declarations of a parsed text, in order."""
    return _SchemaBuilder(problems).transform(tree)


def is_constraint(annotation: Annotation) -> bool:
    """Return whether an annotation in a body is a constraint of the type, not part of the property before it."""
    name, arguments = annotation.name.text, annotation.arguments
    if name == "index" and all(isinstance(argument, NamedArgument) for argument in arguments):
        return False
    return name in _ALWAYS_CONSTRAINTS or (name in _CONSTRAINTS_WITH_ARGUMENTS and bool(arguments))


def canonical(annotation: Annotation) -> Annotation:
    """Return one tree for both spellings: `@rename_from("Old")` without quotes, `@embed(title)` with quotes."""
    match annotation:
        case Annotation(Name("rename_from"), (StringLiteral(text, span),)) if _NAME.fullmatch(text):
            return Annotation(annotation.name, (WordLiteral(text, span),))
        case Annotation(Name("embed"), (WordLiteral(text, span), *rest)):
            return Annotation(annotation.name, (StringLiteral(text, span), *rest))
        case _:
            return annotation


class _SchemaBuilder(TreeBuilder[tuple[Declaration, ...]]):
    """The rules and terminals that only schemas have."""

    header_pattern = HEADER
    escape_code = SchemaCode.STRING_ESCAPE
    start = implements = tuple_rule
    property = node_rule(PropertySyntax)

    def interface(self, parts: tuple[Name, _Header, Body]) -> InterfaceSyntax:
        name, (implements, annotations), body = parts
        return InterfaceSyntax(name, annotations, implements, body)

    def node(self, parts: tuple[Name, _Header, Body]) -> NodeSyntax:
        name, (implements, annotations), body = parts
        return NodeSyntax(name, annotations, implements, body)

    def edge(self, parts: tuple[Name, Name, Name, _Header] | tuple[Name, Name, Name, _Header, Body]) -> EdgeSyntax:
        name, source, target, (implements, annotations), *bodies = parts
        body = bodies[0] if bodies else Body()
        return EdgeSyntax(name, annotations, implements, body, source=source, target=target)

    def header(self, parts: list[Annotation | tuple[Name, ...]]) -> _Header:
        implements = next((part for part in parts if isinstance(part, tuple)), ())
        return implements, tuple(part for part in parts if isinstance(part, Annotation))

    def body(self, items: list[PropertySyntax | Annotation]) -> Body:
        properties: list[tuple[PropertySyntax, list[Annotation]]] = []
        constraints: list[Annotation] = []
        misplaced: list[Annotation] = []
        follows_property = False
        for item in items:
            if isinstance(item, PropertySyntax):
                properties.append((item, []))
                follows_property = True
            elif is_constraint(item):
                constraints.append(item)
                follows_property = False
            elif follows_property:
                properties[-1][1].append(item)
            else:
                misplaced.append(item)
        return Body(
            tuple(PropertySyntax(declared.name, declared.type, tuple(own)) for declared, own in properties),
            tuple(constraints),
            tuple(misplaced),
        )

    def annotation(self, parts: list[Name | Argument]) -> Annotation:
        return canonical(super().annotation(parts))

    def time(self, parts: tuple[Token, StringLiteral]) -> TimeLiteral:
        function, text = parts
        return TimeLiteral(str(function) == "datetime", text.value, token_span(function))

    def range(self, parts: list[Token | Tree[Literal]]) -> RangeArgument:
        ends = {part.data: part for part in parts if isinstance(part, Tree)}
        dots = next(part for part in parts if isinstance(part, Token))
        low, high = (_range_end(ends.get(side)) for side in ("low", "high"))
        return RangeArgument(low, high, low.span if low else token_span(dots))

    def ENDPOINT(self, token: Token) -> WordLiteral:  # noqa: N802 - lark calls the method that is named like the terminal
        return WordLiteral(str(token)[1:], token_span(token))


def _range_end(end: Tree[Literal] | None) -> Literal | None:
    """Return the literal at one end; None if the end is open, that is absent or `*`."""
    child = end.children[0] if end and end.children else None
    return child if isinstance(child, StringLiteral | NumberLiteral | WordLiteral | TimeLiteral) else None
