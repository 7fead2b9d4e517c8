"""`omnigraph schema plan`: the steps that migrate a branch to another schema. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.text_files import read_schema_file
from omnigraph.cli.command import command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Branch
from omnigraph.cli.output import printable
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.graph.schema_plan import PlannedStep, SchemaPlan

SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="The desired schema, a .pg file.")]
AllowDataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Drop permanently: the next cleanup also deletes earlier commits.")
]


def plan(
    schema: SchemaFile,
    target: GraphArguments,
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
    text = read_schema_file(Path(schema))
    location = target.announce()

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph
    from omnigraph.wire.results import schema_plan_output

    graph = Graph(location, branch, read_only=True)
    schema_plan = graph.plan_schema(NamedText.make(text, schema), allow_data_loss=allow_data_loss)
    output.show(
        lambda: schema_plan_output(schema_plan), text=describe_steps(schema_plan), notices=_notices(schema_plan)
    )
    if not schema_plan.can_apply:
        raise typer.Exit(ExitCode.REFUSED)


def describe_steps(schema_plan: SchemaPlan) -> str:
    """Return a plan as text: one line per step, and for each unsupported change its reason and a hint."""
    from omnigraph.graph.schema_plan import refusal_text

    lines = [
        f"{number:>3}. {printable(planned.step.describe())} ({_cost(planned)})"
        for number, planned in enumerate(schema_plan.steps, start=1)
    ]
    for refused in schema_plan.unsupported:
        change = f"{refused.code.code} {printable(refusal_text(refused))}"
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


def _notices(schema_plan: SchemaPlan) -> Iterator[str]:
    if not schema_plan.can_apply:
        yield f"{format_count(len(schema_plan.unsupported), 'change')} cannot be applied"
    elif not schema_plan.steps:
        yield f"branch {schema_plan.branch} already has this schema"
    else:
        yield f"{format_count(len(schema_plan.steps), 'step')} from commit {schema_plan.commit}"
        if any(step.cost.value == "reads_data" for step in schema_plan.steps):
            yield "`omnigraph schema apply` checks whether the rows obey the new rules"


COMMAND = command(
    plan,
    "omnigraph schema plan --schema next.pg graph.omni",
    "omnigraph schema plan --schema next.pg graph.omni --branch review/1 --json",
)
