"""Tokens of either language as parts of its syntax tree: places, types and the characters of strings. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from lark import Tree
from lark.lexer import Token

from omnigraph.schema.syntax import Literal, Name, Span, TypeExpression

TypePart = Name | Tree[Token] | tuple[Literal, ...]
ESCAPES_HINT: Final = r"the escapes are \" \\ \/ \b \f \n \r \t \uXXXX; a backslash itself is written \\"
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9A-Fa-f]{4})|.)')


@dataclass(frozen=True, slots=True)
class EscapeMistake:
    """An escape that means no character, and its place between the quotes."""

    start: int
    length: int
    message: str


def token_span(token: Token) -> Span:
    """Where a token stands."""
    return Span(token.line or 1, token.column or 1, max(1, len(token)))


def type_expression(parts: list[TypePart], *, is_list: bool) -> TypeExpression:
    """A type as it is written: its name, its parameters, and marks for what may be null."""
    name = parts[0]
    assert isinstance(name, Name)
    marks = {part.data for part in parts if isinstance(part, Tree)}
    return TypeExpression(
        name,
        parameters=next((part for part in parts if isinstance(part, tuple)), None),
        is_list=is_list,
        item_nullable="item_nullable" in marks,
        nullable="nullable" in marks,
    )


def unescaped(inner: str) -> str | EscapeMistake:
    """The characters of a string, given what stands between its quotes."""
    for escape in _ESCAPE.finditer(inner):
        if escape.group(1) is None and escape.group(2) is None:
            return _mistake(escape, f"a string has the unknown escape `{escape.group()}`")
    # Tabs and other control characters are characters of the string; only the escapes are JSON's.
    value: str = json.loads(f'"{inner}"', strict=False)
    if any("\ud800" <= ch <= "\udfff" for ch in value):
        first = next(iter(_ESCAPE.finditer(inner)))
        return _mistake(first, "a string has half of a surrogate pair")
    return value


def _mistake(escape: re.Match[str], message: str) -> EscapeMistake:
    return EscapeMistake(escape.start(), escape.end() - escape.start(), message)
