"""The rules and terminals that both grammars have, and the escapes of strings.

In: a tree of lark. Out: nodes of `lang.syntax`; the builder of each language adds its own rules. Reports only invalid
escapes. Imported late, because it needs lark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from lark import Token, Transformer, Tree

from omnigraph.lang import syntax
from omnigraph.lang.parsing import declaration_at
from omnigraph.lang.problems import Code, ProblemList

Root = TypeVar("Root")

_ESCAPES_HINT: Final = r"Use one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX. Write a backslash as \\."
# The escapes of JSON: a letter, a pair of surrogates, another character by its number; then the invalid ones.
_ESCAPE: Final = re.compile(
    r'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4}'
    r"|(?P<unpaired>u[0-9A-Fa-f]{4})|(?P<unknown>.))"
)


def token_span(token: Token) -> syntax.Span:
    """Return the position of a token."""
    return syntax.Span(token.line or 1, token.column or 1, max(1, len(token)))


@dataclass(frozen=True, slots=True)
class InvalidEscape:
    """An invalid escape, and its position between the quotes."""

    start: int
    length: int
    message: str


def unescape(inner: str) -> str | InvalidEscape:
    """Return the characters of a string from the text between its quotes, or its first invalid escape."""
    for escape in _ESCAPE.finditer(inner):
        if escape["unknown"] or escape["unpaired"]:
            shown = f"`{escape.group()}`"
            message = (
                f"unknown escape {shown} in a string" if escape["unknown"] else f"unpaired surrogate escape {shown}"
            )
            return InvalidEscape(escape.start(), escape.end() - escape.start(), message)
    # Control characters such as tabs are allowed, unlike in JSON; only the escapes are those of JSON.
    value: str = json.loads(f'"{inner}"', strict=False)
    return value


def node_rule(kind: Callable[..., Any]) -> Callable[[Transformer[Token, Any], list[Any]], Any]:
    """Return the method of a rule whose parts are the arguments of a node, in order."""
    return lambda _, parts: kind(*parts)


def tuple_rule(_: Transformer[Token, Any], parts: list[Any]) -> tuple[Any, ...]:
    """Build the result of a rule whose parts are items of one kind."""
    return tuple(parts)


class TreeBuilder(Transformer[Token, Root]):
    """One method per rule of a grammar, and per terminal that has a meaning."""

    header_pattern: ClassVar[re.Pattern[str]]
    """Matches the keyword and the name of a declaration."""
    escape_code: ClassVar[Code]
    """The code of an invalid escape."""

    parameters = tuple_rule

    def __init__(self, problems: ProblemList) -> None:
        super().__init__()
        self._problems = problems

    def report(self, code: Code, token: Token, message: str, hint: str = "", span: syntax.Span | None = None) -> None:
        """Report a problem of a token; the message starts with its declaration."""
        where = declaration_at(token.start_pos or 0, self.header_pattern, self._problems.text)
        self._problems.report(code, span or token_span(token), where + message, hint)

    def check_token(self, token: Token) -> None:
        """Report a problem of a name, number or string, if the language has limits for them."""

    def plain_type(self, parts: list[Any]) -> syntax.TypeExpression:
        return _type_expression(parts, is_list=False)

    def list_type(self, parts: list[Any]) -> syntax.TypeExpression:
        return _type_expression(parts, is_list=True)

    def annotation(self, parts: list[syntax.Name | syntax.Argument]) -> syntax.Annotation:
        name, *arguments = parts
        assert isinstance(name, syntax.Name)
        return syntax.Annotation(name, tuple(part for part in arguments if not isinstance(part, syntax.Name)))

    def named(self, parts: tuple[syntax.WordLiteral, syntax.Literal]) -> syntax.NamedArgument:
        word, value = parts
        return syntax.NamedArgument(syntax.Name(word.text, word.span), value)

    def NAME(self, token: Token) -> syntax.Name:  # noqa: N802 - lark calls the method that is named like the terminal
        self.check_token(token)
        return syntax.Name(str(token), token_span(token))

    def ANNOTATION(self, token: Token) -> syntax.Name:  # noqa: N802
        self.check_token(token)
        return syntax.Name(str(token)[1:], token_span(token))

    def WORD(self, token: Token) -> syntax.WordLiteral:  # noqa: N802
        return syntax.WordLiteral(str(token), token_span(token))

    def NUMBER(self, token: Token) -> syntax.NumberLiteral:  # noqa: N802
        self.check_token(token)
        return syntax.NumberLiteral(str(token), token_span(token))

    def STRING(self, token: Token) -> syntax.StringLiteral:  # noqa: N802
        """Return the string; report an invalid escape and leave all escapes unchanged."""
        self.check_token(token)
        span, inner = token_span(token), str(token)[1:-1]
        value = unescape(inner)
        if isinstance(value, InvalidEscape):
            escape_span = syntax.Span(span.line, span.column + 1 + value.start, value.length)
            self.report(self.escape_code, token, value.message, _ESCAPES_HINT, escape_span)
            return syntax.StringLiteral(inner, span)
        return syntax.StringLiteral(value, span)


def _type_expression(parts: list[Any], *, is_list: bool) -> syntax.TypeExpression:
    """Return a type expression from its parsed parts: name, parameters, and marks of nullable parts."""
    marks = {part.data for part in parts if isinstance(part, Tree)}
    return syntax.TypeExpression(
        parts[0],
        parameters=next((part for part in parts if isinstance(part, tuple)), None),
        is_list=is_list,
        item_nullable="item_nullable" in marks,
        nullable="nullable" in marks,
    )
