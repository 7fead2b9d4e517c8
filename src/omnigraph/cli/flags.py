"""The flags that every command has. In: arguments. Out: flags. It does not import Typer, which `main` imports later."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a command prints: `--json`, `--format jsonl`, `--quiet` and `--debug`."""

    json: bool = False
    json_lines: bool = False
    quiet: bool = False
    debug: bool = False


def parse_flags(arguments: list[str]) -> Flags:
    """Return the flags among the arguments before `--`."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    joined = {*options, *(f"{option}={value}" for option, value in pairwise(options))}
    return Flags(
        json=not joined.isdisjoint({"--json", "--format=json", "--format=jsonl"}),
        json_lines="--format=jsonl" in joined,
        quiet=not joined.isdisjoint({"--quiet", "-q"}),
        debug="--debug" in joined,
    )
