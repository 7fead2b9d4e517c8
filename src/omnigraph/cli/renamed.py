"""Commands that have another name as well: the words of a call with the one name that every message uses."""

from __future__ import annotations

import sys

from omnigraph.cli.flags import Flags


def use_one_name(arguments: list[str], flags: Flags) -> list[str]:
    """The arguments with `lint` for `check`, `query lint` and `query check`; the latter two are warned about."""
    match arguments:
        case ["check", *rest]:
            return ["lint", *rest]
        case ["query", "lint" | "check" as word, *rest]:
            if not flags.quiet:
                sys.stderr.write(f"warning: `omnigraph query {word}` is an old name of `omnigraph lint`\n")
            return ["lint", *rest]
        case _:
            return arguments
