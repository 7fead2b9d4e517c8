"""`omnigraph export`: write a branch or a commit as NDJSON that `omnigraph load` reads, or as Parquet files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import LogFileOption, RunnerArguments, StateArguments
from omnigraph.cli.output import output_errors
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, ServerScope

if TYPE_CHECKING:
    from omnigraph.types import ExportResult

Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="A file, compressed if it ends in .gz or .zst, or a directory of parts if it ends in /; local or on S3. "
        "Default: stdout.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="ndjson|parquet", help="ndjson is the format that load reads; parquet writes a directory."
    ),
]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Export only this type. Repeatable.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the files of an earlier export.")]


@command(
    "omnigraph export graph.omni --out dump.jsonl",
    "omnigraph export graph.omni --type Person --type Knows --out dump.jsonl.zst",
    "omnigraph export graph.omni --at 2026-05-31T12:00:00Z --out then.jsonl",
    "omnigraph export graph.omni --branch review/1 --format parquet --out s3://bucket/dump/",
    capability=Capability.ANY,
)
def export(
    target: GraphArguments,
    *,
    out: Out = None,
    export_format: Format = "ndjson",
    types: Types = None,
    state: StateArguments,
    force: Force = False,
    execution: RunnerArguments,
    output: TextOutput,
    log_file: LogFileOption = None,
) -> None:
    """Write a graph as files that load reads.

    The order is nodes before edges, types as in the schema, rows by id, so the same graph always gives the same bytes.
    A small graph is exported in this process, a large one on Spark. A file gets its final name when it is complete.
    """
    if isinstance(target.scope(), ServerScope):
        _export_from_server(target, state, ExportFile(out, export_format, types), output)
        return
    as_of = state.as_of()
    graph = target.open(state.branch, spark=execution.spark_master)
    _require_one_output(output, out)
    with output.progress() as report, output_errors():
        result = graph.export(
            out, format=export_format, types=types, as_of=as_of, force=force, runner=execution.runner, progress=report
        )
        sys.stdout.flush()

    from omnigraph.wire.results import export_output

    summary = f"exported {result.total:,} entities of commit {result.commit}{describe_target(out, result)}"
    summary += f" (runner: {result.runner})"
    output.show(lambda: export_output(graph.uri, state.branch, result), notices=[summary])


def _require_one_output(output: TextOutput, out: str | None) -> None:
    if output.as_json and out in (None, "-"):
        raise UsageError(
            "`--json` and the data cannot both be written to stdout",
            code="export_json",
            hint="Pass `--out PATH` as well.",
        )


@dataclass(frozen=True, slots=True)
class ExportFile:
    """Where and what to export."""

    out: str | None
    format: str
    types: list[str] | None


def _export_from_server(target: GraphArguments, state: StateArguments, file: ExportFile, output: TextOutput) -> None:
    """Write the lines that a server sends to stdout, or to a file that gets its name when it is complete."""
    reached = target.connect(state=state)
    out = file.out or "-"
    if file.format != "ndjson" or out.endswith(("/", ".gz", ".zst")) or "://" in out:
        raise UsageError(
            "a server exports NDJSON to stdout or to one local file that is not compressed",
            code="flag_over_server",
            hint="Pass `--out FILE`, or `--store URI` on a machine that reaches the storage of the graph.",
        )
    _require_one_output(output, file.out)

    from omnigraph.wire.requests import ExportStateRequest, StateParameters
    from omnigraph.wire.results import ExportedTypeOutput, ExportOutput

    snapshot = reached.client.snapshot(StateParameters(**reached.state))
    request = ExportStateRequest(snapshot=snapshot.graph_commit_id, type_names=file.types)
    counts = {dataset.type_name: 0 for dataset in snapshot.datasets}
    if out == "-":
        with output_errors():
            sys.stdout.flush()
            lines = CountedLines(sys.stdout.buffer, counts)
            reached.client.export(request, cast("BinaryIO", lines))
            sys.stdout.buffer.flush()
    else:
        path = Path(out)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as part:
            try:
                lines = CountedLines(part.file, counts)
                reached.client.export(request, cast("BinaryIO", lines))
                part.close()
                Path(part.name).replace(path)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    names = {name.rpartition(":")[2] for name in file.types or counts}
    total = sum(counts.values())

    def exported(kind: str) -> list[ExportedTypeOutput]:
        types = [dataset.type_name for dataset in snapshot.datasets if dataset.entity_kind == kind]
        return [ExportedTypeOutput(name, counts[name]) for name in types if name in names]

    document = ExportOutput(
        uri=reached.client.uri,
        branch=state.branch,
        graph_commit_id=snapshot.graph_commit_id,
        format=file.format,
        files=[] if out == "-" else [str(Path(out).absolute())],
        size_bytes=lines.size_bytes,
        nodes=exported("node"),
        edges=exported("edge"),
        total_entities=total,
        runner="local",
    )
    where = "" if out == "-" else f" to {out}"
    summary = f"exported {total:,} entities of commit {snapshot.graph_commit_id}{where} (runner: local)"
    output.show(lambda: document, notices=[summary])


class CountedLines:
    """Passes bytes to a stream, and counts the lines of each type."""

    def __init__(self, stream: IO[bytes], counts: dict[str, int]) -> None:
        self._stream, self._counts, self._rest, self.size_bytes = stream, counts, b"", 0

    def write(self, data: bytes) -> int:
        """Write bytes, and count the lines that they complete."""
        import msgspec

        self._stream.write(data)
        self.size_bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            entity = msgspec.json.decode(line)
            self._counts[entity["type"] if "type" in entity else entity["edge"]] += 1
        return len(data)


def describe_target(out: str | None, result: ExportResult) -> str:
    """Return the end of the summary: the file or directory of the data; empty for stdout."""
    match result.kind.value:
        case "stream":
            return ""
        case "folder":
            return f" as {format_count(len(result.files), 'file')} in the directory {out}"
        case _:
            return f" to {out}"
