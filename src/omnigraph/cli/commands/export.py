"""`omnigraph export`: write a branch or a commit as NDJSON that `omnigraph load` reads, or as Parquet files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import At, Branch, Commit, Json, SparkMaster, Store, Uri, Version
from omnigraph.cli.output import output_errors, write_json
from omnigraph.cli.state import choose_state
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.pipeline.export.run import ExportResult

Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="A file, compressed if it ends in .gz or .zst, or a folder of parts if it ends in /; local or on S3. "
        "Default: stdout.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="ndjson|parquet", help="ndjson is the format that load reads; parquet writes a folder."
    ),
]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Export only this type. Repeatable.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the files of an earlier export.")]


def export(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    out: Out = None,
    export_format: Format = "ndjson",
    types: Types = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    timestamp: At = None,
    force: Force = False,
    spark_master: SparkMaster = None,
    as_json: Json = False,
) -> None:
    """Write a graph as files that load reads.

    The order is nodes before edges, types as in the schema, rows by id, so the same graph always gives the same bytes.
    Runs on Spark, by default locally. A file gets its final name only when it is complete.
    """
    state = choose_state(commit, version, timestamp)
    location = resolve_target(context, uri, store)
    if as_json and out in (None, "-"):
        raise UsageError(
            "`--json` and the data cannot both be written to stdout",
            code="export_json",
            hint="Pass `--out PATH` as well.",
        )

    from omnigraph.api.graph import Graph
    from omnigraph.cli.progress import show_progress

    graph = Graph(location, branch, read_only=True, spark=spark_master)
    with show_progress(quiet=context.obj.quiet) as report, output_errors():
        result = graph.export(out, format=export_format, types=types, as_of=state, force=force, progress=report)
        sys.stdout.flush()
    if as_json:
        from omnigraph.wire.results import export_output

        write_json(export_output(location, branch, result))
    elif not context.obj.quiet:
        sys.stderr.write(
            f"exported {result.total:,} entities of commit {result.commit}{describe_target(out, result)}\n"
        )


def describe_target(out: str | None, result: ExportResult) -> str:
    """Return the end of the summary: the file or folder of the data; empty for stdout."""
    match result.kind.value:
        case "stream":
            return ""
        case "folder":
            count = len(result.files)
            return f" as {count:,} file{'' if count == 1 else 's'} in the folder {out}"
        case _:
            return f" to {out}"


COMMAND = CommandSource(
    "export",
    export,
    (
        "omnigraph export graph.omni --out dump.jsonl",
        "omnigraph export graph.omni --type Person --type Knows --out dump.jsonl.zst",
        "omnigraph export graph.omni --at 2026-05-31T12:00:00Z --out then.jsonl",
        "omnigraph export graph.omni --branch review/1 --format parquet --out s3://bucket/dump/",
    ),
)
