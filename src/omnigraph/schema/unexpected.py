"""What the parser of either language found in a text, where, and what it would have taken instead.

Comes in: an error of the parser and the text. Goes out: a place, words for a person and names of terminals. What they
mean in a language, its `syntax_errors` says. Never raises.
"""

from __future__ import annotations

import re
from typing import Final

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from omnigraph.schema.problems import quoted
from omnigraph.schema.syntax import Span

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
