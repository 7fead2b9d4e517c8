"""`omnigraph export`: write a branch or a commit as NDJSON that `omnigraph load` reads, or as Parquet files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

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
    from omnigraph.wire.results import ExportOutput

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
    _require_one_output(output, out)
    if isinstance(target.scope(), ServerScope):
        document = _export_from_server(target, state, out, export_format, types, force=force)
        output.show(lambda: document, notices=[_summary(document, "" if out in (None, "-") else f" to {out}")])
        return
    as_of = state.as_of()
    graph = target.open(state.branch, spark=execution.spark_master)
    with output.progress() as report, output_errors():
        result = graph.export(
            out, format=export_format, types=types, as_of=as_of, force=force, runner=execution.runner, progress=report
        )
        sys.stdout.flush()

    from omnigraph.wire.results import export_output

    document = export_output(graph.uri, state.branch, result)
    output.show(lambda: document, notices=[_summary(document, describe_target(out, result))])


def _summary(document: ExportOutput, where: str) -> str:
    exported = f"exported {document.total_entities:,} entities of commit {document.graph_commit_id}"
    return f"{exported}{where} (runner: {document.runner})"


def _require_one_output(output: TextOutput, out: str | None) -> None:
    if output.as_json and out in (None, "-"):
        raise UsageError(
            "`--json` and the data cannot both be written to stdout",
            code="export_json",
            hint="Pass `--out PATH` as well.",
        )


def _export_from_server(
    target: GraphArguments,
    state: StateArguments,
    out: str | None,
    export_format: str,
    types: list[str] | None,
    *,
    force: bool,
) -> ExportOutput:
    """Write the lines that a server sends to stdout, or to a file that gets its name when it is complete."""
    from omnigraph.client.export import LinesRequest, export_lines, not_one_file
    from omnigraph.wire.requests import StateParameters

    if export_format != "ndjson":
        raise not_one_file()
    connection = target.connect(state=state)
    lines = LinesRequest(state=StateParameters(**connection.state), branch=state.branch, types=types, force=force)
    if out is not None and out != "-":
        return export_lines(connection.client, lines, out)
    with output_errors():
        sys.stdout.flush()
        document = export_lines(connection.client, lines, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    return document


def describe_target(out: str | None, result: ExportResult) -> str:
    """Return the end of the summary: the file or directory of the data; empty for stdout."""
    match result.kind.value:
        case "stream":
            return ""
        case "folder":
            return f" as {format_count(len(result.files), 'file')} in the directory {out}"
        case _:
            return f" to {out}"
