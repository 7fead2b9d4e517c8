"""Renders hints for the command line: calls as commands, arguments as flags. Pure."""

from __future__ import annotations

import shlex
from typing import Final

from omnigraph.base.hints import Action, Argument, Hint, OneOf, Placeholder

_FLAGS: Final = {
    "actor": "as",
    "build_indexes": "with-indexes",
    "from_": "from",
    "graph_id": "graph",
    "memory_bytes": "max-memory",
    "rejects": "errors",
    "seconds": "max-seconds",
    "types": "type",
}
_FLAGS_BY_VALUE: Final[dict[tuple[str, object], str]] = {
    ("dry_run", False): "--confirm",
    ("runner", "local"): "--engine process",
    ("unverified", "publish"): "--confirm --force",
    ("unverified", "discard"): "--confirm --discard",
}
_POSITIONAL: Final = frozenset({"name", "source"})
_COMMANDS_WITH_SERVER: Final = frozenset({"doctor", "index status", "snapshot"})
_COMMANDS_WITH_URI: Final = _COMMANDS_WITH_SERVER | {"cleanup", "embed", "optimize", "recovery list", "repair"}


def render_hint(hint: Hint, graph: str | tuple[str, ...] | None = None) -> str:
    """Return a hint with commands and flags. With a graph, an address or arguments, commands about it name it."""
    words = [graph] if isinstance(graph, str) else list(graph or ())
    names = _COMMANDS_WITH_SERVER if words[:1] == ["--server"] else _COMMANDS_WITH_URI

    def render_part(part: Argument | Action) -> str:
        match part:
            case Argument():
                return f"`{_flag(part)}`"
            case Action(name, arguments):
                named = map(shlex.quote, words if name in names else ())
                return f"`{' '.join(['omnigraph', name, *named, *_flags(arguments)])}`"

    return hint.render(render_part)


def render_command(hint: Hint, graph: str | tuple[str, ...] | None) -> str:
    """Return a hint about a graph; one that is only a command has no backticks, so that it can be copied."""
    text = render_hint(hint, graph)
    return text.strip("`") if hint.text == "{}" else text


def _flags(arguments: tuple[Argument, ...]) -> list[str]:
    """Return the flags of a call. Flags that those of another argument contain are not repeated."""
    flags = [_flag(argument) for argument in arguments]
    return [flag for flag in flags if not any(flag != other and flag in other.split() for other in flags)]


def _flag(argument: Argument) -> str:
    name, value = argument.name, argument.value
    if not isinstance(value, Placeholder | OneOf) and (name, value) in _FLAGS_BY_VALUE:
        return _FLAGS_BY_VALUE[name, value]
    if name in _POSITIONAL:
        return value.name if isinstance(value, Placeholder) else shlex.quote(str(value))
    flag = "--" + _FLAGS.get(name, name).replace("_", "-")
    match value:
        case True:
            return flag
        case Placeholder():
            return f"{flag} {value.name}"
        case OneOf(values):
            return f"{flag} {'|'.join(values)}"
        case _:
            return f"{flag} {shlex.quote(str(value))}"
