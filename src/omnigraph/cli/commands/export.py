"""`omnigraph export`: a branch or a commit as lines that `omnigraph load` reads, or as Parquet files."""

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
        help="A file, packed when it ends in .gz or .zst, or with a / at its end a folder of parts; local or on S3. "
        "stdout unless given.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="ndjson|parquet", help="ndjson is what load reads; parquet is a folder."
    ),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; repeat it for more.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what an earlier export left there.")]


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
    at: At = None,
    force: Force = False,
    spark_master: SparkMaster = None,
    as_json: Json = False,
) -> None:
    """Write a graph as files that load reads.

    Nodes before edges, types in the order of the schema, rows in the order of their ids, so the same graph always
    gives the same bytes. Runs on Spark: locally unless a master is configured. Only whole files get their names.
    """
    state = choose_state(commit, version, at)
    location = resolve_target(context, uri, store)
    if as_json and out in (None, "-"):
        raise UsageError(
            "--json and the data cannot both go to stdout", code="export_json", hint="pass --out as well"
        )

    from omnigraph.api.graph import Graph
    from omnigraph.cli.progress import show_progress

    graph = Graph(location, branch, read_only=True, spark=spark_master)
    with show_progress(quiet=context.obj.quiet) as report, output_errors():
        result = graph.export(
            out, format=export_format, types=types, as_of=state, force=force, progress=report
        )
        sys.stdout.flush()
    if as_json:
        from omnigraph.wire.results import export_output

        write_json(export_output(location, branch, result))
    elif not context.obj.quiet:
        sys.stderr.write(
            f"exported {result.total:,} entities of commit {result.commit}{where_it_is(out, result)}\n"
        )


def where_it_is(out: str | None, result: ExportResult) -> str:
    """Where the data is now; nothing is said of stdout."""
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
