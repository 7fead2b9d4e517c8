"""Parsers of both languages, and the common parts of their syntax errors and literals.

In: a grammar file, or a text. Out: a parser, a tree, positions, or parts of a message. Next to each grammar is its
parser as `Lark.save` writes it, which loads ten times as fast as lark builds it. The file starts with a fingerprint of
the grammar and the version of lark; if they differ, the parser is built from the grammar, so an outdated file costs
time and never changes the meaning of a text. Lark is imported only when a text is parsed. Never writes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Literal, Name, Span, TypeExpression

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
TypePart: TypeAlias = "Name | Tree[Token] | tuple[Literal, ...]"
ESCAPES_HINT: Final = r"use one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX; write a backslash as \\"
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9A-Fa-f]{4})|.)')
_IGNORED: Final = frozenset({"SPACE", "LINE_COMMENT", "BLOCK_COMMENT"})


@cache
def load_parser(grammar: Path) -> Lark:
    """Return the parser of a grammar, from its saved parser if that is up to date."""
    from lark import Lark

    fingerprint, _, saved = saved_parser_path(grammar).read_bytes().partition(b"\n")
    return Lark.load(io.BytesIO(saved)) if fingerprint == _fingerprint(grammar) else build_parser(grammar)


def build_parser(grammar: Path) -> Lark:
    """Build the parser of a grammar."""
    from lark import Lark

    return Lark(
        grammar.read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=True,
    )


def save_parser(grammar: Path) -> bytes:
    """Return the content of the file that `load_parser` reads."""
    buffer = io.BytesIO()
    build_parser(grammar).save(buffer)
    return _fingerprint(grammar) + b"\n" + buffer.getvalue()


def saved_parser_path(grammar: Path) -> Path:
    """Return the path of the saved parser of a grammar."""
    return grammar.with_suffix(".parser")


def _fingerprint(grammar: Path) -> bytes:
    import lark

    return hashlib.sha256(lark.__version__.encode() + b"\n" + grammar.read_bytes()).hexdigest().encode()


def find_surrogate(text: str) -> Span | None:
    """Return the position of a lone surrogate, which UTF-8 cannot encode."""
    surrogate = _SURROGATE.search(text)
    return None if surrogate is None else Span.at(surrogate.start(), text)


def read_tree(
    grammar: Path,
    declaration: re.Pattern[str],
    report: Callable[[UnexpectedInput, ProblemList], int],
    problems: ProblemList,
) -> Tree[Token]:
    """Return the tree of the text of `problems`, or raise all syntax errors.

    `declaration` matches where parsing can continue after an error. `report` adds an error to `problems` and returns
    its offset in the text.
    """
    from lark import TextSlice, UnexpectedInput

    text, start = problems.text, 0
    while True:
        try:
            tree = load_parser(grammar).parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as error:
            position = report(error, problems)
        else:
            problems.raise_if_any()
            return tree
        # The line of the error may itself be the next declaration, as after a missing `}`.
        line_start = text.rfind("\n", 0, position) + 1
        following = declaration.search(text, max(start + 1, line_start))
        if following is None or problems.is_full:
            problems.raise_if_any()
            raise AssertionError("report() adds every syntax error")
        start = following.start()


@dataclass(frozen=True, slots=True)
class InvalidEscape:
    """An invalid escape, and its position between the quotes."""

    start: int
    length: int
    message: str


def token_span(token: Token) -> Span:
    """Return the position of a token."""
    return Span(token.line or 1, token.column or 1, max(1, len(token)))


def type_expression(parts: list[TypePart], *, is_list: bool) -> TypeExpression:
    """Return a type expression from its parsed parts: name, parameters, and marks of nullable parts."""
    from lark import Tree

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


def unescape(inner: str) -> str | InvalidEscape:
    """Return the characters of a string from the text between its quotes, or its first invalid escape."""
    for escape in _ESCAPE.finditer(inner):
        if escape.group(1) is None and escape.group(2) is None:
            return _invalid_escape(escape, f"a string contains the unknown escape `{escape.group()}`")
    # Control characters such as tabs are allowed, unlike in JSON; only the escapes are those of JSON.
    value: str = json.loads(f'"{inner}"', strict=False)
    first = _ESCAPE.search(inner)
    if first and _SURROGATE.search(value):
        return _invalid_escape(first, "a string contains half of a surrogate pair")
    return value


def _invalid_escape(escape: re.Match[str], message: str) -> InvalidEscape:
    return InvalidEscape(escape.start(), escape.end() - escape.start(), message)


def error_offset(error: UnexpectedInput, text: str) -> int:
    """Return the offset of a syntax error."""
    from lark import UnexpectedToken

    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text.rstrip())
    return error.pos_in_stream or 0


def token_position(token: re.Match[str] | None, position: int, text: str) -> Span:
    """Return the position of an unexpected token; one character wide at the end of the text."""
    return Span.at(position, text, token.end() - token.start() if token else 1)


def unexpected_text(token: re.Match[str] | None) -> str:
    """Return an unexpected token as part of a message."""
    if token is None:
        return "end of the text"
    word = token.group()
    return quoted(word) if word.isprintable() else f"character U+{ord(word[0]):04X}"


def expected_terminals(error: UnexpectedInput) -> frozenset[str]:
    """Return the names of the terminals that would be valid at the error."""
    from lark import UnexpectedCharacters, UnexpectedToken

    if isinstance(error, UnexpectedToken):
        return frozenset(error.accepts or error.expected) - _IGNORED
    if isinstance(error, UnexpectedCharacters):
        return frozenset(error.allowed or ()) - _IGNORED
    return frozenset()


def join_alternatives(words: list[str]) -> str:
    """Return the words as alternatives: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
