"""Finds the files of a load: names, directories and globs, local or on S3, become files with sizes and formats.

In: names as the user writes them. Out: `InputFile` values in a stable order. A name that matches nothing, a file with
another extension and an empty list are errors, raised before any task starts. Only names and stamps are read, never
contents.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Final

from omnigraph.base.errors import ContentError, StorageError, UsageError
from omnigraph.base.hints import Argument, Placeholder, action, hint
from omnigraph.storage.files import Compression, FileStamp, compression_of, local_stamp, read_stamp
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectEntry, ObjectStore


class InputFormat(Enum):
    """The format of the records of a file."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file to read, with its stamp at planning time. `name` is what the user wrote, `location` where it is."""

    name: str
    location: Location
    stamp: FileStamp
    format: InputFormat
    compression: Compression

    @property
    def size(self) -> int:
        return self.stamp.size_bytes


_FORMATS: Final = {
    ".jsonl": InputFormat.NDJSON,
    ".ndjson": InputFormat.NDJSON,
    ".json": InputFormat.NDJSON,
    ".parquet": InputFormat.PARQUET,
    ".csv": InputFormat.CSV,
}
_GLOB_CHARACTERS: Final = frozenset("*?[")


def find_inputs(names: Sequence[str], options: Mapping[str, str] | None = None) -> tuple[InputFile, ...]:
    """Return every file that the names match, each once, in the order of the names and then of the paths."""
    files: dict[str, InputFile] = {}
    for name in names:
        location = parse_location(name.rstrip("/") or name, options)
        expand = _expand_local if location.scheme is Scheme.LOCAL else _expand_remote
        matches = list(expand(name, location))
        if not matches:
            raise UsageError(
                f"no data file at '{name}'",
                code="input_missing",
                hint="Pass a file, a directory or a quoted glob of .jsonl, .parquet or .csv files.",
                facts={"data": name},
            )
        for match in matches:
            files.setdefault(match.location.uri, match)
    return tuple(files.values())


