"""Hints as values: what the caller can do about an error.

A hint is text in which calls and arguments are values, so that each surface renders them in its own syntax. This module
renders `graph.cleanup(keep=10)` and `keep=10`; `cli/hints.py` renders `omnigraph cleanup --keep 10` and `--keep 10`.
No layer below `cli` writes a flag, and nothing parses a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


CAUSE: Final = Argument("debug")
"""Where the original error is shown: `--debug` prints it, an exception of Python has it."""

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
_LIMITS: Final = frozenset({"memory_bytes", "seconds"})
"""The arguments that are members of `limits`."""
_METHODS_OF_THE_SAME_NAME: Final = frozenset(
    {
        "cleanup",
        "diff",
        "doctor",
        "embed",
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
            if part == CAUSE:
                return "`error.__cause__`"
            return f"`limits=QueryLimits({_keyword(part)})`" if part.name in _LIMITS else f"`{_keyword(part)}`"
        case Action("doctor", (Argument("fix_location"),)):
            return "`graph.fix_location()`"
        case Action("init"):
            return "`omnigraph.init(…)`"
        case Action("schema show", arguments):
            state = f"snapshot({_keywords(arguments)}).schema.source"
            return f"`print(graph.{state if arguments else 'schema'})`"
        case Action(name, arguments):
            method = _METHODS.get(name, name if name in _METHODS_OF_THE_SAME_NAME else None)
            if method is None:
                return f"`omnigraph {name}`"  # a command without a method
            branches = [item for item in arguments if item.name in ("branch", "into")]
            others = [item for item in arguments if item not in branches]
            checkout = "".join(f".checkout({_value_text(item.value)})" for item in branches)
            return f"`graph{checkout}.{method}({_keywords(others)})`"


def _keywords(arguments: Iterable[Argument]) -> str:
    """Return the arguments of a method. One keyword names a commit, a version or a time."""
    as_of = ("commit", "version", "at")
    return ", ".join(_keyword(Argument("as_of", item.value) if item.name in as_of else item) for item in arguments)


def _keyword(argument: Argument) -> str:
    return f"{argument.name}={_value_text(argument.value)}"


def _value_text(value: Value) -> str:
    match value:
        case Placeholder():
            return "…"
        case OneOf(values):
            return " or ".join(map(repr, values))
        case _:
            return repr(value)
