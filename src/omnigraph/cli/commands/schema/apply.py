"""`omnigraph schema apply`: migrate a branch to another schema as one commit, or change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.text_files import read_schema_file
from omnigraph.cli.command import command
from omnigraph.cli.commands.schema.plan import AllowDataLoss, SchemaFile, describe_steps
from omnigraph.cli.options import Actor, SparkMaster, Yes
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, announce, confirm_destruction

if TYPE_CHECKING:
    from omnigraph.maintenance.schema_apply import SchemaResult

Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Change the schema of this branch.")]


def apply(
    schema: SchemaFile,
    target: GraphArguments,
    *,
    branch: Branch = "main",
    actor: Actor = None,
    allow_data_loss: AllowDataLoss = False,
    yes: Yes = False,
    spark_master: SparkMaster = None,
    output: TextOutput,
) -> None:
    """Migrate a branch to another schema, as one commit.

    Runs the steps that `schema plan` shows. Checks the rows against new rules first and lists the rows that violate
    them. Nothing is written if a step is not supported or a rule is violated. Dropped data can be read at earlier
    commits until `cleanup`; with --allow-data-loss it is deleted permanently. Spark processes large tables.
    """
    location = target.locate()
    text = read_schema_file(Path(schema))
    announce(target.context, location)
    if allow_data_loss:
        confirm_destruction(target.context, location, "schema apply --allow-data-loss", yes=yes)

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph
    from omnigraph.wire.results import schema_apply_output

    with output.progress() as report:
        result = Graph(location, branch, spark=spark_master).apply_schema(
            NamedText.make(text, schema), actor=actor, allow_data_loss=allow_data_loss, progress=report
        )
    steps = describe_steps(result.plan)
    output.show(lambda: schema_apply_output(location, result), text=steps, notices=[_summary(result)])


def _summary(result: SchemaResult) -> str:
    if result.commit is None:
        return f"branch {result.plan.branch} already has this schema; no commit was created"
    return f"applied {format_count(len(result.plan.steps), 'step')} at commit {result.commit.id}"


COMMAND = command(
    apply,
    "omnigraph schema apply --schema next.pg graph.omni",
    "omnigraph schema apply --schema next.pg graph.omni --branch review/1 --as deploy --json",
    "omnigraph schema apply --schema next.pg s3://bucket/graph.omni --allow-data-loss --yes",
)
