"""`omnigraph schema apply`: migrate a branch to another schema as one commit, or change nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.text_files import read_schema_file
from omnigraph.cli.command import CommandSource
from omnigraph.cli.commands.schema.plan import AllowDataLoss, SchemaFile, show_steps
from omnigraph.cli.options import Actor, Json, SparkMaster, Store, Uri, Yes
from omnigraph.cli.output import write_json
from omnigraph.cli.target import announce_target, confirm_destruction, resolve_target

if TYPE_CHECKING:
    from omnigraph.maintenance.schema_apply import SchemaResult

Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Change the schema of this branch.")]


def apply(
    context: typer.Context,
    schema: SchemaFile,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    actor: Actor = None,
    allow_data_loss: AllowDataLoss = False,
    yes: Yes = False,
    spark_master: SparkMaster = None,
    as_json: Json = False,
) -> None:
    """Migrate a branch to another schema, as one commit.

    Runs the steps that `schema plan` shows. Checks the rows against new rules first and lists the rows that violate
    them. Nothing is written if a step is not supported or a rule is violated. Dropped data can be read at earlier
    commits until `cleanup`; with --allow-data-loss it is deleted permanently. Spark processes large tables.
    """
    location = resolve_target(context, uri, store)
    text = read_schema_file(Path(schema))
    announce_target(context, location)
    if allow_data_loss:
        confirm_destruction(context, location, "schema apply --allow-data-loss", yes=yes, as_json=as_json)

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph
    from omnigraph.cli.progress import show_progress

    with show_progress(quiet=context.obj.quiet) as report:
        result = Graph(location, branch, spark=spark_master).apply_schema(
            NamedText.make(text, schema), actor=actor, allow_data_loss=allow_data_loss, progress=report
        )
    if as_json:
        from omnigraph.wire.results import schema_apply_output

        write_json(schema_apply_output(location, result))
        return
    show_steps(result.plan)
    if not context.obj.quiet:
        sys.stderr.write(f"{_summary(result)}\n")


def _summary(result: SchemaResult) -> str:
    if result.commit is None:
        return f"branch {result.plan.branch} already has this schema; no commit was created"
    count = len(result.plan.steps)
    return f"applied {count} step{'' if count == 1 else 's'} at commit {result.commit.id}"


COMMAND = CommandSource(
    "apply",
    apply,
    (
        "omnigraph schema apply --schema next.pg graph.omni",
        "omnigraph schema apply --schema next.pg graph.omni --branch review/1 --as deploy --json",
        "omnigraph schema apply --schema next.pg s3://bucket/graph.omni --allow-data-loss --yes",
    ),
)