def unreadable_input(file: InputFile, error: Exception) -> ContentError:
    """Return the error for a file whose content does not match its extension."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ContentError(
        f"'{file.name}' is not readable as {file.format.value}{file.compression.value}: {lines[0]}",
        code="input_unreadable",
        hint="Nothing was written. Create the file again: it is damaged, truncated or in another format.",
        facts={"data": file.name},
    )


def missing_type(file: InputFile) -> UsageError:
    """Return the error for a file whose rows do not name their type, if the caller does not name it either."""
    return UsageError(
        f"missing type: '{file.name}' is {file.format.value}, which does not name the type of its rows",
        code="load_type_missing",
        hint=hint("Pass {}.", Argument("type", Placeholder("TYPE"))),
        facts={"data": file.name},
    )


def require_unchanged(file: InputFile) -> None:
    """Raise if the file changed since the load was planned."""
    actual = read_stamp(file.location)
    if actual != file.stamp:
        raise ContentError(
            f"'{file.name}' changed during the load: expected {file.stamp}, got {actual or 'no file'}",
            code="input_changed",
            hint="Nothing was written. Load the file again when no process writes to it.",
            facts={"data": file.name, "expected": str(file.stamp), "actual": str(actual or "no file")},
        )


def _expand_local(name: str, location: Location) -> Iterator[InputFile]:
    path = Path(location.uri)
    if path.is_dir():
        _reject_graph(name, path)
        entries = sorted(entry for entry in path.rglob("*") if entry.is_file())
        for entry in entries:
            # Files with other extensions in the directory are skipped.
            if _format_of(entry.name) is not None and not _is_hidden(entry.relative_to(path).parts):
                yield _named_file(entry, str(entry))
    elif path.is_file():
        yield _named_file(path, name)
    elif _GLOB_CHARACTERS & set(name):
        start = _before_pattern(name, path)
        matches = {
            match
            for directory, pattern in _split_glob(start, path.relative_to(start).parts)
            for match in directory.glob(str(pattern))
            if match.is_file() and not _is_hidden(match.relative_to(directory).parts, pattern.parts)
        }
        for match in sorted(matches):
            yield _named_file(match, str(match))


def _expand_remote(name: str, location: Location) -> Iterator[InputFile]:
    bucket, _, key = location.uri.split("://", 1)[1].partition("/")
    before_pattern = key[: min((key.index(c) for c in _GLOB_CHARACTERS & set(key)), default=len(key))]
    is_pattern = before_pattern != key
    directory = before_pattern.rpartition("/")[0] if is_pattern else key
    whole_bucket = Location(scheme=location.scheme, uri=f"{location.scheme.value}://{bucket}", options=location.options)
    denied: StorageError | None = None
    if key and not is_pattern:
        try:
            stamp = read_stamp(whole_bucket.child(key))
        except StorageError as error:
            if error.code != "permission_denied":
                raise
            # AWS also answers so for a key that does not exist, if the caller may list only some directories.
            stamp, denied = None, error
        if stamp is not None:
            yield _file(name, whole_bucket.child(key), stamp)
            return
    root = whole_bucket.child(directory) if directory else whole_bucket
    requested = key.removeprefix(directory).split("/")
    for entry in _list_directory(root, denied):
        entry_key = f"{directory}/{entry.path}" if directory else entry.path
        if is_pattern and not fnmatch.fnmatchcase(entry_key, key):
            continue
        if _is_hidden(entry.path.split("/"), requested):
            continue
        if is_pattern or _format_of(entry.path) is not None:
            entry_location = root.child(entry.path)
            yield _file(entry_location.uri, entry_location, FileStamp(entry.size, entry.version))


def _list_directory(root: Location, denied: StorageError | None) -> tuple[ObjectEntry, ...]:
    """List a directory. If it is empty, raise the error of the store about a file of this name, if there was one."""
    entries: tuple[ObjectEntry, ...] = ()
    try:
        entries = ObjectStore(root).list("")
    except StorageError:
        if denied is None:
            raise
    if denied is not None and not entries:
        raise denied
    return entries


def _reject_graph(name: str, path: Path) -> None:
    if (path / "__manifest").is_dir():
        raise UsageError(
            f"'{name}' is a graph: expected data files, got a directory with '__manifest'",
            code="input_is_graph",
            hint=hint("Run {} on it, then load the exported files.", action("export")),
            facts={"data": name},
        )


def _before_pattern(name: str, path: Path) -> Path:
    """Return the directory before the first pattern of the name. The path to the working directory is not a pattern."""
    typed = Path(name).parts
    plain = itertools.takewhile(lambda part: not _GLOB_CHARACTERS & set(part), typed)
    directory = Path(os.path.realpath(Path(*plain)))
    return directory if path.is_relative_to(directory) else Path(path.anchor)


def _split_glob(directory: Path, parts: Sequence[str]) -> Iterator[tuple[Path, PurePath]]:
    """Return the directories to search, each with the rest of the glob. A directory may be named like a pattern."""
    first = next((index for index, part in enumerate(parts) if _GLOB_CHARACTERS & set(part)), None)
    if first is None:
        return
    yield directory.joinpath(*parts[:first]), PurePath(*parts[first:])
    literal = directory.joinpath(*parts[: first + 1])
    if literal.is_dir():
        yield from _split_glob(literal, parts[first + 1 :])


def _is_hidden(parts: Sequence[str], requested: Sequence[str] = ()) -> bool:
    """Return whether a file, or a directory on its path, is hidden, such as a log next to the data.

    As in a shell, a name that was requested with such a prefix is not hidden.
    """
    hidden_prefixes = (".", "_")
    return any(part.startswith(hidden_prefixes) for part in parts) and not any(
        part.startswith(hidden_prefixes) for part in requested
    )


def _named_file(path: Path, name: str) -> InputFile:
    return _file(name, parse_location(str(path)), local_stamp(path.stat()))


def _file(name: str, location: Location, stamp: FileStamp) -> InputFile:
    format_ = _format_of(location.uri)
    if format_ is None:
        raise UsageError(
            f"unknown data format of '{name}': expected .jsonl, .ndjson, .json, .csv or .parquet",
            code="input_format",
            hint="Rename the file. The text formats may also end in .gz or .zst.",
            facts={"data": name},
        )
    compression = compression_of(location.uri)
    if format_ is InputFormat.PARQUET and compression is not Compression.NONE:
        raise UsageError(
            f"'{name}' is compressed Parquet: expected .parquet, got .parquet{compression.value}",
            code="input_format",
            hint="Decompress the file first. Parquet compresses its own columns.",
            facts={"data": name},
        )
    return InputFile(name=name, location=location, stamp=stamp, format=format_, compression=compression)


def _format_of(name: str) -> InputFormat | None:
    return _FORMATS.get(Path(name.removesuffix(compression_of(name).value)).suffix.lower())
