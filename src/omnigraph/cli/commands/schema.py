"""`omnigraph schema show`, `plan` and `apply`: the accepted schema, and the steps to another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Actor, Branch, RunnerArguments, StateArguments, Yes
from omnigraph.cli.output import printable
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, StorageArguments, confirm_destruction, print_location

if TYPE_CHECKING:
    from omnigraph.types import PlannedStep, SchemaPlan, SchemaResult

SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="The desired schema, a .pg file.")]
AllowDataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Drop permanently: the next cleanup also deletes earlier commits.")
]
ChangedBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Change the schema of this branch.")]


@command(
    "omnigraph schema show graph.omni",
    "omnigraph schema show graph.omni --branch review/1 --json",
    capability=Capability.ANY,
)
def show(target: GraphArguments, state: StateArguments, output: TextOutput) -> None:
    """Show the accepted schema as .pg text.

    --json also prints the catalog, which contains the ids of types and properties.
    """
    connection = target.connect(state=state)

    from omnigraph.wire.requests import StateParameters

    document = connection.client.schema(StateParameters(**connection.state))
    output.show(lambda: document, text=document.schema_source)


@command(
    "omnigraph schema plan --schema next.pg graph.omni",
    "omnigraph schema plan --schema next.pg graph.omni --branch review/1 --json",
    capability=Capability.DIRECT,
)
def plan(
    schema: SchemaFile,
    target: StorageArguments,
    *,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    output: TextOutput,
) -> None:
    """Show the steps that migrate a branch to another schema.

    Shows the cost of each step. For an unsupported change it shows a code and an alternative, and the exit code is 3:
    such a schema cannot be applied. Nothing is written. The plan counts only nulls that get a default; `schema apply`
    checks the rows against new rules.
    """
    from omnigraph.api.texts import build_schema, read_schema

    text = read_schema(Path(schema))
    build_schema(text)  # raises before Lance is imported

    from omnigraph.api.graph import Graph
    from omnigraph.wire.results import schema_plan_output

    location = target.locate_and_print()
    graph = Graph(location, branch=branch, read_only=True)
    schema_plan = graph.plan_schema(text, allow_data_loss=allow_data_loss)
    output.show(
        lambda: schema_plan_output(schema_plan), text=_steps_text(schema_plan), notices=_plan_notices(schema_plan)
    )
    if not schema_plan.can_apply:
        raise typer.Exit(ExitCode.REFUSED)


def _steps_text(schema_plan: SchemaPlan) -> str:
    """Return a plan as text: one line per step, and for each unsupported change its reason and a hint."""
    lines = [
        f"{number:>3}. {printable(planned.step.describe())} ({_cost(planned)})"
        for number, planned in enumerate(schema_plan.steps, start=1)
    ]
    for refused in schema_plan.unsupported:
        change = f"{refused.code.code} {printable(refused.describe())}"
        lines += [f"  - {change}", f"    {refused.code.meaning}", f"    hint: {refused.code.advice}"]
    return "\n".join(lines)


def _cost(planned: PlannedStep) -> str:
    if planned.cost.value == "metadata_only":
        return "metadata only"
    rows = format_count(planned.rows, "row")
    if planned.cost.value == "reads_data":
        return f"reads {rows}"
    is_part = 0 < planned.filled_rows < planned.rows
    return f"rewrites {rows}, fills {planned.filled_rows:,}" if is_part else f"rewrites {rows}"


def _plan_notices(schema_plan: SchemaPlan) -> Iterator[str]:
    if not schema_plan.can_apply:
        yield f"{format_count(len(schema_plan.unsupported), 'change')} cannot be applied"
    elif not schema_plan.steps:
        yield f"branch {schema_plan.branch} already has this schema"
    else:
        yield f"{format_count(len(schema_plan.steps), 'step')} from commit {schema_plan.commit}"
        if any(step.cost.value == "reads_data" for step in schema_plan.steps):
            yield "`omnigraph schema apply` checks whether the rows obey the new rules"


@command(
    "omnigraph schema apply --schema next.pg graph.omni",
    "omnigraph schema apply --schema next.pg graph.omni --branch review/1 --as deploy --json",
    "omnigraph schema apply --schema next.pg s3://bucket/graph.omni --allow-data-loss --yes",
    capability=Capability.DIRECT,
)
def apply(
    schema: SchemaFile,
    target: StorageArguments,
    *,
    branch: ChangedBranch = "main",
    actor: Actor = None,
    allow_data_loss: AllowDataLoss = False,
    yes: Yes = False,
    execution: RunnerArguments,
    output: TextOutput,
) -> None:
    """Migrate a branch to another schema, as one commit.

    Runs the steps that `schema plan` shows. Checks the rows against new rules first and lists the rows that violate
    them. Nothing is written if a step is not supported or a rule is violated. Dropped data can be read at earlier
    commits until `cleanup`; with --allow-data-loss it is deleted permanently. Large tables
    are processed on Spark.
    """
    location = target.locate()

    from omnigraph.api.texts import build_schema, read_schema

    text = read_schema(Path(schema))
    build_schema(text)  # raises before Lance is imported

    from omnigraph.api.graph import Graph
    from omnigraph.api.history import read_new_names
    from omnigraph.wire.results import schema_apply_output

    print_location(target.context, location)
    if allow_data_loss:
        confirm_destruction(target.context, location, "schema apply --allow-data-loss", yes=yes)
    with output.progress() as report:
        result = Graph(location, branch=branch, spark=execution.spark_master).apply_schema(
            text,
            actor=target.choose_actor(actor),
            allow_data_loss=allow_data_loss,
            runner=execution.runner,
            progress=report,
        )
    steps = _steps_text(result.plan)
    output.show(
        lambda: schema_apply_output(result, read_new_names(location, result.commit)),
        text=steps,
        notices=[_apply_summary(result)],
    )


def _apply_summary(result: SchemaResult) -> str:
    if result.commit is None:
        return f"branch {result.plan.branch} already has this schema; no commit was created"
    return (
        f"applied {format_count(len(result.plan.steps), 'step')} at commit {result.commit.id} (runner: {result.runner})"
    )
