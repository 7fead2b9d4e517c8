"""Parsers of both languages, and the common parts of their syntax errors and literals.

In: a grammar file, or text. Out: a parser, a tree, positions, or parts of a message. Next to each grammar is its parser
as `Lark.save` writes it: loading it takes a tenth of the time that lark needs to build it. The file starts with a
fingerprint of the grammar and of the version of lark. If the file is missing or outdated, the parser is built from the
grammar, so such a file costs time and never changes the meaning of text. Lark is imported when text is first parsed.
Never writes.
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
ESCAPES_HINT: Final = r"Use one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX. Write a backslash as \\."
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9A-Fa-f]{4})|.)')
_IGNORED: Final = frozenset({"SPACE", "LINE_COMMENT", "BLOCK_COMMENT"})


@cache
def load_parser(grammar: Path) -> Lark:
    """Return the parser of a grammar, from its saved parser if that is up to date."""
    from lark import Lark

    try:
        content = saved_parser_path(grammar).read_bytes()
    except FileNotFoundError:
        return build_parser(grammar)
    fingerprint, _, saved = content.partition(b"\n")
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


def make_saved_parser(grammar: Path) -> bytes:
    """Return the content of the file that `load_parser` reads."""
    buffer = io.BytesIO()
    build_parser(grammar).save(buffer)
    return _fingerprint(grammar) + b"\n" + buffer.getvalue()


def saved_parser_path(grammar: Path) -> Path:
    """Return the path of the saved parser of a grammar."""
    return grammar.with_suffix(".parser")


def find_surrogate(text: str) -> Span | None:
    """Return the position of an unpaired surrogate, which UTF-8 cannot encode."""
    surrogate = _SURROGATE.search(text)
    return None if surrogate is None else Span.at(surrogate.start(), text)


def parse_text(
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

    def span_in(self, string: Span) -> Span:
        """Return the position of the escape in the text, from the position of its string."""
        return Span(string.line, string.column + 1 + self.start, self.length)


def lark_token_span(token: Token) -> Span:
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
            return _invalid_escape(escape, f"unknown escape `{escape.group()}` in a string")
    # Control characters such as tabs are allowed, unlike in JSON; only the escapes are those of JSON.
    value: str = json.loads(f'"{inner}"', strict=False)
    unpaired = _find_unpaired_surrogate(inner)
    return value if unpaired is None else _invalid_escape(unpaired, f"unpaired surrogate escape `{unpaired.group()}`")


def _find_unpaired_surrogate(inner: str) -> re.Match[str] | None:
    """Return the first escape of a surrogate that is not the high or low part of a pair."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(inner):
        code = int(escape.group(2) or "0", base=16)
        is_low = 0xDC00 <= code <= 0xDFFF
        if high is not None and not (is_low and escape.start() == high.end()):
            return high
        if is_low and high is None:
            return escape
        high = escape if 0xD800 <= code <= 0xDBFF else None
    return high


def _invalid_escape(escape: re.Match[str], message: str) -> InvalidEscape:
    return InvalidEscape(escape.start(), escape.end() - escape.start(), message)


def error_offset(error: UnexpectedInput, text: str) -> int:
    """Return the offset of a syntax error."""
    from lark import UnexpectedToken

    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text.rstrip())
    return error.pos_in_stream or 0


def unexpected_token_span(token: re.Match[str] | None, position: int, text: str) -> Span:
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


def _fingerprint(grammar: Path) -> bytes:
    import lark

    return hashlib.sha256(lark.__version__.encode() + b"\n" + grammar.read_bytes()).hexdigest().encode()
