"""What a load reads: files, directories and globs, local or on S3, become a list of files with sizes and formats.

In: what the user typed. Out: `InputFile` values in a stable order. A name that matches nothing, a file that is
no data file, and an empty list are refused before anything starts. Only names and sizes are read here, never
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
from omnigraph.storage.files import Compression, FileStamp, compression_of, local_stamp, read_stamp
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectEntry, ObjectStore


class InputFormat(Enum):
    """How the records of a file are written."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read, as it was when it was found. `name` is what the user calls it; it is opened at `location`."""

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
    """Every file that the names stand for, each once, in the order of the names and then of the paths."""
    files: dict[str, InputFile] = {}
    for name in names:
        matches = list(_expand(name, options))
        if not matches:
            raise UsageError(
                f"there is no data at '{name}'",
                code="input_missing",
                hint="pass a file, a directory or a quoted glob of .jsonl, .parquet or .csv files",
                facts={"data": name},
            )
        for match in matches:
            files.setdefault(match.location.uri, match)
    return tuple(files.values())


def unreadable_input(file: InputFile, error: Exception) -> ContentError:
    """The error for a file whose bytes are not what its name says."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ContentError(
        f"'{file.name}' cannot be read as {file.format.value}{file.compression.value}: {lines[0]}",
        code="input_unreadable",
        hint="nothing was written; the file is damaged, cut off or of another format: write it again",
        facts={"data": file.name},
    )


def require_unchanged(file: InputFile) -> None:
    """Raise when the file is not the one that the load was planned for."""
    actual = read_stamp(file.location)
    if actual != file.stamp:
        raise ContentError(
            f"'{file.name}' changed during the load: expected {file.stamp}, got {actual or 'no file'}",
            code="input_changed",
            hint="Nothing was written. Load the file again when no process writes to it.",
            facts={"data": file.name, "expected": str(file.stamp), "actual": str(actual or "no file")},
        )


def _expand(name: str, options: Mapping[str, str] | None) -> Iterator[InputFile]:
    location = parse_location(name.rstrip("/") or name, options)
    if location.scheme is Scheme.LOCAL:
        yield from _expand_local(name, location)
    else:
        yield from _expand_remote(name, location)


def _expand_local(name: str, location: Location) -> Iterator[InputFile]:
    path = Path(location.uri)
    if path.is_dir():
        _refuse_graph(name, path)
        entries = sorted(entry for entry in path.rglob("*") if entry.is_file())
        for entry in entries:
            # Other files that lie there are passed over.
            if _format_of(entry.name) is not None and not _is_aside(entry.relative_to(path).parts):
                yield _named_file(entry, str(entry))
    elif path.is_file():
        yield _named_file(path, name)
    elif _GLOB_CHARACTERS & set(name):
        start = _before_pattern(name, path)
        matches = {
            match
            for folder, pattern in _split_glob(start, path.relative_to(start).parts)
            for match in folder.glob(str(pattern))
            if match.is_file() and not _is_aside(match.relative_to(folder).parts, pattern.parts)
        }
        for match in sorted(matches):
            yield _named_file(match, str(match))


def _expand_remote(name: str, location: Location) -> Iterator[InputFile]:
    bucket, _, key = location.uri.split("://", 1)[1].partition("/")
    fixed = key[: min((key.index(c) for c in _GLOB_CHARACTERS & set(key)), default=len(key))]
    folder = fixed.rpartition("/")[0] if fixed != key else key
    whole_bucket = Location(location.scheme, f"{location.scheme.value}://{bucket}", location.options)
    refused: StorageError | None = None
    if key and fixed == key:
        try:
            stamp = read_stamp(whole_bucket.child(key))
        except StorageError as error:
            if error.code != "permission_denied":
                raise
            # So AWS answers for what is no object, too, to those who may list only some folders.
            stamp, refused = None, error
        if stamp is not None:
            yield _file(name, whole_bucket.child(key), stamp)
            return
    root = whole_bucket.child(folder) if folder else whole_bucket
    asked = key.removeprefix(folder).split("/")
    for entry in _list_folder(root, refused):
        whole = f"{folder}/{entry.path}" if folder else entry.path
        if fixed != key and not fnmatch.fnmatchcase(whole, key):
            continue
        if _is_aside(entry.path.split("/"), asked):
            continue
        if fixed != key or _format_of(entry.path) is not None:
            place = root.child(entry.path)
            yield _file(place.uri, place, FileStamp(entry.size, entry.version))


def _list_folder(root: Location, refused: StorageError | None) -> tuple[ObjectEntry, ...]:
    """What is below a folder. When that is nothing, it may have been a file, which the store refused to tell of."""
    entries: tuple[ObjectEntry, ...] = ()
    try:
        entries = ObjectStore(root).list("")
    except StorageError:
        if refused is None:
            raise
    if refused is not None and not entries:
        raise refused
    return entries


def _refuse_graph(name: str, path: Path) -> None:
    if (path / "__manifest").is_dir():
        raise UsageError(
            f"'{name}' is a graph, not data",
            code="input_is_graph",
            hint="export it first, then load what was exported",
            facts={"data": name},
        )


def _before_pattern(name: str, path: Path) -> Path:
    """The folder before the first pattern in what was typed. The way to the working directory is no pattern."""
    typed = Path(name).parts
    plain = itertools.takewhile(lambda part: not _GLOB_CHARACTERS & set(part), typed)
    folder = Path(os.path.realpath(Path(*plain)))
    return folder if path.is_relative_to(folder) else Path(path.anchor)


def _split_glob(folder: Path, parts: Sequence[str]) -> Iterator[tuple[Path, PurePath]]:
    """The folders that a glob is looked for in, each with the rest. One that is called like a pattern is meant, too."""
    first = next((index for index, part in enumerate(parts) if _GLOB_CHARACTERS & set(part)), None)
    if first is None:
        return
    yield folder.joinpath(*parts[:first]), PurePath(*parts[first:])
    literal = folder.joinpath(*parts[: first + 1])
    if literal.is_dir():
        yield from _split_glob(literal, parts[first + 1 :])


def _is_aside(parts: Sequence[str], requested: Sequence[str] = ()) -> bool:
    """Whether a file, or a folder on the way to it, is hidden or only lies beside data, like a log.

    As in a shell, one that is asked for by such a name is meant.
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
            f"'{name}' is not a data file that load knows",
            code="input_format",
            hint="name it .jsonl, .ndjson, .json or .csv (also .gz or .zst), or .parquet",
            facts={"data": name},
        )
    compression = compression_of(location.uri)
    if format_ is InputFormat.PARQUET and compression is not Compression.NONE:
        raise UsageError(
            f"'{name}' is Parquet inside of another packing",
            code="input_format",
            hint=f"unpack it first: Parquet is packed inside, and {compression.value} only hides it",
            facts={"data": name},
        )
    return InputFile(name, location, stamp, format_, compression)


def _format_of(name: str) -> InputFormat | None:
    return _FORMATS.get(Path(name.removesuffix(compression_of(name).value)).suffix.lower())
