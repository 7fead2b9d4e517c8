"""The flags that every command has, read from the words themselves.

An error in the words must already be shown as the caller asked for it, before anything is parsed. So these flags are
found by looking for them; Typer declares them as well, for `--help` and to accept them anywhere after the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Flags:
    """How to talk to the caller."""

    json: bool = False
    json_lines: bool = False
    quiet: bool = False
    debug: bool = False


def read_flags(arguments: list[str]) -> Flags:
    """What the words ask for, up to `--`."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    joined = {*words, *(f"{word}={after}" for word, after in pairwise(words))}
    return Flags(
        json=not joined.isdisjoint({"--json", "--format=json", "--format=jsonl"}),
        json_lines="--format=jsonl" in joined,
        quiet=not joined.isdisjoint({"--quiet", "-q"}),
        debug="--debug" in joined,
    )
