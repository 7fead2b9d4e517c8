"""`omnigraph embed`: fill the vectors of a graph from its texts, in waves with one commit each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Actor, LogFileOption, RunnerArguments, TargetBranch
from omnigraph.cli.output import Count, printable
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments

if TYPE_CHECKING:
    from omnigraph.types import EmbedResult

TITLES: Final = {
    "type_name": "type",
    "property": "property",
    "source": "source",
    "model": "model",
    "pending": "pending",
    "embedded": "embedded",
    "failed": "failed",
    "characters": "characters",
    "tokens": "tokens",
}
COUNTS: Final = frozenset({"pending", "embedded", "failed", "texts", "characters", "tokens"})
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="NAME", help="Embed only this node or edge type. Repeatable.")
]
PropertyName = Annotated[
    str | None, typer.Option("--property", metavar="NAME", help="Embed only the vectors with this name.")
]
Missing = Annotated[
    bool,
    typer.Option(
        "--missing/--all", help="--missing embeds rows without a vector (default), --all every row with a text."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the pending rows and characters; send nothing.")]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", metavar="N", min=0, help="Refuse a run with more tokens, about 4 characters each. Exit code 3."
    ),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Embed the first 32 KiB of a longer text. Default: such a row is an error.")
]
Errors = Annotated[
    str | None, typer.Option("--errors", metavar="FILE", help="Write every row that failed to this file, as NDJSON.")
]
WithIndexes = Annotated[
    bool, typer.Option("--with-indexes", help="Build the declared indexes of these types afterwards.")
]


@command(
    "omnigraph embed graph.omni",
    "omnigraph embed graph.omni --dry-run",
    "omnigraph embed graph.omni --type Note --property vector --max-tokens 1000000",
    "omnigraph embed graph.omni --all --with-indexes --json",
    "omnigraph embed --store s3://bucket/graph.omni --branch review/1 --errors failed.jsonl --truncate",
    "omnigraph embed --cluster . --graph books",
    capability=Capability.DIRECT,
)
def embed(
    target: StorageArguments,
    *,
    branch: TargetBranch = "main",
    types: Types = None,
    property: PropertyName = None,  # noqa: A002  # the name of the flag
    missing: Missing = True,
    dry_run: DryRun = False,
    max_tokens: MaxTokens = None,
    truncate: Truncate = False,
    errors: Errors = None,
    with_indexes: WithIndexes = False,
    actor: Actor = None,
    execution: RunnerArguments,
    output: RowsOutput,
    log_file: LogFileOption = None,
) -> None:
    """Fill the vectors that the schema declares with @embed.

    A provider turns the text of each row without a vector into its vector; OMNIGRAPH_EMBED_PROVIDER and other variables
    choose it, or the cluster of the graph. Rows are embedded in waves of at most 10,000, and each wave is one commit:
    after an interruption, the next run continues. A row whose text the provider rejects is reported, the others are
    committed, and the exit code is 1. Large runs send their requests from Spark. A second run has no work.
    """
    location = target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.wire.results import embed_output

    with output.progress() as report:
        graph = target.bind(Graph(location, branch=branch, read_only=dry_run, spark=execution.spark_master))
        result = graph.embed(
            types=types,
            property=property,
            missing=missing,
            dry_run=dry_run,
            max_tokens=max_tokens,
            truncate=truncate,
            rejects=errors,
            build_indexes=with_indexes,
            actor=target.choose_actor(actor),
            runner=execution.runner,
            progress=report,
        )
    document = embed_output(location.uri, result)
    rows = [{key: Count(cell) if key in COUNTS else cell for key, cell in row.items()} for row in document.properties]
    output.show(lambda: document, TITLES, rows, fields=(*TITLES, "texts"))
    output.notify(_summary(result))
    if result.failed:
        _print_failures(result)
        raise typer.Exit(ExitCode.ERROR)


def _summary(result: EmbedResult) -> str:
    if result.dry_run:
        return f"{format_count(result.pending, 'row')} to embed; nothing was sent"
    if not result.commits:
        return f"no row was embedded (runner: {result.runner})"
    commits = format_count(len(result.commits), "commit")
    requests = format_count(result.requests, "request")
    return (
        f"embedded {format_count(result.embedded, 'row')} in {commits} with {requests}, the last at commit "
        f"{result.commits[-1]} (runner: {result.runner})"
    )


def _print_failures(result: EmbedResult) -> None:
    """Print the first rows that failed, and what to do."""
    shown = [f"{row.type_name} {row.id}: {row.property}: {row.message}" for row in result.errors]
    more = result.failed - len(shown)
    if more:
        shown.append(f"and {more:,} more; pass `--errors FILE` to write all of them to a file")
    head = f"{format_count(result.failed, 'row')} could not be embedded"
    sys.stderr.write("error: " + "\n  ".join(map(printable, [head, *shown])) + f"\nhint: {_failure_hint(result)}\n")


def _failure_hint(result: EmbedResult) -> str:
    """Return what to do about the rows that failed, from the reasons of the first ones."""
    steps = {
        "text too long": "Shorten the long texts, or pass `--truncate`.",
        "invalid vector": "Check the model: a vector must have the declared length, be finite and not zero.",
        "the provider rejected": "Change the texts that the provider rejected."
        if result.embedded
        else "Check the key and the model: the provider rejected every text that it received.",
    }
    advice = [step for start, step in steps.items() if any(row.message.startswith(start) for row in result.errors)]
    state = "The other rows are committed." if result.embedded else "No row was embedded."
    return " ".join([state, *advice, "Then run it again."])
