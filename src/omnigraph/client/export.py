"""Exports of a server: its lines, to a stream or to a file that gets its name when it is complete, and their counts."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import msgspec

from omnigraph.wire.requests import ExportStateRequest, StateParameters
from omnigraph.wire.results import ExportedTypeOutput, ExportOutput

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient


def export_lines(
    client: GraphClient,
    state: StateParameters,
    branch: str,
    type_names: list[str] | None,
    out: str | PathLike[str] | IO[bytes],
) -> ExportOutput:
    """Write a state as lines of graph data, and return how many of each type. `branch`: its branch for the result."""
    snapshot = client.snapshot(state)
    request = ExportStateRequest(snapshot=snapshot.graph_commit_id, type_names=type_names)
    counts = {dataset.type_name: 0 for dataset in snapshot.datasets}
    if isinstance(out, str | PathLike):
        path = Path(out).absolute()
        files = [str(path)]
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as part:
            try:
                lines = CountedLines(part.file, counts)
                client.export(request, cast("BinaryIO", lines))
                part.close()
                Path(part.name).replace(path)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    else:
        files = []
        lines = CountedLines(out, counts)
        client.export(request, cast("BinaryIO", lines))
    names = {name.rpartition(":")[2] for name in type_names or counts}

    def exported(kind: str) -> list[ExportedTypeOutput]:
        types = [dataset.type_name for dataset in snapshot.datasets if dataset.entity_kind == kind]
        return [ExportedTypeOutput(name, counts[name]) for name in types if name in names]

    return ExportOutput(
        uri=client.uri,
        branch=branch,
        graph_commit_id=snapshot.graph_commit_id,
        format="ndjson",
        files=files,
        size_bytes=lines.size_bytes,
        nodes=exported("node"),
        edges=exported("edge"),
        total_entities=sum(counts.values()),
        runner="local",
    )


class CountedLines:
    """Passes bytes to a stream, and counts the lines of each type."""

    def __init__(self, stream: IO[bytes], counts: dict[str, int]) -> None:
        self._stream, self._counts, self._rest, self.size_bytes = stream, counts, b"", 0

    def write(self, data: bytes) -> int:
        """Write bytes, and count the lines that they complete."""
        self._stream.write(data)
        self.size_bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            entity = msgspec.json.decode(line)
            self._counts[entity["type"] if "type" in entity else entity["edge"]] += 1
        return len(data)
