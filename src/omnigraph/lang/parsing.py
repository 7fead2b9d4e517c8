"""Parsers of both languages, and what their syntax errors have in common.

In: a grammar file, or text. Out: a parser, a tree, or syntax errors. Next to each grammar is its parser as `Lark.save`
writes it: loading it takes a tenth of the time that lark needs to build it. The file starts with a fingerprint of the
grammar and of the version of lark. If the file is missing or outdated, the parser is built from the grammar, so such a
file costs time and never changes the meaning of text. Lark is imported when text is first parsed. Never writes.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.problems import Code, ProblemList, quoted
from omnigraph.lang.syntax import NO_POSITION, Span

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TOKEN: Final = re.compile(r"\$?[A-Za-z0-9_]+|\S")
_TERMINALS: Final = {
    "$END": "the end of the text",
    "ALTERNATIVES": "`(edge|edge)`",
    "ANNOTATION": "an annotation",
    "COMPARISON": "a comparison",
    "DIRECTION": "`asc` or `desc`",
    "ENDPOINT": "a word",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "TIME": "a word",
    "UNDIRECTED": "`<edge>`",
    "VARIABLE": "a variable",
    "WORD": "a word",
    "_LIST": "a list",
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidSyntax:
    """A syntax error: its position, the token there, and the alternatives that would be valid, as text.

    `declaration` is the start of a message: the declaration that contains the position.
    """

    offset: int
    span: Span
    declaration: str
    shown: str
    expected: list[str]


def require_readable(problems: ProblemList, resource: str, bytes_max: int, codes: tuple[Code, Code], hint: str) -> None:
    """Raise unless a text is small enough and valid Unicode. Call this before parsing; `hint` is for a large text."""
    too_large, not_unicode = codes
    size = len(problems.text.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        message = f"the text is too large: expected at most {bytes_max:,} bytes, got {size:,}"
        problems.report(too_large, NO_POSITION, message, hint, ResourceLimit(resource, bytes_max, "bytes", size))
    if surrogate := _SURROGATE.search(problems.text):
        message = "the text contains an unpaired surrogate, which is not a character"
        problems.report(not_unicode, Span.at(surrogate.start(), problems.text), message, "Save the file as UTF-8.")
    problems.raise_if_any()


def parse_text(
    grammar: Path, header: re.Pattern[str], report: Callable[[InvalidSyntax, ProblemList], None], problems: ProblemList
) -> Tree[Token]:
    """Return the tree of the text of `problems`, or raise all syntax errors.

    `header` matches the keyword and the name of a declaration, where parsing can continue after an error. `report` adds
    an error to `problems`.
    """
    from lark import TextSlice, UnexpectedInput

    text, start = problems.text, 0
    parser = load_parser(grammar)
    while True:
        try:
            tree = parser.parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as error:
            invalid = _invalid_syntax(error, parser, header, text)
            report(invalid, problems)
        else:
            problems.raise_if_any()
            return tree
        # The line of the error may itself be the next declaration, as after a missing `}`.
        line_start = text.rfind("\n", 0, invalid.offset) + 1
        following = header.search(text, max(start + 1, line_start))
        if following is None or problems.is_full:
            problems.raise_if_any()
            raise AssertionError("report() adds every syntax error")
        start = following.start()


def declaration_at(offset: int, header: re.Pattern[str], text: str) -> str:
    """Return the declaration that contains the offset, as the start of a message."""
    last: re.Match[str] | None = None
    for declaration in header.finditer(text, 0, offset):
        last = declaration
    return f"{last.group(1)} {last.group(2)}: " if last else ""


def join_alternatives(words: list[str]) -> str:
    """Return the words as alternatives: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _invalid_syntax(error: UnexpectedInput, parser: Lark, header: re.Pattern[str], text: str) -> InvalidSyntax:
    from lark import UnexpectedCharacters, UnexpectedToken

    offset, terminals = error.pos_in_stream or 0, set[str]()
    if isinstance(error, UnexpectedToken):
        offset = len(text.rstrip()) if error.token.type == "$END" else offset
        terminals = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        terminals = set(error.allowed or ())
    token = _TOKEN.match(text, offset)
    word = token.group() if token else ""
    shown = quoted(word) if word.isprintable() else f"character U+{ord(word[0]):04X}"
    return InvalidSyntax(
        offset=offset,
        span=Span.at(offset, text, len(word) or 1),
        declaration=declaration_at(offset, header, text),
        shown=shown if word else "end of the text",
        expected=sorted({_terminal_text(name, parser) for name in terminals - _IGNORED}),
    )


def _terminal_text(name: str, parser: Lark) -> str:
    """Return a terminal as a message shows it; the name of a keyword is the keyword."""
    if name in _TERMINALS:
        return _TERMINALS[name]
    pattern = parser.get_terminal(name).pattern
    return f"`{pattern.value}`" if pattern.type == "str" else f"`{name.strip('_').lower()}`"


def _fingerprint(grammar: Path) -> bytes:
    import lark

    return hashlib.sha256(lark.__version__.encode() + b"\n" + grammar.read_bytes()).hexdigest().encode()
