"""Turns the parser's complaint into a problem a person can act on.

Comes in: an error of the parser and the text. Goes out: one S001 that names the declaration it is in, what was found,
what would have been possible, and, where the mistake is a usual one, what to do. Never raises.
"""

from __future__ import annotations

import re
from typing import Final

from lark import UnexpectedInput

from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList
from omnigraph.schema.unexpected import either, expected_terminals, found_text, position_of, span_of

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


def report_syntax_error(error: UnexpectedInput, text: str, problems: ProblemList) -> int:
    """Add the problem and return the offset in the text where it is."""
    position = position_of(error, text)
    token = _TOKEN.match(text, position)
    message = f"{declaration_at(position, text)}unexpected {found_text(token)}"
    hint = _hint(error, position, text)
    problems.add(SchemaCode.SYNTAX, span_of(token, position, text), message, hint)
    return position


def declaration_at(position: int, text: str) -> str:
    """The declaration that the place belongs to, as a prefix of the sentence."""
    last: re.Match[str] | None = None
    for header in _HEADER.finditer(text, 0, position):
        last = header
    return f"{last.group(1)} {last.group(2)}: " if last else ""


def _hint(error: UnexpectedInput, position: int, text: str) -> str:
    line_start = text.rfind("\n", 0, position) + 1
    rest = text[position : position + 2]
    expected = sorted({_WORDS.get(name, name) for name in expected_terminals(error)})
    if rest.startswith('"') and "a string" in expected:
        return 'a string ends with `"` on the line where it starts'
    if rest == "/*":
        return "this comment has no `*/`"
    if rest[:1] in {"'", "‘", "“"}:
        return 'strings stand in double quotes: "…"'
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "names have the letters A to Z and a to z, digits and `_`"
    if rest[:1] in {",", ";"} and "`}`" in expected:
        return "properties are separated by space only"
    if rest[:1] == "[" and "a name" in expected:
        return "a list has scalar items: `[String]`"
    if text[line_start:position].strip() in _KEYWORDS and expected == ["`:`"]:
        return "is a `}` missing before this declaration?"
    return f"expected {either(expected)}" if expected else ""
