"""`omnigraph export`: a branch or a commit as lines that `omnigraph load` reads, or as Parquet files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.files import parse_time
from omnigraph.cli.options import At, Branch, Commit, Json, SparkMaster, Store, Uri, Version
from omnigraph.cli.output import output_errors, write_json
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.api.export import ExportOutcome
    from omnigraph.storage.location import Location

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
    moment = parse_time(at)
    location = resolve_target(context, uri, store)
    if as_json and out in (None, "-"):
        raise UsageError(
            "--json and the data cannot both go to stdout", code="export_json", hint="pass --out as well"
        )

    from omnigraph.api.export import ExportOptions, export_graph
    from omnigraph.api.graph import make_when
    from omnigraph.cli.progress import show_progress
    from omnigraph.pipeline.spark.session import SparkSettings

    with show_progress(quiet=context.obj.quiet) as report:
        options = ExportOptions(
            out,
            export_format,
            tuple(types or ()),
            make_when(commit, version, moment),
            force,
            spark=SparkSettings(master=spark_master),
            report=report,
        )
        with output_errors():
            outcome = export_graph(location, branch, options)
            sys.stdout.flush()
    if as_json:
        write_json(_to_json(location, branch, outcome))
    elif not context.obj.quiet:
        exported = outcome.exported
        sys.stderr.write(
            f"exported {exported.total:,} entities of commit {exported.commit}{where_it_is(out, outcome)}\n"
        )


def where_it_is(out: str | None, outcome: ExportOutcome) -> str:
    """Where the data is now; nothing is said of stdout."""
    match outcome.kind.value:
        case "stream":
            return ""
        case "folder":
            count = len(outcome.exported.files)
            return f" as {count:,} file{'' if count == 1 else 's'} in the folder {out}"
        case _:
            return f" to {out}"


def _to_json(location: Location, branch: str, outcome: ExportOutcome) -> dict[str, Any]:
    from omnigraph.wire.history import counts_to_json

    exported = outcome.exported
    return {
        "uri": location.uri,
        "branch": branch,
        "graph_commit_id": exported.commit,
        "format": outcome.format.value,
        "files": [file.uri for file in exported.files],
        "size_bytes": exported.size_bytes,
        **counts_to_json(exported.counts, "entities_exported"),
        "total_entities": exported.total,
    }


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
