"""`omnigraph schema plan`: what it takes to bring a branch to another schema. Reads only."""

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
    bool, typer.Option("--allow-data-loss", help="Drop for good: earlier commits go with the next cleanup.")
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
    """Show the steps from a branch's schema to another one.

    Each step comes with what it costs. A change that is not supported comes with a code and with what to do instead,
    and makes the command end with 3: such a schema cannot be applied. Nothing is written. Only nulls that get a
    default are counted; rows that a new rule concerns are checked by `schema apply`.
    """
    text = read_schema_file(Path(schema))
    location = direct_target(context, uri, store)

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph

    graph = Graph(location, branch, read_only=True)
    found = graph.plan_schema(NamedText.make(text, schema), allow_data_loss=allow_data_loss)
    if as_json:
        write_json(found.to_json())
    else:
        show_steps(found)
        if not context.obj.quiet:
            sys.stderr.write(f"{_sentence(found)}\n")
            if found.can_apply and any(one.cost.value == "reads_data" for one in found.steps):
                sys.stderr.write(
                    "whether the rows obey the new rules is checked by `omnigraph schema apply`\n"
                )
    if not found.can_apply:
        raise typer.Exit(ExitCode.REFUSED)


def show_steps(found: SchemaPlan) -> None:
    """Print a plan for people: a line for each step, and for each refusal a line and what to do."""
    lines = []
    for number, planned in enumerate(found.steps, start=1):
        shown = planned.to_json()
        lines.append(f"{number:>3}. {printable(str(shown['text']))} ({_cost(planned)})")
    for refused in found.unsupported:
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
    """A refused change, and what to do instead."""
    from omnigraph.graph.schema_plan import refusal_text

    told = f"{refused.code.code} {printable(refusal_text(refused))}"
    return [f"  - {told}", f"    {refused.code.meaning}", f"    hint: {refused.code.advice}"]


def _sentence(found: SchemaPlan) -> str:
    if not found.can_apply:
        count = len(found.unsupported)
        return f"{count} change{'' if count == 1 else 's'} cannot be applied"
    if not found.steps:
        return f"branch {found.branch} has this schema already"
    count = len(found.steps)
    return f"{count} step{'' if count == 1 else 's'} from commit {found.commit}"


COMMAND = CommandSource(
    "plan",
    plan,
    (
        "omnigraph schema plan --schema next.pg graph.omni",
        "omnigraph schema plan --schema next.pg graph.omni --branch review/1 --json",
    ),
)
