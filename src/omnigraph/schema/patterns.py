r"""The dialect of `@check`: regular expressions that are safe on any input and mean the same to every engine.

A value passes when the *whole* of it matches. The dialect is what Python's `re` and RE2 both understand: literals, `.`,
classes, groups `(…)` and `(?:…)`, `|`, `^ $`, `* + ?` and their lazy forms, `{n}`, `{n,}`, `{n,m}`, and the escapes
`\d \D \w \W \s \S \b \B \t \n \r \f \v` (ASCII). Back-references, look-around, inline flags and possessive
repeats are refused, because RE2 matches in linear time only without them. Sizes are bounded, so that a pattern that
passes here also fits RE2's memory.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import quoted

_PIECE: Final = re.compile(
    r"(?P<escape>\\.)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?:)?)"
    r"|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{[0-9]+(?:,[0-9]*)?\})(?P<lazy>\??)"
    r"|(?P<any>\.)"
    r"|(?P<plain>[^\\(){}*+?.])",
    re.DOTALL,
)
_ESCAPES: Final = frozenset("dDwWsStnrfv")
_BOUNDARIES: Final = frozenset("bB")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_SET_SIZE: Final = 10


def pattern_mistake(pattern: str) -> str | None:
    """Why a pattern is refused, or None when it is fine."""
    if len(pattern) > limits.CHECK_PATTERN_LENGTH_MAX:
        return f"it has more than {limits.CHECK_PATTERN_LENGTH_MAX} characters"
    if not pattern:
        return "it is empty and would allow only the empty string"
    return _dialect_mistake(pattern) or _compile_mistake(pattern)


def matches_whole(pattern: str, text: str) -> bool:
    """Whether a text passes an accepted pattern. For single values; columns are checked by Arrow's RE2."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


@dataclass(frozen=True, slots=True)
class _Extent:
    """How large a part of a pattern gets, and how often at most a character of it is copied."""

    size: int = 0
    copies: int = 1

    def and_then(self, other: _Extent) -> _Extent:
        return _Extent(self.size + other.size, max(self.copies, other.copies))

    def times(self, count: int) -> _Extent:
        return _Extent(self.size * count, self.copies * count)


@dataclass(slots=True)
class _Size:
    """What a pattern grows to when its counted repeats are written out, as RE2 does."""

    groups: list[_Extent] = field(default_factory=lambda: [_Extent()])
    last: _Extent = _Extent()

    def atom(self, extent: _Extent) -> None:
        self._settle()
        self.last = extent

    def repeat(self, count: int) -> None:
        self.last = self.last.times(count)

    def open(self) -> None:
        self._settle()
        self.groups.append(_Extent(1))

    def close(self) -> None:
        self._settle()
        self.last = self.groups.pop()

    def whole(self) -> _Extent:
        self._settle()
        return self.groups[0]

    def _settle(self) -> None:
        self.groups[-1] = self.groups[-1].and_then(self.last)
        self.last = _Extent()


def _dialect_mistake(pattern: str) -> str | None:
    size = _Size()
    position = 0
    while position < len(pattern):
        piece = _PIECE.match(pattern, position)
        if piece is None:
            return f"{quoted(pattern[position : position + 3])} is not part of the dialect"
        mistake = _piece_mistake(piece, size)
        if mistake:
            return mistake
        position = piece.end()
    if len(size.groups) > 1:
        return "it has a `(` without `)`"
    whole = size.whole()
    if whole.size > limits.CHECK_PATTERN_SIZE_MAX or whole.copies > limits.CHECK_PATTERN_REPEAT_MAX:
        return "its repeats multiply to too large a pattern"
    return None


def _piece_mistake(piece: re.Match[str], size: _Size) -> str | None:
    match piece.lastgroup:
        case "escape":
            letter = piece.group()[1]
            size.atom(_Extent(_SET_SIZE))
            if letter not in _ESCAPES | _BOUNDARIES | _PUNCTUATION:
                return f"the escape {quoted(piece.group())} is not part of the dialect"
        case "set":
            size.atom(_Extent(_SET_SIZE))
            return _set_mistake(piece.group())
        case "open":
            size.open()
            if piece.group() == "(" and piece.string[piece.end() : piece.end() + 1] == "?":
                return f"{quoted(piece.string[piece.start() : piece.start() + 4])} is not part of the dialect"
            if len(size.groups) > limits.CHECK_PATTERN_DEPTH_MAX:
                return f"its groups are nested deeper than {limits.CHECK_PATTERN_DEPTH_MAX}"
        case "close":
            if len(size.groups) == 1:
                return "it has a `)` without `(`"
            size.close()
        case "repeat" | "lazy":
            return _repeat_mistake(piece, size)
        case _:
            size.atom(_Extent(_SET_SIZE if piece.group() == "." else 1))
    return None


def _set_mistake(text: str) -> str | None:
    for escape in re.finditer(r"\\(.)", text, re.DOTALL):
        if escape.group(1) not in _ESCAPES | _PUNCTUATION:
            return f"the escape {quoted(escape.group())} is not part of the dialect inside `[…]`"
    return "`[` inside `[…]` must be written `\\[`" if "[" in re.sub(r"\\.", "", text)[1:] else None


def _repeat_mistake(piece: re.Match[str], size: _Size) -> str | None:
    repeat = piece.group("repeat")
    following = piece.string[piece.end() : piece.end() + 1]
    if following in {"*", "+", "?"} or (following == "{" and piece.string[piece.end() + 1 :][:1].isdigit()):
        return f"{quoted(piece.group() + following)}: a repeat cannot be repeated"
    if repeat.startswith("{"):
        counts = [int(count[:9]) for count in repeat[1:-1].split(",") if count]
        if max(counts) > limits.CHECK_PATTERN_REPEAT_MAX:
            return f"{quoted(repeat)} repeats more than {limits.CHECK_PATTERN_REPEAT_MAX} times"
        size.repeat(max(1, *counts, 1))
    return None


def _compile_mistake(pattern: str) -> str | None:
    """What Python's compiler says; its warnings are about text that other engines read differently."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern, re.ASCII)
    except (re.error, Warning) as error:
        return f"it does not compile: {error}"
    return None
