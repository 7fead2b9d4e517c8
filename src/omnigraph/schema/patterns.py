r"""The dialect of `@check`: regular expressions that are safe on any input and have one meaning in every engine.

A value passes if it matches *as a whole*. The dialect is the common part of Python's `re` and RE2: literals, `.`,
classes, groups `(…)` and `(?:…)`, `|`, `^ $`, `* + ?` and their lazy forms, `{n}`, `{n,}`, `{n,m}`, and the escapes
`\d \D \w \W \s \S \b \B \t \n \r \f \v` (ASCII). Back-references, look-around, inline flags and possessive
repeats are rejected, because RE2 does not support them. Sizes are limited, so an accepted pattern also fits RE2's
memory.
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


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern is rejected, or None if it is valid."""
    if len(pattern) > limits.CHECK_PATTERN_LENGTH_MAX:
        return f"expected at most {limits.CHECK_PATTERN_LENGTH_MAX} characters, got {len(pattern)}"
    if not pattern:
        return "it is empty and matches only the empty string"
    return _dialect_problem(pattern) or _compile_problem(pattern)


def matches_whole(pattern: str, text: str) -> bool:
    """Return whether a string passes a valid pattern. For single values; Arrow's RE2 checks columns."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


@dataclass(frozen=True, slots=True)
class _Extent:
    """The size of a part of a pattern, and the maximum number of copies of one of its characters."""

    size: int = 0
    copies: int = 1

    def and_then(self, other: _Extent) -> _Extent:
        return _Extent(self.size + other.size, max(self.copies, other.copies))

    def times(self, count: int) -> _Extent:
        return _Extent(self.size * count, self.copies * count)


@dataclass(slots=True)
class _Size:
    """The size of a pattern after its counted repeats are expanded, as RE2 does."""

    groups: list[_Extent] = field(default_factory=lambda: [_Extent()])
    last: _Extent = _Extent()

    def atom(self, extent: _Extent) -> None:
        self._flush()
        self.last = extent

    def repeat(self, count: int) -> None:
        self.last = self.last.times(count)

    def open(self) -> None:
        self._flush()
        self.groups.append(_Extent(1))

    def close(self) -> None:
        self._flush()
        self.last = self.groups.pop()

    def whole(self) -> _Extent:
        self._flush()
        return self.groups[0]

    def _flush(self) -> None:
        self.groups[-1] = self.groups[-1].and_then(self.last)
        self.last = _Extent()


def _dialect_problem(pattern: str) -> str | None:
    size = _Size()
    position = 0
    while position < len(pattern):
        piece = _PIECE.match(pattern, position)
        if piece is None:
            return f"{quoted(pattern[position : position + 3])} is not part of the dialect"
        problem = _piece_problem(piece, size)
        if problem:
            return problem
        position = piece.end()
    if len(size.groups) > 1:
        return "a `(` has no `)`"
    whole = size.whole()
    if whole.size > limits.CHECK_PATTERN_SIZE_MAX or whole.copies > limits.CHECK_PATTERN_REPEAT_MAX:
        return "it is too large when its repeats are expanded"
    return None


def _piece_problem(piece: re.Match[str], size: _Size) -> str | None:
    match piece.lastgroup:
        case "escape":
            letter = piece.group()[1]
            size.atom(_Extent(_SET_SIZE))
            if letter not in _ESCAPES | _BOUNDARIES | _PUNCTUATION:
                return f"the escape {quoted(piece.group())} is not part of the dialect"
        case "set":
            size.atom(_Extent(_SET_SIZE))
            return _set_problem(piece.group())
        case "open":
            size.open()
            if piece.group() == "(" and piece.string[piece.end() : piece.end() + 1] == "?":
                return f"{quoted(piece.string[piece.start() : piece.start() + 4])} is not part of the dialect"
            if len(size.groups) > limits.CHECK_PATTERN_DEPTH_MAX:
                return f"its groups are nested more than {limits.CHECK_PATTERN_DEPTH_MAX} deep"
        case "close":
            if len(size.groups) == 1:
                return "a `)` has no `(`"
            size.close()
        case "repeat" | "lazy":
            return _repeat_problem(piece, size)
        case _:
            size.atom(_Extent(_SET_SIZE if piece.group() == "." else 1))
    return None


def _set_problem(text: str) -> str | None:
    for escape in re.finditer(r"\\(.)", text, re.DOTALL):
        if escape.group(1) not in _ESCAPES | _PUNCTUATION:
            return f"the escape {quoted(escape.group())} is not part of the dialect inside `[…]`"
    return "`[` inside `[…]` must be escaped: `\\[`" if "[" in re.sub(r"\\.", "", text)[1:] else None


def _repeat_problem(piece: re.Match[str], size: _Size) -> str | None:
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


def _compile_problem(pattern: str) -> str | None:
    """Return the error of Python's compiler. Its warnings count too: other engines read such patterns differently."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern, re.ASCII)
    except (re.error, Warning) as error:
        return f"it does not compile: {error}"
    return None
