"""`omnigraph log`: the commits of every branch, newest first; `--graph` draws their ancestry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import command
from omnigraph.cli.output import printable, write_json, write_lines
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.base.ids import CommitId
    from omnigraph.graph.manifest.records import CommitRecord
    from omnigraph.storage.location import Location
    from omnigraph.wire.commits import CommitOutput

Graph_ = Annotated[bool, typer.Option("--graph", help="Draw the ancestry of the commits.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N lines.")]


@command("omnigraph log graph.omni", "omnigraph log --graph --store graph.omni --limit 20")
def log(target: GraphArguments, *, graph: Graph_ = False, limit: Limit = 100, output: TextOutput) -> None:
    """Show the commits of all branches, newest first.

    In a copied or moved graph, shows only the commits of main: its other branches cannot be read.
    """
    location = target.locate()

    from omnigraph.cli.commit_graph import draw_commits
    from omnigraph.graph.branch_list import read_all_commits

    commits, heads = read_all_commits(location)
    head_ids = tuple(dict.fromkeys(head for head in heads.values() if head is not None))
    drawn = draw_commits(commits, head_ids)
    if output.as_json:
        shown_commits = islice((line.commit for line in drawn if line.commit is not None), limit)
        write_json({"heads": heads, "commits": _documents(location, tuple(shown_commits), heads)})
        return
    names = {head: [name for name, head_id in heads.items() if head_id == head] for head in head_ids}

    def describe(commit: CommitRecord) -> str:
        branches = f" ({', '.join(names[commit.id])})" if commit.id in names else ""
        text = f"{commit.id}{branches} {format_timestamp(commit.created_us)} {commit.actor} {commit.operation}"
        return printable(text)

    shown = drawn if graph else (line for line in drawn if line.commit is not None)
    write_lines(
        " ".join([*([line.marks] if graph else []), *([describe(line.commit)] if line.commit else [])])
        for line in islice(shown, limit)
    )
    hidden = [name for name, head in heads.items() if head is None]
    if hidden:
        hidden_names = printable(", ".join(hidden))
        output.notify(f"note: the graph was copied or moved, so these branches are not shown: {hidden_names}")


def _documents(
    location: Location, commits: Sequence[CommitRecord], heads: Mapping[str, CommitId | None]
) -> list[CommitOutput]:
    """Return the documents of commits, with the table names of their branch, or of main if it was deleted."""
    from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
    from omnigraph.wire.commits import commit_output, table_names

    live_branches = {commit.branch for commit in commits if heads.get(commit.branch) is not None}
    names = {branch: table_names(read_snapshot(location, branch)) for branch in {MAIN, *live_branches}}
    return [commit_output(commit, {**names[MAIN], **names.get(commit.branch, {})}) for commit in commits]
