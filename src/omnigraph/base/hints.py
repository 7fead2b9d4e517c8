"""Hints are written in the flags of commands; here they become the arguments of Python calls.

In: a hint. Out: the same hint for a program: `--keep 10` is `keep=10`. What stands in a whole command, and a flag that
no call has, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_COMMAND: Final = re.compile(r"(`omnigraph [^`]*`)")
_SWITCHES: Final = re.compile(r"--(?:force|confirm|discard)\b(?: --(?:force|confirm|discard)\b)*")
_CHOICE: Final = re.compile(r"--(strategy|mode|format) ([a-z]+(?:\|[a-z]+)*)")
_AGE: Final = re.compile(r"--((?:orphans-)?older-than) (\d+)d\b")
_COUNT: Final = re.compile(r"--(keep) (\d+)")
_VALUE: Final = re.compile(r"--(resolve|into|out|type|errors|as|from)\b(?: [A-Z]+/?)?")
_RENAMED: Final = {"type": "types", "as": "actor", "from": "from_"}

Found = re.Match[str]


def in_python(hint: str) -> str:
    """The hint with arguments instead of flags."""
    if "--" not in hint:
        return hint
    parts = _COMMAND.split(hint)
    parts[::2] = [_translated(part) for part in parts[::2]]
    return "".join(parts)


def _translated(text: str) -> str:
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


def _switches(found: Found) -> str:
    return ", ".join(f"{flag.removeprefix('--')}=True" for flag in found[0].split())


def _choice(found: Found) -> str:
    return f"{found[1]}=" + " or ".join(f"'{value}'" for value in found[2].split("|"))


def _age(found: Found) -> str:
    return f"{found[1].replace('-', '_')}=timedelta(days={found[2]})"


def _count(found: Found) -> str:
    return f"{found[1]}={found[2]}"


def _value(found: Found) -> str:
    return f"{_RENAMED.get(found[1], found[1])}=…"


_WORDS: Final[tuple[tuple[re.Pattern[str], Callable[[Found], str]], ...]] = (
    (_SWITCHES, _switches),
    (_CHOICE, _choice),
    (_AGE, _age),
    (_COUNT, _count),
    (_VALUE, _value),
)
