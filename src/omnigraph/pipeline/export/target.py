"""Where an export goes: a stream, one file, or a folder of parts; on disk or on S3.

In: what the user typed. Out: a `ExportTarget`, refused before anything starts when something is there already. Parts
are written elsewhere and brought here when all of them are whole, so nothing half-written ever has a final name. Only
an object store, which cannot rename, gets the parts of a new folder under their names at once; each of them is whole,
and an export that fails takes them away.
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
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.pipeline.export.tasks import ExportFormat, Part, packed
from omnigraph.schema.catalog import Entity
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.files import (
    Compression,
    compression_of,
    file_exists,
    move_file,
    read_bytes,
    write_file,
)
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import sync_entries

_SUFFIXES: Final = {ExportFormat.NDJSON: ".jsonl", ExportFormat.PARQUET: ".parquet"}
_PART_NAME: Final = re.compile(r"(node|edge)-[A-Za-z0-9_]+-[0-9]{5,}\.(jsonl|parquet)")
_STREAM: Final = "-"
PARTS: Final = "parts"
"""The folder of scratch in which parts lie under their names."""


class TargetKind(Enum):
    """The shape of an export."""

    STREAM = "stream"
    """Lines on stdout."""
    FILE = "file"
    """One file."""
    FOLDER = "folder"
    """A folder of files."""


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
    """The place of an export; a stream has none. `force` replaces what an earlier export left there."""

    kind: TargetKind
    location: Location | None = None
    force: bool = False
    compression: Compression = Compression.NONE

    @property
    def place(self) -> Location:
        assert self.location is not None, "a stream has no place"
        return self.location

    @property
    def takes_parts(self) -> bool:
        """Whether workers write parts where they belong."""
        return self.kind is TargetKind.FOLDER and not self.place.is_local and not self.force


def parse_target(
    out: str | None,
    format_: ExportFormat,
    options: Mapping[str, str] | None = None,
    *,
    force: bool = False,
    durability: str | None = None,
) -> ExportTarget:
    """Return the target that a string names; raise for one that is not valid.

    `durability` is that of the graph: `sync` or `process`; None: as `OMNIGRAPH_DURABILITY` says.
    """
    if out is None or out == _STREAM:
        if format_ is ExportFormat.PARQUET:
            raise UsageError(
                "Parquet is written as files, not to stdout", code="export_format", hint="pass --out FOLDER/"
            )
        return ExportTarget(TargetKind.STREAM)
    location = parse_location(out.rstrip("/") or out, options, durability)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"an export to memory ends with its process: '{out}'",
            code="export_target",
            hint="pass a file or a folder, on disk or on S3",
        )
    is_there = location.is_local and Path(location.uri).is_dir()
    if format_ is ExportFormat.PARQUET or out.endswith("/") or is_there:
        return ExportTarget(TargetKind.FOLDER, location, force)
    if out.endswith(_SUFFIXES[ExportFormat.PARQUET]):
        raise UsageError(
            f"'{out}' is named like Parquet, and the export is NDJSON",
            code="export_format",
            hint="pass --format parquet and a folder, or name the file .jsonl",
        )
    return ExportTarget(TargetKind.FILE, location, force, compression_of(out))


def refuse_taken(target: ExportTarget) -> None:
    """Raise unless the target is free, or may be replaced."""
    match target.kind:
        case TargetKind.STREAM:
            return
        case TargetKind.FILE:
            _refuse_missing_parent(target.place)
            if file_exists(target.place) and not target.force:
                raise _taken(target.place, "is there already", "pass --force to replace it, or another name")
        case TargetKind.FOLDER:
            _refuse_missing_parent(target.place)
            _refuse_taken_folder(target)


def part_name(entity: Entity, number: int, format_: ExportFormat) -> str:
    """The name of a part; parts of a type in the order of their names are in the order of their ids."""
    return f"{entity.kind.value}-{entity.name}-{number:05d}{_SUFFIXES[format_]}"


@contextmanager
def open_workplace(root: Location, target: ExportTarget, *, share_disk: bool) -> Iterator[Scratch]:
    """Where workers put what is not whole yet, gone at the end.

    Beside the target when they share this machine's disk, otherwise below the graph's root, which they all reach.
    """
    if not share_disk:
        with open_scratch(root) as scratch:
            yield _furnished(scratch)
        return
    local_path = Path(target.place.uri) if target.location is not None and target.place.is_local else None
    folder = None if local_path is None else str(local_path.parent)
    prefix = "omnigraph-export-" if local_path is None else f".{local_path.name}."
    with substrate_errors("write", folder or tempfile.gettempdir()):
        made = tempfile.TemporaryDirectory(dir=folder, prefix=prefix, ignore_cleanup_errors=True)
    durability = (target.location or root).durability
    with made as name:
        yield _furnished(Scratch(parse_location(name, durability=durability)))


def _furnished(scratch: Scratch) -> Scratch:
    """With the folder of parts on disk. Workers make none: one that comes too late must find no place to write to."""
    if scratch.location.is_local:
        with substrate_errors("write", scratch.location.uri):
            Path(scratch.location.child(PARTS).uri).mkdir(parents=True)
    return scratch


def deliver_file(target: ExportTarget, parts: Sequence[Part]) -> int:
    """All parts as one file, and how many bytes it has."""
    nothing = BytesIO()
    if not parts:
        # No bytes at all are no packed file.
        with packed(nothing, target.compression):
            pass
    with write_file(target.place) as file:
        file.write(nothing.getvalue())
        copy_parts(parts, file)
    return len(nothing.getvalue()) + sum(part.size_bytes for part in parts)


def copy_parts(parts: Sequence[Part], sink: BinaryIO) -> None:
    """The bytes of parts, one after the other."""
    for part in parts:
        for start in range(0, part.size_bytes, limits.EXPORT_COPY_BYTES):
            sink.write(read_bytes(part.output, start, min(limits.EXPORT_COPY_BYTES, part.size_bytes - start)))


def delete_parts(parts: Sequence[Part]) -> None:
    """Delete parts that are where they belong already, so that a stream needs no room for all of it."""
    for part in parts:
        folder, _, name = part.output.uri.rpartition("/")
        ObjectStore(Location(part.output.scheme, folder, part.output.options)).delete(name)


def deliver_folder(target: ExportTarget, parts: Sequence[Part]) -> tuple[Location, ...]:
    """Each part under its name in the target's folder; parts of an earlier export go. Where each is now."""
    names = [part.output.uri.rpartition("/")[2] for part in parts]
    if target.place.is_local:
        with substrate_errors("write the folder", target.place.uri):
            _fill_folder(target.place, dict(zip(names, parts, strict=True)))
            if target.place.is_synced:
                folder = Path(target.place.uri)
                sync_entries([folder / name for name in names], folder)
                sync_entries([folder], folder.parent)
    elif not target.takes_parts:
        for name, part in zip(names, parts, strict=True):
            deliver_file(ExportTarget(TargetKind.FILE, target.place.child(name)), [part])
    for entry in _names_in(target.place):
        if _PART_NAME.fullmatch(entry) and entry not in names:
            ObjectStore(target.place).delete(entry)
    return tuple(target.place.child(name) for name in names)


