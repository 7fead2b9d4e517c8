"""Arguments of the public functions: read where they have several forms, checked where their types do not say enough.

A string where a list of names is expected, a time without an offset and a limit below 1 raise `UsageError` at the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from omnigraph.api.texts import source_name
from omnigraph.base.actors import login_name, require_actor_name
from omnigraph.base.clock import to_datetime
from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.refs import SnapshotSelector, parse_timestamp, read_state
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from omnigraph.engine.prepare import QuerySource

_BEGINS_WITH_DATE = re.compile(r"\d{4}-\d\d-\d\d")
"""Text that begins so is a time: the id of a commit has no hyphen."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def choose_actor(actor: str | None, default: str | None) -> str:
    """Return who writes: the actor of the call, of the graph, or the login name."""
    chosen = actor if actor is not None else default
    if chosen is None:
        return login_name()
    require_actor_name(chosen)
    return chosen


def read_names(argument: str, names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of a list; None is an empty list. A single string is an error: it would be a list of letters."""
    if isinstance(names, str):
        raise _invalid(argument, f"expected a list of names, got the string '{names}'", f"['{names}']")
    return tuple(names or ())


def require_positive(argument: str, count: int) -> None:
    """Raise if a limit is below 1: the caller would believe that there is nothing."""
    if count < 1:
        raise _invalid(argument, f"expected a number of 1 or more, got {count}", "10")


def require_choice(argument: str, value: str, choices: Sequence[str], code: str = "argument") -> None:
    """Raise if a value is not one of the choices."""
    if value not in choices:
        *first, last = map(repr, choices)
        raise _invalid(argument, f"expected {', '.join(first)} or {last}, got {value!r}", last, code)


def read_duration(argument: str, duration: timedelta | str | None) -> timedelta | None:
    """Return a duration, or None. Text is a number and a unit, such as `14d`."""
    if duration is None or isinstance(duration, timedelta):
        return duration
    from omnigraph.maintenance.cleanup.options import parse_duration

    if not isinstance(duration, str):
        raise _invalid(argument, f"expected a timedelta or text, got {duration!r}", "'14d'")
    return parse_duration(duration)


def check_storage_options(options: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the settings of a store; raise if one is not text. Values are secrets, so only names are reported."""
    wrong = [str(name) for name, value in (options or {}).items() if not isinstance(value, str)]
    if wrong:
        example = "{'aws_allow_http': 'true'}"
        raise _invalid("storage_options", f"expected text, got other values for {', '.join(wrong)}", example)
    return options


def choose_as_of(commit: str | None, version: int | None, time: str | None) -> str | int | datetime | None:
    """Return `as_of` for a commit, a manifest version or a time as text; raise if there are several."""
    selector = SnapshotSelector(commit, version, None if time is None else parse_timestamp(time))
    if selector.time_us is not None:
        return to_datetime(selector.time_us)
    return selector.commit if selector.commit is not None else selector.version


def select_state(as_of: object) -> SnapshotSelector:
    """Return which state a commit, a manifest version or a time means."""
    match as_of:
        case None:
            return SnapshotSelector()
        case str() if _BEGINS_WITH_DATE.match(as_of):
            return SnapshotSelector(time_us=parse_timestamp(as_of))
        case str():
            return SnapshotSelector(commit=as_of)
        case int() if not isinstance(as_of, bool):
            return SnapshotSelector(version=as_of)
        case datetime():
            if as_of.utcoffset() is None:
                raise _invalid(
                    "as_of",
                    f"expected a datetime with an offset, got {as_of!r}",
                    "datetime(2026, 5, 31, 12, tzinfo=UTC)",
                )
            return SnapshotSelector(time_us=(as_of - _EPOCH) // timedelta(microseconds=1))
        case date():
            return SnapshotSelector(time_us=parse_timestamp(as_of.isoformat()))
        case _:
            raise _invalid("as_of", f"expected a commit, a version or a time, got {as_of!r}", "'2026-05-31'")


def read_as_of(location: Location, branch: str, as_of: str | int | date | datetime | Snapshot | None) -> Snapshot:
    """Return the state of a branch that `as_of` selects; raise if it is a snapshot of another graph."""
    if not isinstance(as_of, Snapshot):
        return read_state(location, branch, select_state(as_of))
    if as_of.root.uri != location.uri:
        raise UsageError(
            f"the snapshot is of another graph: expected {location.uri}, got {as_of.root.uri}",
            code="argument",
            hint="Pass a snapshot of this graph, as in `as_of=graph.snapshot()`.",
            facts={"argument": "as_of"},
        )
    return as_of


def query_source(text: str, name: str | None) -> QuerySource:
    """Return query text with the name that messages use for it, and the name of the query to run."""
    from omnigraph.engine.prepare import QuerySource

    return QuerySource(str(text), source_name(text, "<query>"), name)


def _invalid(argument: str, problem: str, example: str, code: str = "argument") -> UsageError:
    return UsageError(
        f"invalid {argument}: {problem}",
        code=code,
        hint=f"Pass it as in `{argument}={example}`.",
        facts={"argument": argument},
    )
