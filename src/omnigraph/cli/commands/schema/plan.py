"""`omnigraph schema plan`: the steps that migrate a branch to another schema. Writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.text_files import read_schema_file
from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Branch, Json, Store, Uri
from omnigraph.cli.output import printable, write_json, write_text
from omnigraph.cli.target import direct_target

if TYPE_CHECKING:
    from omnigraph.graph.schema_plan import PlannedStep, SchemaPlan
    from omnigraph.schema.evolution.steps import Unsupported

SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="The desired schema, a .pg file.")]
AllowDataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Drop permanently: the next cleanup also deletes earlier commits.")
]


def plan(
    context: typer.Context,
    schema: SchemaFile,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    as_json: Json = False,
) -> None:
    """Show the steps that migrate a branch to another schema.

    Shows the cost of each step. For an unsupported change it shows a code and an alternative, and the exit code is 3:
    such a schema cannot be applied. Nothing is written. The plan counts only nulls that get a default; `schema apply`
    checks the rows against new rules.
    """
    text = read_schema_file(Path(schema))
    location = direct_target(context, uri, store)

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph

    graph = Graph(location, branch, read_only=True)
    schema_plan = graph.plan_schema(NamedText.make(text, schema), allow_data_loss=allow_data_loss)
    if as_json:
        write_json(schema_plan.to_json())
    else:
        show_steps(schema_plan)
        if not context.obj.quiet:
            sys.stderr.write(f"{_summary(schema_plan)}\n")
            if schema_plan.can_apply and any(step.cost.value == "reads_data" for step in schema_plan.steps):
                sys.stderr.write("`omnigraph schema apply` checks whether the rows obey the new rules\n")
    if not schema_plan.can_apply:
        raise typer.Exit(ExitCode.REFUSED)


def show_steps(schema_plan: SchemaPlan) -> None:
    """Print a plan as text: one line per step, and for each unsupported change its reason and a hint."""
    lines = []
    for number, planned in enumerate(schema_plan.steps, start=1):
        shown = planned.to_json()
        lines.append(f"{number:>3}. {printable(str(shown['text']))} ({_cost(planned)})")
    for refused in schema_plan.unsupported:
        lines += _refusal_lines(refused)
    if lines:
        write_text("\n".join(lines))


def _cost(planned: PlannedStep) -> str:
    if planned.cost.value == "metadata_only":
        return "metadata only"
    rows = f"{planned.rows:,} row{'' if planned.rows == 1 else 's'}"
    if planned.cost.value == "reads_data":
        return f"reads {rows}"
    is_part = 0 < planned.filled_rows < planned.rows
    return f"rewrites {rows}, fills {planned.filled_rows:,}" if is_part else f"rewrites {rows}"


def _refusal_lines(refused: Unsupported) -> list[str]:
    """Return the lines of an unsupported change and its hint."""
    from omnigraph.graph.schema_plan import refusal_text

    change = f"{refused.code.code} {printable(refusal_text(refused))}"
    return [f"  - {change}", f"    {refused.code.meaning}", f"    hint: {refused.code.advice}"]


def _summary(schema_plan: SchemaPlan) -> str:
    if not schema_plan.can_apply:
        count = len(schema_plan.unsupported)
        return f"{count} change{'' if count == 1 else 's'} cannot be applied"
    if not schema_plan.steps:
        return f"branch {schema_plan.branch} already has this schema"
    count = len(schema_plan.steps)
    return f"{count} step{'' if count == 1 else 's'} from commit {schema_plan.commit}"


COMMAND = CommandSource(
    "plan",
    plan,
    (
        "omnigraph schema plan --schema next.pg graph.omni",
        "omnigraph schema plan --schema next.pg graph.omni --branch review/1 --json",
    ),
)
