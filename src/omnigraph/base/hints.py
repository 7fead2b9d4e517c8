"""Hints as values: what the caller can do about an error.

A hint is text in which calls and arguments are values, so that each surface renders them in its own syntax. This module
renders `graph.cleanup(keep=10)` and `keep=10`; `cli/hints.py` renders `omnigraph cleanup --keep 10` and `--keep 10`.
No layer below `cli` writes a flag, and nothing parses a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A value that the caller chooses, such as FILE."""

    name: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values."""

    values: tuple[str, ...]


Value = str | int | float | bool | Placeholder | OneOf


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, by its name in Python."""

    name: str
    value: Value = True


@dataclass(frozen=True, slots=True)
class Action:
    """A call, by the name of its command, such as `branch create`."""

    name: str
    arguments: tuple[Argument, ...] = ()


Part = Argument | Action | str
"""A call, an argument, or text that is only known at run time, such as a path."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Text with one `{}` for each part; text without parts may contain anything."""

    text: str = ""
    parts: tuple[Part, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.render(_python_text)

    def render(self, part_text: Callable[[Argument | Action], str]) -> str:
        """Return the text with each part as the function renders it."""
        if not self.parts:
            return self.text
        pieces = self.text.split("{}", len(self.parts))
        rendered = [part if isinstance(part, str) else part_text(part) for part in self.parts]
        return "".join(text for pair in zip(pieces, [*rendered, ""], strict=True) for text in pair)

    def __add__(self, other: Hint) -> Hint:
        return Hint(" ".join(text for text in (self.text, other.text) if text), self.parts + other.parts)


def hint_to_json(value: Hint) -> dict[str, Any]:
    """Return a hint as JSON values, for an error that crosses processes."""
    return asdict(value)


def hint_from_json(document: Mapping[str, Any]) -> Hint:
    """Return the hint of `hint_to_json`."""
    return Hint(document["text"], tuple(map(_part, document["parts"])))


def _part(document: Mapping[str, Any] | str) -> Part:
    if isinstance(document, str):
        return document
    if "arguments" in document:
        arguments = tuple(Argument(item["name"], _value(item["value"])) for item in document["arguments"])
        return Action(document["name"], arguments)
    return Argument(document["name"], _value(document["value"]))


def _value(value: Any) -> Value:
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]
    return Placeholder(value["name"]) if "name" in value else OneOf(tuple(value["values"]))


def hint(text: str, *parts: Part) -> Hint:
    """Return a hint; `text` has one `{}` for each part."""
    return Hint(text, parts)


def action(name: str, /, **arguments: Value) -> Action:
    """Return a call, as in `action("cleanup", keep=10)`."""
    return Action(name, tuple(Argument(key, value) for key, value in arguments.items()))


_METHODS: Final = {
    "branch create": "create_branch",
    "branch delete": "delete_branch",
    "branch list": "list_branches",
    "branch merge": "merge",
    "commit list": "log",
    "commit revert": "revert",
    "commit show": "get_commit",
    "index status": "index_status",
    "recovery list": "pending_writes",
    "schema apply": "apply_schema",
    "schema plan": "plan_schema",
}
_OTHER_CALLS: Final = {"init": "omnigraph.init(…)", "schema show": "graph.schema"}
_METHODS_OF_THE_SAME_NAME: Final = frozenset(
    {
        "cleanup",
        "diff",
        "doctor",
        "explain",
        "export",
        "load",
        "log",
        "maintain",
        "mutate",
        "optimize",
        "query",
        "repair",
        "snapshot",
    }
)


def _python_text(part: Argument | Action) -> str:
    match part:
        case Argument():
            return f"`{_keyword(part)}`"
        case Action(name, arguments):
            if name in _OTHER_CALLS:
                return f"`{_OTHER_CALLS[name]}`"
            method = _METHODS.get(name, name if name in _METHODS_OF_THE_SAME_NAME else None)
            if method is None:
                return f"`omnigraph {name}`"  # a command without a method
            branches = [f".checkout('{item.value}')" for item in arguments if item.name == "branch"]
            keywords = [_keyword(_as_of(item)) for item in arguments if item.name != "branch"]
            return f"`graph{''.join(branches)}.{method}({', '.join(keywords)})`"


def _as_of(argument: Argument) -> Argument:
    """Return the argument of a method: one keyword names a commit, a version or a time."""
    return Argument("as_of", argument.value) if argument.name in ("commit", "version", "at") else argument


def _keyword(argument: Argument) -> str:
    match argument.value:
        case Placeholder():
            return f"{argument.name}=…"
        case OneOf(values):
            return f"{argument.name}=" + " or ".join(f"'{value}'" for value in values)
        case str():
            return f"{argument.name}='{argument.value}'"
        case _:
            return f"{argument.name}={argument.value}"
