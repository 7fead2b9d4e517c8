"""`omnigraph log`: the commits of every branch, newest first; `--draw` draws their ancestry."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import Capability, command
from omnigraph.cli.commit_graph import DrawnLine, draw_commits
from omnigraph.cli.output import printable, write_json, write_lines
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import StorageArguments

if TYPE_CHECKING:
    from omnigraph.types import CommitRecord

Draw = Annotated[bool, typer.Option("--draw", help="Draw the ancestry of the commits.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N lines.")]


@command("omnigraph log graph.omni", "omnigraph log --draw --store graph.omni --limit 20", capability=Capability.ANY)
def log(target: StorageArguments, *, draw: Draw = False, limit: Limit = 100, output: TextOutput) -> None:
    """Show the commits of all branches, newest first.

    In a copied or moved graph, shows only the commits of main: its other branches cannot be read.
    """
    location = target.locate()

    from omnigraph.api.history import read_log, read_log_names

    graph_log = read_log(location)
    if output.as_json:
        from omnigraph.wire.commits import log_output

        write_json(log_output(graph_log, read_log_names(location, graph_log, limit)))
        return

    def describe(commit: CommitRecord) -> str:
        names = [name for name, head in graph_log.heads.items() if head == commit.id]
        branches = f" ({', '.join(names)})" if names else ""
        text = f"{commit.id}{branches} {format_timestamp(commit.created_us)} {commit.actor} {commit.operation}"
        return printable(text)

    lines = draw_commits(graph_log.commits) if draw else (DrawnLine("", commit) for commit in graph_log.commits)
    write_lines(
        " ".join([*([line.marks] if draw else []), *([describe(line.commit)] if line.commit else [])])
        for line in islice(lines, limit)
    )
    hidden = [name for name, head in graph_log.heads.items() if head is None]
    if hidden:
        hidden_names = printable(", ".join(hidden))
        output.notify(f"note: the graph was copied or moved, so these branches are not shown: {hidden_names}")
