"""Parsers of both languages, and the common parts of their syntax errors and literals.

In: a grammar file, or a text. Out: a parser, a tree, positions, or parts of a message. Next to each grammar is its
table, generated from it, which loads ten times as fast as lark builds the parser. A table is used only with the exact
grammar and version of lark that it was made from; otherwise the parser is built from the grammar, so an outdated table
costs time and never changes the meaning of a text. Lark is imported only when a text is parsed. Never writes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Literal, Name, Span, TypeExpression

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

_FORMAT: Final = 2
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
TypePart: TypeAlias = "Name | Tree[Token] | tuple[Literal, ...]"
ESCAPES_HINT: Final = r"use one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX; write a backslash as \\"
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9A-Fa-f]{4})|.)')
_IGNORED: Final = frozenset({"SPACE", "LINE_COMMENT", "BLOCK_COMMENT"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar: `name.lark` in a package, with its table `name.table.json` in the same directory."""

    package: str
    name: str
    has_positions: bool

    @property
    def text(self) -> str:
        return self._path(f"{self.name}.lark").read_text("utf-8")

    @property
    def table(self) -> str:
        return self._path(f"{self.name}.table.json").read_text("utf-8")

    def _path(self, name: str) -> Path:
        # Not importlib.resources, whose import alone takes longer than reading the table.
        package_file = import_module(self.package).__file__
        assert package_file is not None, "a package is a directory"
        return Path(package_file).parent / name


def load_parser(grammar: Grammar) -> Lark:
    """Return the parser of a grammar, from its table if the table is up to date."""
    table = json.loads(grammar.table)
    if table.get("made_from") != _fingerprint(grammar.text):
        return build_parser(grammar)

    from omnigraph.lang.parser_table import load_table

    return load_table(table)


def build_parser(grammar: Grammar) -> Lark:
    """Build the parser of a grammar."""
    from lark import Lark

    return Lark(
        grammar.text,
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=grammar.has_positions,
    )


def table_text(grammar: Grammar) -> str:
    """Return the text of a grammar's table: one line for each state, each rule and each terminal."""
    from omnigraph.lang.parser_table import make_table

    table = {"made_from": _fingerprint(grammar.text), **make_table(build_parser(grammar))}
    text = json.dumps(table, separators=(",", ":"))
    return text.replace("],[", "],\n[") + "\n"


def _fingerprint(text: str) -> dict[str, str | int]:
    import lark

    return {"format": _FORMAT, "lark": lark.__version__, "grammar": hashlib.sha256(text.encode()).hexdigest()}


def find_surrogate(text: str) -> Span | None:
    """Return the position of a lone surrogate, which UTF-8 cannot encode."""
    surrogate = _SURROGATE.search(text)
    return None if surrogate is None else Span.at(surrogate.start(), text)


def read_tree(
    parser: Lark, declaration: re.Pattern[str], report: Callable[[UnexpectedInput], int], problems: ProblemList
) -> Tree[Token]:
    """Return the tree of the text of `problems`, or raise all syntax errors.

    `report` adds an error to `problems` and returns its offset in the text.
    """
    from lark import UnexpectedInput
    from lark.utils import TextSlice

    text, start = problems.text, 0
    while True:
        try:
            return parser.parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as error:
            position = report(error)
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
    if any("\ud800" <= ch <= "\udfff" for ch in value):
        first = next(iter(_ESCAPE.finditer(inner)))
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
