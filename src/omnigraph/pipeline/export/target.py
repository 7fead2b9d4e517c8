"""The target of an export: a stream, one file, or a directory of parts, on disk or on S3.

In: a path as the user writes it. Out: an `ExportTarget`; one that exists is rejected before any task starts. Parts are
written to a work directory and moved to the target when all of them are complete, so no incomplete file has a final
name. An object store cannot rename, so the parts of a new directory are written there with their final names; each is
complete, and a failed export deletes them. A killed process leaves the work directory.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from omnigraph.base import limits
from omnigraph.base.errors import RefusedError, UsageError
from omnigraph.base.hints import Argument, Hint, Placeholder, hint
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.pipeline.export.tasks import ExportFormat, Part, compressed
from omnigraph.schema.catalog import Entity
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.files import Compression, compression_of, file_exists, move_file, read_bytes, write_file
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import sync_entries

_SUFFIXES: Final = {ExportFormat.NDJSON: ".jsonl", ExportFormat.PARQUET: ".parquet"}
_PART_NAME: Final = re.compile(r"(node|edge)-([A-Za-z0-9_]+)-[0-9]{5,}\.(jsonl|parquet)")
_FORCE: Final = Argument("force")
_STREAM: Final = "-"
PARTS: Final = "parts"
"""The directory below the work directory that has the parts with their final names."""


class TargetKind(Enum):
    """The kind of an export."""

    STREAM = "stream"
    """Lines on stdout."""
    FILE = "file"
    """One file."""
    FOLDER = "folder"
    """A directory of files."""


def parse_format(name: str) -> ExportFormat:
    """Return the format of that name."""
    try:
        return ExportFormat(name)
    except ValueError as unknown:
        names = ", ".join(export_format.value for export_format in ExportFormat)
        raise UsageError(
            f"unknown export format: '{name}'", code="export_format", hint=f"Use one of {names}."
        ) from unknown


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """The location of an export; a stream has none. `force` replaces an earlier export."""

    kind: TargetKind
    location: Location | None = None
    force: bool = False
    compression: Compression = Compression.NONE

    @property
    def destination(self) -> Location:
        assert self.location is not None, "a stream has no location"
        return self.location

    @property
    def takes_parts(self) -> bool:
        """Return whether workers write parts to their final location."""
        return self.kind is TargetKind.FOLDER and not self.destination.is_local and not self.force


def parse_target(
    out: str | None,
    format_: ExportFormat,
    options: Mapping[str, str] | None = None,
    *,
    force: bool = False,
    durability: str | None = None,
) -> ExportTarget:
    """Return the target that a string names; raise if it is not valid.

    `durability` is that of the graph: `sync` or `process`; None is the value of `OMNIGRAPH_DURABILITY`.
    """
    if out is None or out == _STREAM:
        if format_ is ExportFormat.PARQUET:
            raise UsageError(
                "Parquet is written to files: expected a directory, got stdout",
                code="export_format",
                hint=hint("Pass {}.", Argument("out", Placeholder("DIRECTORY/"))),
            )
        return ExportTarget(TargetKind.STREAM)
    location = parse_location(out.rstrip("/") or out, options, durability)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"export to memory is not possible: expected a file or a directory, got '{out}'",
            code="export_target",
            hint=hint("Pass {} on disk or on S3.", Argument("out", Placeholder("FILE"))),
        )
    is_directory = location.is_local and Path(location.uri).is_dir()
    if format_ is ExportFormat.PARQUET or out.endswith("/") or is_directory:
        return ExportTarget(TargetKind.FOLDER, location, force)
    if out.endswith((_SUFFIXES[ExportFormat.PARQUET], ".csv")):
        raise UsageError(
            f"the extension of '{out}' does not match the format: expected .jsonl, got {Path(out).suffix}",
            code="export_format",
            hint=hint("Pass {} and a directory, or a file name that ends in .jsonl.", Argument("format", "parquet")),
        )
    return ExportTarget(TargetKind.FILE, location, force, compression_of(out))


def require_free_target(target: ExportTarget) -> None:
    """Raise if the target exists and must not be replaced."""
    match target.kind:
        case TargetKind.STREAM:
            return
        case TargetKind.FILE:
            _require_parent(target.destination)
            if file_exists(target.destination) and not target.force:
                raise _target_exists(
                    target.destination, "already exists", hint("Pass {} to replace it, or another name.", _FORCE)
                )
        case TargetKind.FOLDER:
            _require_parent(target.destination)
            _require_free_directory(target)


def part_name(entity: Entity, number: int, format_: ExportFormat) -> str:
    """Return the name of a part; the names of the parts of a type sort in id order."""
    return f"{entity.kind.value}-{entity.name}-{number:05d}{_SUFFIXES[format_]}"


def type_of_part(name: str) -> str | None:
    """Return the type of the rows of a part, from the name of its file; None for another file."""
    match = _PART_NAME.fullmatch(name)
    return None if match is None else match[2]


@contextmanager
def open_work_directory(root: Location, target: ExportTarget, *, shares_disk: bool) -> Iterator[Scratch]:
    """Create the work directory for parts and runs, and delete it at the end.

    It is next to the target if workers share this machine's disk, otherwise below the root of the graph, which all of
    them can read.
    """
    if not shares_disk:
        with open_scratch(root) as scratch:
            yield _create_parts_directory(scratch)
        return
    local_path = Path(target.destination.uri) if target.location is not None and target.destination.is_local else None
    parent_directory = None if local_path is None else str(local_path.parent)
    prefix = "omnigraph-export-" if local_path is None else f".{local_path.name}."
    with translate_errors("write", parent_directory or tempfile.gettempdir()):
        directory = tempfile.TemporaryDirectory(dir=parent_directory, prefix=prefix, ignore_cleanup_errors=True)
    durability = (target.location or root).durability
    with directory as name:
        yield _create_parts_directory(Scratch(parse_location(name, durability=durability)))


def _create_parts_directory(scratch: Scratch) -> Scratch:
    # Workers do not create it: a late worker must not write after the end.
    if scratch.location.is_local:
        with translate_errors("write", scratch.location.uri):
            Path(scratch.location.child(PARTS).uri).mkdir(parents=True)
    return scratch


def deliver_file(target: ExportTarget, parts: Sequence[Part]) -> int:
    """Write all parts as one file; return its number of bytes."""
    empty = BytesIO()
    if not parts:
        # An empty file is not a valid compressed file.
        with compressed(empty, target.compression):
            pass
    with write_file(target.destination) as file:
        file.write(empty.getvalue())
        copy_parts(parts, file)
    return len(empty.getvalue()) + sum(part.size_bytes for part in parts)


def copy_parts(parts: Sequence[Part], sink: BinaryIO) -> None:
    """Copy the bytes of parts, one after the other."""
    for part in parts:
        for start in range(0, part.size_bytes, limits.EXPORT_COPY_BYTES):
            sink.write(read_bytes(part.output, start, min(limits.EXPORT_COPY_BYTES, part.size_bytes - start)))


def delete_parts(parts: Sequence[Part]) -> None:
    """Delete parts that are already copied, so that a stream needs little disk space."""
    for part in parts:
        directory, _, name = part.output.uri.rpartition("/")
        ObjectStore(Location(scheme=part.output.scheme, uri=directory, options=part.output.options)).delete(name)


def deliver_folder(target: ExportTarget, parts: Sequence[Part]) -> tuple[Location, ...]:
    """Move each part to the directory under its name; delete parts of an earlier export; return the new locations."""
    names = [part.output.uri.rpartition("/")[2] for part in parts]
    if target.destination.is_local:
        with translate_errors("write the directory", target.destination.uri):
            _fill_directory(target.destination, dict(zip(names, parts, strict=True)))
            if target.destination.is_synced:
                directory = Path(target.destination.uri)
                sync_entries([directory / name for name in names], directory)
                sync_entries([directory], directory.parent)
    elif not target.takes_parts:
        for name, part in zip(names, parts, strict=True):
            deliver_file(ExportTarget(TargetKind.FILE, target.destination.child(name)), [part])
    for entry in _names_in(target.destination):
        if _PART_NAME.fullmatch(entry) and entry not in names:
            ObjectStore(target.destination).delete(entry)
    return tuple(target.destination.child(name) for name in names)


def delete_target_parts(target: ExportTarget, parts: Sequence[str]) -> None:
    """Delete the parts of a failed export that workers wrote to their final location."""
    for name in parts:
        ObjectStore(target.destination).delete(name)


def _fill_directory(location: Location, parts: Mapping[str, Part]) -> None:
    """Rename a complete new directory to its final name, or replace files of an existing directory one by one."""
    directory = Path(location.uri)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as draft:
        full = Path(draft) / "full"
        full.mkdir()
        for name, part in parts.items():
            _move_part(part, parse_location(str(full / name), durability=location.durability))
        if not directory.exists():
            full.rename(directory)
            return
        for name in parts:
            (full / name).replace(directory / name)


def _move_part(part: Part, location: Location) -> None:
    is_same_disk = (
        part.output.is_local and Path(part.output.uri).stat().st_dev == Path(location.uri).parent.stat().st_dev
    )
    if is_same_disk:
        move_file(part.output, location)
    else:
        deliver_file(ExportTarget(TargetKind.FILE, location), [part])


def _require_parent(location: Location) -> None:
    if location.is_local and not Path(location.uri).parent.is_dir():
        parent = Path(location.uri).parent
        raise UsageError(
            f"missing directory: '{parent}' does not exist",
            code="export_folder_missing",
            hint="Create it first, or choose another directory.",
        )


def _require_free_directory(target: ExportTarget) -> None:
    location = target.destination
    if location.is_local and Path(location.uri).exists() and not Path(location.uri).is_dir():
        raise _target_exists(location, "is a file: expected a directory", hint("Choose another name."))
    names = _names_in(location)
    if any(not _PART_NAME.fullmatch(name) for name in names):
        raise _target_exists(location, "contains other files", hint("Choose an empty directory, or a new one."))
    if names and not target.force:
        raise _target_exists(
            location, "already contains an export", hint("Pass {} to replace it, or another directory.", _FORCE)
        )


def _names_in(location: Location) -> tuple[str, ...]:
    return tuple(name for name in ObjectStore(location).list_names() if name)


def _target_exists(location: Location, problem: str, advice: Hint) -> RefusedError:
    return RefusedError(f"'{location}' {problem}", code="export_exists", hint=advice, facts={"out": location.uri})
