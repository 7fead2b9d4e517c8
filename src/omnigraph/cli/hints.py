"""Renders hints for the command line: calls as commands, arguments as flags. Pure."""

from __future__ import annotations

from typing import Final

from omnigraph.base.hints import Action, Argument, Hint, OneOf, Part, Placeholder

_FLAGS: Final = {
    "actor": "as",
    "build_indexes": "with-indexes",
    "from_": "from",
    "rejects": "errors",
    "types": "type",
}
_FLAGS_BY_VALUE: Final[dict[tuple[str, object], str]] = {
    ("dry_run", False): "--confirm",
    ("unverified", "publish"): "--confirm --force",
    ("unverified", "discard"): "--confirm --discard",
}


def render_hint(hint: Hint) -> str:
    """Return a hint with commands and flags."""
    return hint.render(_flag_text)


def _flag_text(part: Part) -> str:
    match part:
        case Argument():
            return f"`{_flag(part)}`"
        case Action(name, arguments):
            return f"`{' '.join(['omnigraph', name, *map(_flag, arguments)])}`"


def _flag(argument: Argument) -> str:
    name, value = argument.name, argument.value
    if not isinstance(value, Placeholder | OneOf) and (name, value) in _FLAGS_BY_VALUE:
        return _FLAGS_BY_VALUE[name, value]
    flag = "--" + _FLAGS.get(name, name).replace("_", "-")
    match value:
        case True:
            return flag
        case Placeholder():
            return f"{flag} {value.name}"
        case OneOf(values):
            return f"{flag} {'|'.join(values)}"
        case _:
            return f"{flag} {value}"
