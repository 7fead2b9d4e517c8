"""Parsers from grammars, without building them at every start.

Comes in: a grammar file of this package. Goes out: its parser. Beside each grammar stands its table, generated from it
and packaged with it, which loads in a tenth of the time that building takes. A table counts only for the very grammar
and the very version of lark that made it; otherwise the parser is built from the grammar, so that an old table
costs time and never changes what a text means. Writes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lark import Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import Token

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Literal, Name, Span, TypeExpression

if TYPE_CHECKING:
    from lark import Lark

_FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a grammar is: `name.lark` in a package, and its table `name.table.json` beside it."""

    package: str
    name: str
    has_positions: bool

    @property
    def text(self) -> str:
        return self._beside(f"{self.name}.lark").read_text("utf-8")

    @property
    def table(self) -> str:
        return self._beside(f"{self.name}.table.json").read_text("utf-8")

    def _beside(self, name: str) -> Path:
        # Not importlib.resources, whose import alone takes longer than reading the table.
        place = import_module(self.package).__file__
        assert place is not None, "a package is a directory"
        return Path(place).parent / name


def load_parser(grammar: Grammar) -> Lark:
    """The parser, from its table where that fits."""
    table = json.loads(grammar.table)
    if table.get("made_from") != _made_from(grammar.text):
        return build_parser(grammar)

    from omnigraph.lang.parser_table import parser_of

    return parser_of(table)


def build_parser(grammar: Grammar) -> Lark:
    """The parser, from the grammar."""
    from lark import Lark

    return Lark(
        grammar.text,
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=grammar.has_positions,
    )


def table_text(grammar: Grammar) -> str:
    """What the table of a grammar should say: one line for each state, each rule and each terminal."""
    from omnigraph.lang.parser_table import table_of

    table = {"made_from": _made_from(grammar.text), **table_of(build_parser(grammar))}
    text = json.dumps(table, separators=(",", ":"))
    return text.replace("],[", "],\n[") + "\n"


def _made_from(text: str) -> dict[str, str | int]:
    import lark

    return {
        "format": _FORMAT,
        "lark": lark.__version__,
        "grammar": hashlib.sha256(text.encode()).hexdigest(),
    }


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def find_surrogate(text: str) -> Span | None:
    """Where a text has a lone surrogate, which no UTF-8 file can hold."""
    found = _SURROGATE.search(text)
    return None if found is None else Span.at(found.start(), text)


def read_tree(
    parser: Lark,
    declaration: re.Pattern[str],
    report: Callable[[UnexpectedInput], int],
    problems: ProblemList,
) -> Tree[Token]:
    """The first tree of the text of `problems`. `report` adds a mistake to them and says at which offset it is."""
    from lark import UnexpectedInput
    from lark.utils import TextSlice

    text, start = problems.text, 0
    while True:
        try:
            return parser.parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as error:
            position = report(error)
        # The line of the mistake may itself be the next declaration: that is how a missing `}` shows.
        line_start = text.rfind("\n", 0, position) + 1
        following = declaration.search(text, max(start + 1, line_start))
        if following is None or problems.is_full:
            problems.raise_if_any()
            raise AssertionError("a syntax error was found and not reported")
        start = following.start()


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


_IGNORED: Final = frozenset({"SPACE", "LINE_COMMENT", "BLOCK_COMMENT"})


def position_of(error: UnexpectedInput, text: str) -> int:
    """Where the text stops making sense."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text.rstrip())
    return error.pos_in_stream or 0


def span_of(token: re.Match[str] | None, position: int, text: str) -> Span:
    """The place of what was found; a single character at the end of the text."""
    return Span.at(position, text, token.end() - token.start() if token else 1)


def found_text(token: re.Match[str] | None) -> str:
    """What was found."""
    if token is None:
        return "end of the text"
    word = token.group()
    return quoted(word) if word.isprintable() else f"character U+{ord(word[0]):04X}"


def expected_terminals(error: UnexpectedInput) -> frozenset[str]:
    """The names of what could have stood there."""
    if isinstance(error, UnexpectedToken):
        return frozenset(error.accepts or error.expected) - _IGNORED
    if isinstance(error, UnexpectedCharacters):
        return frozenset(error.allowed or ()) - _IGNORED
    return frozenset()


def either(words: list[str]) -> str:
    """The words as alternatives."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
