"""Rows that are not in a file yet: dicts from Python, and a stream such as standard input.

In: dicts or a stream, and the type of the rows if they do not name it. Out: pieces in the scratch directory, which
every executor can read. A stream is copied in blocks and never held as a whole. Dicts become lines of JSON, so that
they are read and checked like a file of JSON lines. The caller that opened the scratch directory deletes it.
"""

from __future__ import annotations

import json
import math
import shutil
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeGuard

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, hint
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.raw import FROM, TO
from omnigraph.pipeline.load.inputs.blocks import Piece
from omnigraph.pipeline.load.inputs.csv_rows import plan_csv_pieces
from omnigraph.pipeline.load.inputs.files import InputFile, InputFormat, missing_type
from omnigraph.pipeline.load.inputs.frames import frame_name
from omnigraph.pipeline.load.inputs.ndjson import JsonPiece, plan_json_pieces
from omnigraph.pipeline.load.inputs.parquet import plan_parquet_pieces
from omnigraph.pipeline.load.inputs.ranges import ByteRange
from omnigraph.schema.catalog import EdgeType, Entity
from omnigraph.storage.files import Compression, FileStamp, read_stamp, write_file

_PARQUET: Final = b"PAR1"
_COMPRESSIONS: Final = {b"\x1f\x8b": Compression.GZIP, b"\x28\xb5\x2f\xfd": Compression.ZSTD}
_UNNAMED: Final = "<rows>"

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StreamInput:
    """A stream that is read once, and its name in reports."""

    stream: BinaryIO
    name: str


def is_records(data: object) -> TypeGuard[Sequence[Record]]:
    """Return whether this is a list of dicts; it may be empty."""
    return isinstance(data, list | tuple) and all(isinstance(item, Mapping) for item in data)


def stage_stream(source: StreamInput, entity: Entity | None, scratch: Scratch) -> tuple[Piece, ...]:
    """Copy a stream to the scratch directory. Its first bytes, and whether its type is named, decide the format."""
    location = scratch.location.child("stream")
    if location.is_local:
        Path(location.uri).parent.mkdir(parents=True, exist_ok=True)
    head = source.stream.read(len(_PARQUET))
    with write_file(location) as file:
        file.write(head)
        shutil.copyfileobj(source.stream, file, limits.LOAD_BLOCK_BYTES)
    stamp = read_stamp(location)
    assert stamp is not None, "the file was just written"
    text_format = InputFormat.NDJSON if entity is None else InputFormat.CSV
    input_file = InputFile(
        name=source.name,
        location=location,
        stamp=stamp,
        format=InputFormat.PARQUET if head == _PARQUET else text_format,
        compression=next((value for magic, value in _COMPRESSIONS.items() if head.startswith(magic)), Compression.NONE),
    )
    if entity is None:
        if input_file.format is not InputFormat.NDJSON:
            raise missing_type(input_file)
        return plan_json_pieces([input_file])
    if head.lstrip().startswith(b"{"):
        raise unexpected_type(source.name, entity.name)
    if input_file.format is InputFormat.PARQUET:
        return plan_parquet_pieces([input_file], entity)
    return plan_csv_pieces([input_file], entity)


def unexpected_type(name: str, type_name: str) -> UsageError:
    """Return the error for a type that was named for lines that name their own types."""
    return UsageError(
        f"unexpected type '{type_name}': '{name}' is NDJSON, in which every line names its type",
        code="load_type_unused",
        hint=hint("Omit {}. It is for Parquet and CSV.", Argument("type", type_name)),
        facts={"data": name, "type": type_name},
    )


def stage_records(records: Sequence[Record], entity: Entity | None, scratch: Scratch) -> tuple[JsonPiece, ...]:
    """Write dicts as lines of JSON. With a type, each dict is one row; otherwise it is a line that names its type."""
    name = _UNNAMED if entity is None else frame_name(entity)
    return tuple(
        _make_piece(name, part, data, scratch) for part, data in enumerate(_text_parts(_lines(records, entity)))
    )


def _make_piece(name: str, part: int, data: bytes, scratch: Scratch) -> JsonPiece:
    file = InputFile(
        name=name,
        location=scratch.location.child(scratch.write("records", data)),
        stamp=FileStamp(len(data), ""),
        format=InputFormat.NDJSON,
        compression=Compression.NONE,
    )
    whole = ByteRange(file, part, 0, len(data))
    return JsonPiece(name=name, file=None, part=part, size_bytes=len(data), text_bytes=len(data), range=whole)


def _text_parts(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Combine lines into parts for one file each; the first parts are small, so that every core has some work."""
    pending, size, parts = [], 0, 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= (limits.LOAD_RANGE_BYTES_MIN if parts < limits.LOAD_RANGES_MIN else limits.LOAD_RANGE_BYTES):
            yield b"".join(pending)
            pending, size, parts = [], 0, parts + 1
    if pending:
        yield b"".join(pending)


def _lines(records: Sequence[Record], entity: Entity | None) -> Iterator[bytes]:
    for record in records:
        members = _json_value(record)
        if entity is not None:
            ends = {name: members.pop(name) for name in (FROM, TO) if name in members and isinstance(entity, EdgeType)}
            members = {"edge" if isinstance(entity, EdgeType) else "type": entity.name, **ends, "data": members}
        yield json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _json_value(value: object) -> Any:
    """Return a value of Python as one of JSON. What has no such value becomes text, which no property accepts."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case date():  # also a datetime
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return f"base64:{b64encode(value).decode()}"
        case Mapping():
            return {str(name): _json_value(member) for name, member in value.items()}
        case list() | tuple():
            return [_json_value(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return _json_value(value.tolist())
    return str(value)