def take_away(target: ExportTarget, parts: Sequence[str]) -> None:
    """Delete parts that workers wrote where they belong, of an export that failed."""
    for name in parts:
        ObjectStore(target.place).delete(name)


def _fill_folder(place: Location, parts: Mapping[str, Part]) -> None:
    """A new folder gets its name when it is full; one that is there gets whole files."""
    folder = Path(place.uri)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as draft:
        full = Path(draft) / "full"
        full.mkdir()
        for name, part in parts.items():
            _bring(part, parse_location(str(full / name), durability=place.durability))
        if not folder.exists():
            full.rename(folder)
            return
        for name in parts:
            (full / name).replace(folder / name)


def _bring(part: Part, place: Location) -> None:
    is_here = (
        part.output.is_local and Path(part.output.uri).stat().st_dev == Path(place.uri).parent.stat().st_dev
    )
    if is_here:
        move_file(part.output, place)
    else:
        deliver_file(ExportTarget(TargetKind.FILE, place), [part])


def _refuse_missing_parent(location: Location) -> None:
    if location.is_local and not Path(location.uri).parent.is_dir():
        parent = Path(location.uri).parent
        raise UsageError(
            f"there is no folder {parent}",
            code="export_folder_missing",
            hint="make it first, or choose another",
        )


def _refuse_taken_folder(target: ExportTarget) -> None:
    place = target.place
    if place.is_local and Path(place.uri).exists() and not Path(place.uri).is_dir():
        raise _taken(place, "is a file, and the parts go to a folder", "choose another name")
    names = _names_in(place)
    if any(not _PART_NAME.fullmatch(name) for name in names):
        raise _taken(place, "holds other files", "choose an empty folder, or a new one")
    if names and not target.force:
        raise _taken(place, "holds an export already", "pass --force to replace it, or another folder")


def _names_in(place: Location) -> tuple[str, ...]:
    return tuple(name for name in ObjectStore(place).folders() if name)


def _taken(place: Location, sentence: str, hint: str) -> RefusedError:
    return RefusedError(f"{place} {sentence}", code="export_exists", hint=hint, facts={"out": place.uri})
