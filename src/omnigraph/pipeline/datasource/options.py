"""The options of the Spark data source `omnigraph`: text by name, with names in lower case.

In: the mapping that Spark passes. Out: what to read or write. An option that is unknown, missing, or contradicts
another option raises a `UsageError` with the option to pass. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from omnigraph.base.actors import login_name, require_actor_name
from omnigraph.base.errors import Fact, OmnigraphError, UsageError
from omnigraph.base.hints import Argument, Hint, Part, action, hint
from omnigraph.graph.manifest.refs import SnapshotSelector, parse_timestamp
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.storage.location import Location, parse_location, require_shared
from omnigraph.storage.settings import StorageSettings


class DataSourceError(Exception):
    """A failed read or write. Its text has the message, the errors of rows if there are any, and the hint."""


@contextmanager
def as_spark_error(settings: StorageSettings) -> Iterator[None]:
    """Apply the caller's settings, and raise an Omnigraph error as one with the complete text."""
    try:
        with settings.applied():
            yield
    except OmnigraphError as error:
        advice = error.advice.render(_option_text)
        text = f"{error.render()} ({error.code})" + (f"\nhint: {advice}" if advice else "")
        raise DataSourceError(text) from None


def _option_text(part: Part) -> str:
    """Return an argument as an option of the data source; other calls as in Python."""
    if isinstance(part, Argument):
        return f"`.option('{part.name}', '{part.value}')`"
    return str(Hint("{}", (part,)))


STORAGE_PREFIX: Final = "storage."
FIRST_COMMIT: Final = "first"
_TARGET_OPTIONS: Final = ("uri", "type", "branch")
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})


class Purpose(Enum):
    """The purpose of the options, which decides their names. The value is the name of the purpose in messages."""

    READ = "a read"
    STREAM_READ = "a streaming read"
    WRITE = "a write"
    STREAM_WRITE = "a streaming write"


_NAMES: Final[dict[Purpose, tuple[str, ...]]] = {
    Purpose.READ: (*_TARGET_OPTIONS, "commit", "version", "asOf", "columns", "filter"),
    Purpose.STREAM_READ: (*_TARGET_OPTIONS, "columns", "filter", "startingCommit"),
    Purpose.WRITE: (*_TARGET_OPTIONS, "mode", "actor"),
    Purpose.STREAM_WRITE: (*_TARGET_OPTIONS, "mode", "actor"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read: a type at the head of a branch, or in an earlier state of it."""

    root: Location
    type: str
    branch: str = MAIN
    selector: SnapshotSelector = field(default_factory=SnapshotSelector)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    starting_commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What to write: rows of a type, to which branch, by which actor."""

    root: Location
    type: str
    mode: LoadMode
    actor: str
    branch: str = MAIN


def read_options(options: Mapping[str, str], purpose: Purpose) -> ReadOptions:
    """Return the options of a read, streaming or not."""
    _reject_unknown(options, purpose)
    return ReadOptions(
        root=_root(options),
        type=_type(options),
        branch=options.get("branch", MAIN),
        selector=_selector(options),
        columns=_columns(options.get("columns")),
        where=options.get("filter"),
        starting_commit=options.get("startingcommit"),
    )


def write_options(options: Mapping[str, str], purpose: Purpose, *, overwrite: bool) -> WriteOptions:
    """Return the options of a write. `overwrite` is whether Spark's save mode is overwrite."""
    _reject_unknown(options, purpose)
    return WriteOptions(
        root=_root(options),
        type=_type(options),
        mode=_mode(options.get("mode"), overwrite=overwrite),
        actor=require_actor_name(options.get("actor")) or login_name(),
        branch=options.get("branch", MAIN),
    )


def _selector(options: Mapping[str, str]) -> SnapshotSelector:
    as_of, version = options.get("asof"), options.get("version")
    if version is not None and not (version.isdecimal() and version.isascii()):
        raise _invalid_option(
            f"invalid version: expected a number, got '{version}'",
            hint("Pass a version that {} prints.", action("snapshot")),
            {"version": version},
        )
    as_of_us = None if as_of is None else parse_timestamp(as_of)
    return SnapshotSelector(options.get("commit"), None if version is None else int(version), as_of_us)


def _reject_unknown(options: Mapping[str, str], purpose: Purpose) -> None:
    allowed_names = _NAMES[purpose]
    lower = {name.lower() for name in allowed_names} | _SPARK_OWN
    for name in sorted(options):
        if name.lower() not in lower and not name.lower().startswith(STORAGE_PREFIX):
            raise _invalid_option(
                f"unknown option '{name}' of {purpose.value}: expected {', '.join(allowed_names)} or {STORAGE_PREFIX}…",
                "Remove the option, or fix its name. Options that start with 'storage.' are for the object store.",
                {"option": name},
            )


def _root(options: Mapping[str, str]) -> Location:
    uri, path = options.get("uri"), options.get("path")
    if uri is not None and path is not None and uri != path:
        raise _invalid_option(
            f"conflicting options 'uri' and 'path': got {uri} and {path}",
            "Pass option 'uri', and no path to `load()` or `save()`.",
            {"uri": uri, "path": path},
        )
    address = uri or path
    if address is None:
        raise _invalid_option("missing option 'uri'", "Pass the graph with `.option('uri', …)`.")
    prefixed = ((name.lower(), value) for name, value in options.items())
    storage = {name.removeprefix(STORAGE_PREFIX): value for name, value in prefixed if name.startswith(STORAGE_PREFIX)}
    location = parse_location(address, storage)
    require_shared(location)
    return location


def _type(options: Mapping[str, str]) -> str:
    name = options.get("type", "")
    if not name:
        raise _invalid_option("missing option 'type'", "Pass a node or edge type with `.option('type', …)`.")
    return name


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise _invalid_option(
            f"invalid list of columns '{text}': expected distinct names, separated by commas",
            "Pass option 'columns' such as `id,name,age`.",
            {"columns": text},
        )
    return names


def _mode(name: str | None, *, overwrite: bool) -> LoadMode:
    """Return the mode. Spark's save mode decides whether it is overwrite, option 'mode' chooses among the others."""
    mode = _parse_mode(name)
    if overwrite and mode not in (None, LoadMode.OVERWRITE):
        raise _invalid_option(
            f"conflicting modes: the save mode is overwrite, and option 'mode' is {name}",
            "Pass `.mode('append')` to append or merge, or omit option 'mode' to replace the whole type.",
            {"overwrite": overwrite, "mode": name},
        )
    if not overwrite and mode is LoadMode.OVERWRITE:
        raise _invalid_option(
            "conflicting modes: option 'mode' is overwrite, and the save mode is not",
            "Pass `.mode('overwrite')` to replace the whole type.",
            {"overwrite": overwrite, "mode": name},
        )
    return LoadMode.OVERWRITE if overwrite else mode or LoadMode.APPEND


def _parse_mode(name: str | None) -> LoadMode | None:
    try:
        return None if name is None else LoadMode(name)
    except ValueError as unknown:
        raise _invalid_option(
            f"invalid option 'mode': expected append, merge or patch, got '{name}'",
            "Pass `.option('mode', 'merge')` to replace rows with the same id, or 'patch' to keep the values of "
            "missing columns.",
            {"mode": name},
        ) from unknown


def _invalid_option(message: str, advice: Hint | str, facts: Mapping[str, Fact] | None = None) -> UsageError:
    return UsageError(message, code="source_option", hint=advice, facts=facts)
