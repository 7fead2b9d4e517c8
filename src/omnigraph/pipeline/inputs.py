"""What a load reads: files, directories and globs, local or on S3, become a list of files with sizes and formats.

In: what the user typed. Out: `InputFile` values in a stable order. A name that matches nothing, a file that is
no data file, and an empty list are refused before anything starts. Only names and sizes are read here, never
contents.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from omnigraph.base.errors import ContentError, UsageError
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectStore


class InputFormat(Enum):
    """How the records of a file are written."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    CSV = "csv"


class Compression(Enum):
    """How the bytes of a text file are packed. Only an unpacked file can be read from the middle."""

    NONE = ""
    GZIP = ".gz"
    ZSTD = ".zst"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read. `name` is what the user knows it by; `location` is where it is opened."""

    name: str
    location: Location
    size: int
    format: InputFormat
    compression: Compression


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
    found: dict[str, InputFile] = {}
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
            found.setdefault(match.location.uri, match)
    return tuple(found.values())


def unreadable_input(file: InputFile, error: Exception) -> ContentError:
    """The error for a file whose bytes are not what its name says."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ContentError(
        f"'{file.name}' cannot be read as {file.format.value}{file.compression.value}: {lines[0]}",
        code="input_unreadable",
        hint="nothing was written; the file is damaged, cut off or of another format: write it again",
        facts={"data": file.name},
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
        found = (entry for entry in path.rglob("*") if entry.is_file())
        yield from _data_files(sorted(entry for entry in found if not _is_beside(path, entry)))
    elif path.is_file():
        yield _named_file(path, name)
    elif _GLOB_CHARACTERS & set(name):
        pattern = path.relative_to(path.anchor)
        matches = sorted(Path(path.anchor).glob(str(pattern)))
        for match in matches:
            # As in a shell, a hidden file must be asked for; and what only lies beside data, too.
            if match.is_file() and (_is_aside(pattern.name) or not _is_aside(match.name)):
                yield _named_file(match, str(match))


def _expand_remote(name: str, location: Location) -> Iterator[InputFile]:
    bucket, _, key = location.uri.split("://", 1)[1].partition("/")
    fixed = key[: min((key.index(c) for c in _GLOB_CHARACTERS & set(key)), default=len(key))]
    folder = fixed.rpartition("/")[0] if fixed != key else key
    root = Location(
        location.scheme, f"{location.scheme.value}://{bucket}/{folder}".rstrip("/"), location.options
    )
    parent, _, leaf = key.rpartition("/")
    if fixed == key:
        beside = ObjectStore(
            Location(
                location.scheme, f"{location.scheme.value}://{bucket}/{parent}".rstrip("/"), location.options
            )
        )
        for entry in beside.list(""):
            if entry.path == leaf:
                yield _file(name, beside.location.child(entry.path), entry.size)
                return
    for entry in ObjectStore(root).list(""):
        whole = f"{folder}/{entry.path}" if folder else entry.path
        if fixed != key and not fnmatch.fnmatchcase(whole, key):
            continue
        if any(map(_is_aside, entry.path.split("/"))) and not any(map(_is_aside, key.split("/"))):
            continue
        if fixed != key or _format_of(entry.path) is not None:
            place = root.child(entry.path)
            yield _file(place.uri, place, entry.size)


def _refuse_graph(name: str, path: Path) -> None:
    if (path / "__manifest").is_dir():
        raise UsageError(
            f"'{name}' is a graph, not data",
            code="input_is_graph",
            hint="export it first, then load what was exported",
            facts={"data": name},
        )


def _is_beside(folder: Path, path: Path) -> bool:
    """Whether the file, or a folder on the way to it, is hidden or only lies beside data, like a log."""
    return any(_is_aside(part) for part in path.relative_to(folder).parts)


def _is_aside(name: str) -> bool:
    return name.startswith((".", "_"))


def _data_files(paths: Sequence[Path]) -> Iterator[InputFile]:
    """The data files among those of a directory; others that lie there are passed over."""
    for path in paths:
        if _format_of(path.name) is not None:
            yield _named_file(path, str(path))


def _named_file(path: Path, name: str) -> InputFile:
    return _file(name, parse_location(str(path)), path.stat().st_size)


def _file(name: str, location: Location, size: int) -> InputFile:
    format_ = _format_of(location.uri)
    if format_ is None:
        raise UsageError(
            f"'{name}' is not a data file that load knows",
            code="input_format",
            hint="name it .jsonl, .ndjson, .json or .csv (also .gz or .zst), or .parquet",
            facts={"data": name},
        )
    compression = _compression_of(location.uri)
    if format_ is InputFormat.PARQUET and compression is not Compression.NONE:
        raise UsageError(
            f"'{name}' is Parquet inside of another packing",
            code="input_format",
            hint=f"unpack it first: Parquet is packed inside, and {compression.value} only hides it",
            facts={"data": name},
        )
    return InputFile(name, location, size, format_, compression)


def _compression_of(name: str) -> Compression:
    return next((c for c in (Compression.GZIP, Compression.ZSTD) if name.endswith(c.value)), Compression.NONE)


def _format_of(name: str) -> InputFormat | None:
    return _FORMATS.get(Path(name.removesuffix(_compression_of(name).value)).suffix.lower())
