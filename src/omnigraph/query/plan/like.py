"""The patterns of `like`: literal text, `%` for any characters and `_` for exactly one character.

A backslash makes the next character literal; at the end of a pattern it is a literal backslash. A character is a code
point, also a line break.
"""

from __future__ import annotations

import re
from enum import Enum


class Wildcard(Enum):
    """A wildcard of a pattern."""

    MANY = "%"
    SINGLE = "_"


def split_pattern(pattern: str) -> list[str | Wildcard]:
    """Return the parts of a pattern: text without escapes, and wildcards. No text is empty or next to another text."""
    parts: list[str | Wildcard] = []
    text = ""
    for escaped, character in re.findall(r"\\(.)|(.)", pattern, re.DOTALL):
        if not escaped and character in {"%", "_"}:
            parts += [text, Wildcard(character)] if text else [Wildcard(character)]
            text = ""
        else:
            text += escaped or character
    return [*parts, text] if text else parts


def canonical_pattern(pattern: str) -> str:
    """Return an equal pattern in which a backslash only precedes `%`, `_` and a backslash, as SQL requires."""
    return "".join(
        part.value if isinstance(part, Wildcard) else re.sub(r"([%_\\])", r"\\\1", part)
        for part in split_pattern(pattern)
    )
