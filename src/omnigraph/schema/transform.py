"""The parser's tree → the syntax tree, and the messages for syntax errors.

In: a tree of the grammar, or an error of the parser. Out: declarations, with the annotations of a body sorted into
those of a property, constraints of the type and misplaced ones; or a problem. Reports only syntax and escapes.

A body has no separators, so the position does not distinguish `weight: F64 @index(since)` from `since: Date @index`.
The rule: `@key`, `@unique` and `@index` with arguments, and `@range` and `@check` always, are constraints; any other
annotation belongs to the property before it. The endpoints `@src` and `@dst` become the words `src` and `dst`.
"""

from __future__ import annotations

import re
from typing import Final

from lark import Transformer, Tree, UnexpectedInput
from lark.lexer import Token

from omnigraph.lang.parsing import (
    ESCAPES_HINT,
    TypePart,
    error_offset,
    expected_terminals,
    join_alternatives,
    lark_token_span,
    type_expression,
    unescape,
    unexpected_text,
    unexpected_token_span,
)
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
    TypeExpression,
    WordLiteral,
)
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Body, Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax, PropertySyntax

_WORDS: Final = {
    "$END": "the end of the text",
    "ANNOTATION": "an annotation",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOTS": "`..`",
    "ENDPOINT": "a word",
    "EQUAL": "`=`",
    "LBRACE": "`{`",
    "LPAR": "`(`",
    "LSQB": "a list",
    "NAME": "a name",
    "NUMBER": "a number",
    "QMARK": "`?`",
    "RBRACE": "`}`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "STAR": "`*`",
    "STRING": "a string",
    "TIME": "a word",
    "WORD": "a word",
    "_ARROW": "`->`",
    "_EDGE": "`edge`",
    "_IMPLEMENTS": "`implements`",
    "_INTERFACE": "`interface`",
    "_NODE": "`node`",
}
_KEYWORDS: Final = frozenset({"node", "edge", "interface"})
_HEADER: Final = re.compile(r"^[ \t]*(node|edge|interface)[ \t]+([A-Za-z_][A-Za-z0-9_]{0,127})", re.MULTILINE)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_]+|\S")
_ALWAYS_CONSTRAINTS: Final = frozenset({"range", "check"})
_CONSTRAINTS_WITH_ARGUMENTS: Final = frozenset({"key", "unique", "index"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Header = tuple[tuple[Name, ...], tuple[Annotation, ...]]


def report_syntax_error(error: UnexpectedInput, problems: ProblemList) -> int:
    """Report the problem of a syntax error and return its offset in the text."""
    text = problems.text
    position = error_offset(error, text)
    token = _TOKEN.match(text, position)
    message = f"{declaration_at(position, text)}unexpected {unexpected_text(token)}"
    hint = _hint(error, position, text)
    problems.report(SchemaCode.SYNTAX, unexpected_token_span(token, position, text), message, hint)
    return position


def declaration_at(position: int, text: str) -> str:
    """Return the declaration that contains the position, as a prefix of a message."""
    last: re.Match[str] | None = None
    for header in _HEADER.finditer(text, 0, position):
        last = header
    return f"{last.group(1)} {last.group(2)}: " if last else ""


def _hint(error: UnexpectedInput, position: int, text: str) -> str:
    line_start = text.rfind("\n", 0, position) + 1
    rest = text[position : position + 2]
    expected = sorted({_WORDS.get(name, name) for name in expected_terminals(error)})
    if rest.startswith('"') and "a string" in expected:
        return 'end the string with `"` on the same line'
    if rest == "/*":
        return "end the comment with `*/`"
    if rest[:1] in {"'", "‘", "“"}:
        return 'write strings in double quotes: "…"'
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "a name consists of the letters A to Z and a to z, digits and `_`"
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
    name = annotation.name.text
    return name in _ALWAYS_CONSTRAINTS or (name in _CONSTRAINTS_WITH_ARGUMENTS and bool(annotation.arguments))


def canonical(annotation: Annotation) -> Annotation:
    """Return one tree for both spellings: `@rename_from("Old")` without quotes, `@embed(title)` with quotes."""
    match annotation:
        case Annotation(Name("rename_from"), (StringLiteral(text, span),)) if _NAME.fullmatch(text):
            return Annotation(annotation.name, (WordLiteral(text, span),))
        case Annotation(Name("embed"), (WordLiteral(text, span), *rest)):
            return Annotation(annotation.name, (StringLiteral(text, span), *rest))
        case _:
            return annotation


class _SchemaBuilder(Transformer[Token, tuple[Declaration, ...]]):
    """One method per rule of the grammar and per terminal that has a meaning."""

    def __init__(self, problems: ProblemList) -> None:
        super().__init__()
        self._problems = problems

    def start(self, declarations: list[Declaration]) -> tuple[Declaration, ...]:
        return tuple(declarations)

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

    def implements(self, names: list[Name]) -> tuple[Name, ...]:
        return tuple(names)

    def body(self, items: list[PropertySyntax | Annotation]) -> Body:
        return _sort_body(items)

    def property(self, parts: tuple[Name, TypeExpression]) -> PropertySyntax:
        return PropertySyntax(*parts)

    def plain_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=False)

    def list_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=True)

    def parameters(self, literals: list[Literal]) -> tuple[Literal, ...]:
        return tuple(literals)

    def annotation(self, parts: list[Name | Argument]) -> Annotation:
        name, *arguments = parts
        assert isinstance(name, Name)
        return canonical(Annotation(name, tuple(part for part in arguments if not isinstance(part, Name))))

    def time(self, parts: tuple[Token, StringLiteral]) -> TimeLiteral:
        function, text = parts
        return TimeLiteral(str(function) == "datetime", text.value, lark_token_span(function))

    def named(self, parts: tuple[WordLiteral, Literal]) -> NamedArgument:
        word, value = parts
        return NamedArgument(Name(word.text, word.span), value)

    def range(self, parts: list[Token | Tree[Literal]]) -> RangeArgument:
        ends = {part.data: part for part in parts if isinstance(part, Tree)}
        dots = next(part for part in parts if isinstance(part, Token))
        low, high = (_range_end(ends.get(side)) for side in ("low", "high"))
        return RangeArgument(low, high, low.span if low else lark_token_span(dots))

    def NAME(self, token: Token) -> Name:  # noqa: N802 - lark calls the method that is named like the terminal
        return Name(str(token), lark_token_span(token))

    def ANNOTATION(self, token: Token) -> Name:  # noqa: N802
        return Name(str(token)[1:], lark_token_span(token))

    def NUMBER(self, token: Token) -> NumberLiteral:  # noqa: N802
        return NumberLiteral(str(token), lark_token_span(token))

    def WORD(self, token: Token) -> WordLiteral:  # noqa: N802
        return WordLiteral(str(token), lark_token_span(token))

    def ENDPOINT(self, token: Token) -> WordLiteral:  # noqa: N802
        return WordLiteral(str(token)[1:], lark_token_span(token))

    def STRING(self, token: Token) -> StringLiteral:  # noqa: N802
        return StringLiteral(self._unescape(token), lark_token_span(token))

    def _unescape(self, token: Token) -> str:
        """Return the characters of a string; report an unknown escape and leave it unchanged."""
        inner = str(token)[1:-1]
        value = unescape(inner)
        if isinstance(value, str):
            return value
        span = value.span_in(lark_token_span(token))
        where = declaration_at(token.start_pos or 0, self._problems.text)
        self._problems.report(SchemaCode.STRING_ESCAPE, span, where + value.message, ESCAPES_HINT)
        return inner


def _sort_body(items: list[PropertySyntax | Annotation]) -> Body:
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


def _range_end(end: Tree[Literal] | None) -> Literal | None:
    """Return the literal at one end; None if the end is open, that is absent or `*`."""
    child = end.children[0] if end and end.children else None
    return child if isinstance(child, StringLiteral | NumberLiteral | WordLiteral | TimeLiteral) else None
