"""What callers pass to the public functions, checked against the annotations of these functions.

A wrong kind of value, such as a text where a list of names is meant, becomes a `UsageError` with a hint at the call,
and not a traceback from wherever it was first used. An annotation that is not in the table is not checked here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from os import PathLike
from typing import Final, ParamSpec, TypeVar

from omnigraph.base.actors import require_actor_name
from omnigraph.base.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

_SHOWN_MAX: Final = 60
_ACTOR: Final = "actor"


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with its arguments checked before it is called."""
    parameters = inspect.signature(function).parameters.values()
    wanted = {one.name: _WANTED.get(str(one.annotation).removesuffix(" | None")) for one in parameters}
    optional = {one.name for one in parameters if str(one.annotation).endswith(" | None")}
    names = tuple(wanted)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            kind = wanted.get(name)
            if kind is not None and not (value is None and name in optional) and not kind.fits(value):
                raise _misfit(name, value, kind)
            if name == _ACTOR and isinstance(value, str):
                require_actor_name(value)
        return function(*args, **kwargs)

    return call


def checked_methods(kind: Class) -> Class:
    """The class, with the arguments of its own public methods checked."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(kind, name, checked(member))
    return kind


def require_positive(name: str, most: int) -> None:
    """Raise when at most so many is none: the caller would believe that there is nothing more."""
    if most < 1:
        raise UsageError(
            f"{name} is how many at most, and cannot be {most}",
            code="argument",
            hint=f"pass a whole number from 1 on, as in {name}=10",
            facts={"argument": name},
        )


def _blame_value(value: object) -> str:
    return f"cannot be {_short(value)}"


def _blame_type(value: object) -> str:
    """Without the value, which may hold what opens a store."""
    return f"cannot be {_a_type(value)}"


def _blame_members(value: object) -> str:
    """Only which members are no texts, as the others may be what opens a store."""
    if not isinstance(value, Mapping):
        return _blame_type(value)
    keys = [f"the name {_short(key)} is {_a_type(key)}" for key in value if not isinstance(key, str)]
    members = ((key, one) for key, one in value.items() if isinstance(key, str) and not isinstance(one, str))
    return ", ".join((*keys, *(f"{_short(key)} is {_a_type(one)}" for key, one in members)))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _a_type(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True, slots=True)
class _ArgumentKind:
    """What fits, what to call it, an example, and how to say what is wrong with another value."""

    fits: Callable[[object], bool]
    name: str
    example: str
    blame: Callable[[object], str] = _blame_value


def _of(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_moment(value: object) -> bool:
    """A time without an offset would mean another moment on every machine."""
    return isinstance(value, datetime) and value.utcoffset() is not None


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(one, str) for one in value)


def _is_by_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _are_texts_by_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in (*value, *value.values()))


def _is_side(value: object) -> bool:
    return isinstance(value, str) or _are_texts_by_text(value)


def _is_by_entity(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, tuple) and len(key) == 2 and _are_names(key) for key in value
    )


def _called(name: str) -> Callable[[object], bool]:
    """By its name, because importing what is seldom passed would slow every start."""
    return lambda value: any(kind.__name__ == name for kind in type(value).__mro__)


_WANTED: Final[Mapping[str, _ArgumentKind]] = {
    "str": _ArgumentKind(_of(str), "a text", "'…'"),
    "str | PathLike[str]": _ArgumentKind(_of(str, PathLike), "a text or a path", "'…'"),
    "bool": _ArgumentKind(_of(bool), "True or False", "True"),
    "int": _ArgumentKind(_is_count, "a whole number", "10"),
    "datetime": _ArgumentKind(
        _is_moment, "a datetime with its offset", "datetime(2026, 5, 31, 12, tzinfo=UTC)"
    ),
    "timedelta": _ArgumentKind(_of(timedelta), "a timedelta", "timedelta(weeks=2)"),
    "tuple[str, ...]": _ArgumentKind(_are_names, "a list of names", "['Person']"),
    "Mapping[str, object]": _ArgumentKind(_is_by_text, "a dict by name", "{'slug': 'ada'}"),
    "Mapping[str, str]": _ArgumentKind(
        _are_texts_by_text, "a dict of texts", "{'region': 'eu-central-1'}", _blame_members
    ),
    "str | Mapping[str, str]": _ArgumentKind(_is_side, "a side, or a dict of them by kind", "'theirs'"),
    "Mapping[tuple[str, str], str]": _ArgumentKind(
        _is_by_entity, "a dict of sides by table and id", "{('node:Person', 'ada'): 'theirs'}"
    ),
    "Snapshot": _ArgumentKind(_called("Snapshot"), "a Snapshot", "graph.pin()"),
    "QueryLimits": _ArgumentKind(_called("QueryLimits"), "QueryLimits", "omnigraph.QueryLimits(hops=5)"),
    "OpenOptions": _ArgumentKind(
        _called("OpenOptions"), "OpenOptions", "omnigraph.OpenOptions(actor='ada')", _blame_type
    ),
    "Report": _ArgumentKind(callable, "a function that is told how far the work is", "print"),
}


def _misfit(name: str, value: object, kind: _ArgumentKind) -> UsageError:
    return UsageError(
        f"{name} is {kind.name}, and {kind.blame(value)}",
        code="argument",
        hint=f"pass it as in {name}={kind.example}",
        facts={"argument": name},
    )
