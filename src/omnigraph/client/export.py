"""Exports of a server: its lines, to a stream or to a file that gets its name when it is complete, and their counts."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike, fspath
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import msgspec

from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.pipeline.export.target import TargetKind, parse_target, require_free_target
from omnigraph.pipeline.export.tasks import ExportFormat, compressed
from omnigraph.storage.files import write_file
from omnigraph.wire.requests import ExportRequest, StateParameters
from omnigraph.wire.results import ExportedTypeOutput, ExportOutput

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesRequest:
    """What to export. `branch` is that of the result; `force` replaces an earlier file. Without types, all."""

    state: StateParameters
    branch: str
    types: list[str] | None
    force: bool


def export_lines(client: GraphClient, lines: LinesRequest, out: str | PathLike[str] | IO[bytes]) -> ExportOutput:
    """Write a state as lines of graph data, and return how many of each type."""
    types = lines.types
    snapshot = client.snapshot(lines.state)
    request = ExportRequest(snapshot=snapshot.graph_commit_id, type_names=types)
    counts = {dataset.type_name: 0 for dataset in snapshot.datasets}
    files = []
    with ExitStack() as stack:
        if isinstance(out, str | PathLike):
            target = parse_target(fspath(out), ExportFormat.NDJSON, force=lines.force)
            if target.kind is not TargetKind.FILE:
                raise not_one_file()
            require_free_target(target)
            files = [target.destination.uri]
            written = CountedBytes(stack.enter_context(write_file(target.destination)))
            text = stack.enter_context(compressed(cast("BinaryIO", written), target.compression))
        else:
            text = cast("BinaryIO", written := CountedBytes(out))
        client.export(request, cast("BinaryIO", CountedLines(text, counts)))
    names = {name.rpartition(":")[2] for name in types or counts}

    def exported(kind: str) -> list[ExportedTypeOutput]:
        alias_types = [dataset.type_name for dataset in snapshot.datasets if dataset.entity_kind == kind]
        return [ExportedTypeOutput(name, counts[name]) for name in alias_types if name in names]

    return ExportOutput(
        uri=client.uri,
        branch=lines.branch,
        graph_commit_id=snapshot.graph_commit_id,
        format="ndjson",
        files=files,
        size_bytes=written.size,
        nodes=exported("node"),
        edges=exported("edge"),
        total_entities=sum(counts.values()),
        runner="local",
    )


def not_one_file() -> UsageError:
    """Return the error for an export of a server to something else than a stream or one file."""
    return UsageError(
        "a server exports NDJSON to stdout or to one file",
        code="flag_over_server",
        hint=hint(
            "Pass {}, or work on a machine that reaches the storage of the graph.", Argument("out", Placeholder("FILE"))
        ),
    )


class CountedBytes:
    """Passes bytes to a stream, and counts them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.size = stream, 0

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self.size += len(data)
        return self._stream.write(data)


class CountedLines:
    """Passes bytes to a stream, and counts the lines of each type."""

    def __init__(self, stream: IO[bytes], counts: dict[str, int]) -> None:
        self._stream, self._counts, self._rest = stream, counts, b""

    def write(self, data: bytes) -> int:
        """Write bytes, and count the lines that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            entity = msgspec.json.decode(line)
            self._counts[entity["type"] if "type" in entity else entity["edge"]] += 1
        return self._stream.write(data)
