"""`omnigraph load`: load data files as one commit, or write nothing and report every error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.actors import login_name
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Actor, Json, SparkMaster, Store, TargetBranch, Uri, Yes
from omnigraph.cli.output import write_json
from omnigraph.cli.target import announce_target, confirm_destruction, resolve_target

if TYPE_CHECKING:
    from omnigraph.maintenance.indexed_load import LoadResult

Data = Annotated[
    list[str],
    typer.Option(
        "--data", metavar="PATH", help="A file, directory or quoted glob of NDJSON, Parquet or CSV. Repeatable."
    ),
]
Type = Annotated[
    str | None,
    typer.Option("--type", metavar="NAME", help="The node or edge type of the rows of Parquet and CSV files."),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="append|merge|overwrite",
        help="append only inserts; merge replaces rows by id and inserts rows without a key; overwrite replaces "
        "all rows of each type in the data.",
    ),
]
Base = Annotated[
    str | None, typer.Option("--from", metavar="BASE", help="Create the branch from this one if it does not exist.")
]
Errors = Annotated[
    str | None, typer.Option("--errors", metavar="FILE", help="Write every error to this file, as NDJSON.")
]
WithIndexes = Annotated[
    bool, typer.Option("--with-indexes", help="Build the declared indexes of the loaded types after the load.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the data and write nothing.")]


def load(
    context: typer.Context,
    data: Data,
    uri: Uri = None,
    store: Store = None,
    type_name: Type = None,
    mode: Mode = "append",
    branch: TargetBranch = "main",
    base: Base = None,
    actor: Actor = None,
    dry_run: DryRun = False,
    errors: Errors = None,
    with_indexes: WithIndexes = False,
    yes: Yes = False,
    spark_master: SparkMaster = None,
    as_json: Json = False,
) -> None:
    """Load graph data as one commit.

    Runs on Spark, by default locally. One load is one commit, whatever its size. If any line is invalid, nothing is
    written, and the first 100 errors are shown with file, line and property.

    Each line of NDJSON names its type. Parquet and CSV files contain rows of one type, which --type names; edges have
    the columns from and to.
    """
    location = resolve_target(context, uri, store)
    if mode == "overwrite" and not dry_run:
        confirm_destruction(context, location, f"load --mode {mode}", yes=yes, as_json=as_json)

    from omnigraph.cli.progress import show_progress
    from omnigraph.maintenance.indexed_load import load_with_indexes
    from omnigraph.pipeline.load.plan import LoadOptions, plan_load
    from omnigraph.pipeline.spark.session import SparkSettings

    with show_progress(quiet=context.obj.quiet) as report:
        options = LoadOptions(
            mode=mode,
            actor=actor or login_name(),
            type=type_name,
            base=base,
            dry_run=dry_run,
            rejects=errors,
            spark=SparkSettings(master=spark_master),
            progress=report,
        )
        plan = plan_load(location, branch, data, options)
        announce_target(context, location)
        result = load_with_indexes(plan, build_indexes=with_indexes)
    if as_json:
        from omnigraph.wire.results import ingest_output

        write_json(ingest_output(location, result))
    elif not context.obj.quiet:
        verb = "checked" if dry_run else "loaded"
        suffix = f" at commit {result.commit.id}" if result.commit else ""
        sys.stderr.write(f"{verb} {_entity_count(result.total)}{suffix}\n")
        for line in index_messages(uri or store or location.uri, branch, result):
            sys.stderr.write(f"{line}\n")


def index_messages(address: str, branch: str, result: LoadResult) -> Iterator[str]:
    """Yield what was built, and the command that builds the rest."""
    if result.unindexed:
        names = ", ".join(alias.partition(":")[2] for alias in result.unindexed)
        branch_flag = "" if branch == "main" else f" --branch {shlex.quote(branch)}"
        yield (
            f"the indexes of {names} do not cover the new rows yet: run "
            f"`omnigraph optimize {shlex.quote(address)}{branch_flag}`, or load with --with-indexes next time"
        )
    if result.indexes is not None:
        built = len(result.indexes.built)
        yield f"built {built} index{'' if built == 1 else 'es'}"
        yield from (
            f"not built: {row.table_key} {row.property}, because {row.reason}" for row in result.indexes.pending
        )


def _entity_count(total: int) -> str:
    return "1 entity" if total == 1 else f"{total:,} entities"


COMMAND = CommandSource(
    "load",
    load,
    (
        "omnigraph load --data people.jsonl graph.omni",
        "omnigraph load --data 'parts/*.jsonl.gz' --mode merge --branch import/1 --from main graph.omni",
        "omnigraph load --data people.parquet --type Person --mode merge graph.omni",
        "omnigraph load --data people.jsonl --dry-run --errors errors.jsonl --json graph.omni",
        "omnigraph load --data people.jsonl --with-indexes graph.omni",
    ),
)
