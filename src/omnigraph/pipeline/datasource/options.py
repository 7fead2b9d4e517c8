"""The options of the Spark data source `omnigraph`, as Spark hands them over: text by name, names in lower case.

In: that mapping. Out: what to read or write, checked word by word. An option that is unknown, missing, or contradicts
another one is a `UsageError` that says what to pass. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from omnigraph.base.actors import login_name, refuse_blank_actor
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.graph.manifest.refs import SnapshotSelector, parse_moment
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.settings import StorageSettings


class DataSourceError(Exception):
    """A failed read or write. Its text is the sentence, the mistakes of the rows if there are any, and the hint."""


@contextmanager
def as_spark_error(settings: StorageSettings) -> Iterator[None]:
    """Apply the caller's settings, and give an error of ours a text that says everything."""
    try:
        with settings.applied():
            yield
    except OmnigraphError as error:
        raise DataSourceError(_text(error)) from None


def _text(error: OmnigraphError) -> str:
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return f"{error.render()} ({error.code}){hint}".replace("--mode merge", "option 'mode' merge")


STORAGE_PREFIX: Final = "storage."
FIRST_COMMIT: Final = "first"
_PLACE: Final = ("uri", "type", "branch")
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})


class Purpose(Enum):
    """What the options are for; each takes other ones. The value is how a message calls it."""

    READ = "a read"
    STREAM_READ = "a streaming read"
    WRITE = "a write"
    STREAM_WRITE = "a streaming write"


_NAMES: Final[dict[Purpose, tuple[str, ...]]] = {
    Purpose.READ: (*_PLACE, "commit", "version", "asOf", "columns", "filter"),
    Purpose.STREAM_READ: (*_PLACE, "columns", "filter", "startingCommit"),
    Purpose.WRITE: (*_PLACE, "mode", "actor"),
    Purpose.STREAM_WRITE: (*_PLACE, "mode", "actor"),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read: a type at the head of a branch, or in an earlier state of it."""

    root: Location
    type: str
    branch: str = MAIN
    when: SnapshotSelector = field(default_factory=SnapshotSelector)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    starting_commit: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What to write: rows of a type, onto a branch, by whom."""

    root: Location
    type: str
    mode: LoadMode
    actor: str
    branch: str = MAIN


def read_options(options: Mapping[str, str], purpose: Purpose) -> ReadOptions:
    """The options of a read, which is a streaming one or not."""
    _refuse_unknown(options, purpose)
    return ReadOptions(
        root=_root(options),
        type=_type(options),
        branch=options.get("branch", MAIN),
        when=_when(options),
        columns=_columns(options.get("columns")),
        where=options.get("filter"),
        starting_commit=options.get("startingcommit"),
    )


def write_options(options: Mapping[str, str], purpose: Purpose, *, overwrite: bool) -> WriteOptions:
    """The options of a write. `overwrite` is what Spark's save mode says."""
    _refuse_unknown(options, purpose)
    return WriteOptions(
        root=_root(options),
        type=_type(options),
        mode=_mode(options.get("mode"), overwrite=overwrite),
        actor=refuse_blank_actor(options.get("actor")) or login_name(),
        branch=options.get("branch", MAIN),
    )


def _when(options: Mapping[str, str]) -> SnapshotSelector:
    moment, version = options.get("asof"), options.get("version")
    if version is not None and not (version.isdecimal() and version.isascii()):
        raise UsageError(
            f"'{version}' is no version",
            code="source_option",
            hint="pass a number, as `omnigraph snapshot` shows it",
        )
    moment_us = None if moment is None else parse_moment(moment)
    return SnapshotSelector(options.get("commit"), None if version is None else int(version), moment_us)


def _refuse_unknown(options: Mapping[str, str], purpose: Purpose) -> None:
    allowed_names = _NAMES[purpose]
    lower = {name.lower() for name in allowed_names} | _SPARK_OWN
    for name in sorted(options):
        if name.lower() not in lower and not name.lower().startswith(STORAGE_PREFIX):
            raise UsageError(
                f"{purpose.value} has no option '{name}'",
                code="source_option",
                hint=f"the options are {', '.join(allowed_names)}, and {STORAGE_PREFIX}… for the object store",
            )


def _root(options: Mapping[str, str]) -> Location:
    uri, path = options.get("uri"), options.get("path")
    if uri is not None and path is not None and uri != path:
        raise UsageError(
            f"two graphs are named, {uri} and {path}",
            code="source_option",
            hint="pass option 'uri', and nothing to load() or save()",
        )
    place = uri or path
    if place is None:
        raise UsageError(
            "no graph is named", code="source_option", hint="pass its place with .option('uri', …)"
        )
    prefixed = ((name.lower(), value) for name, value in options.items())
    storage = {
        name.removeprefix(STORAGE_PREFIX): value
        for name, value in prefixed
        if name.startswith(STORAGE_PREFIX)
    }
    return parse_location(place, storage)


def _type(options: Mapping[str, str]) -> str:
    name = options.get("type", "")
    if not name:
        raise UsageError(
            "no type is named", code="source_option", hint="pass a node or edge type with .option('type', …)"
        )
    return name


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise UsageError(
            f"'{text}' is no list of columns",
            code="source_option",
            hint="separate them by commas and name each once, as id,name,age",
        )
    return names


def _mode(name: str | None, *, overwrite: bool) -> LoadMode:
    """Spark's save mode decides between overwrite and the rest, our option among the rest."""
    if overwrite:
        if name not in (None, LoadMode.OVERWRITE.value):
            raise UsageError(
                f"the save mode is overwrite and the option 'mode' is {name}",
                code="source_option",
                hint=f"pass .mode('append') to {name}, or leave the option out to replace the whole type",
            )
        return LoadMode.OVERWRITE
    if name is None:
        return LoadMode.APPEND
    if name == LoadMode.OVERWRITE.value:
        raise UsageError(
            "the option 'mode' is overwrite and the save mode is not",
            code="source_option",
            hint="pass .mode('overwrite') to replace the whole type",
        )
    try:
        return LoadMode(name)
    except ValueError as unknown:
        raise UsageError(
            f"'{name}' is no mode of a write", code="source_option", hint="pass append or merge"
        ) from unknown
