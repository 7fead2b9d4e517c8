"""`omnigraph log`: the commits of every branch, newest first; `--graph` draws their ancestry."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.changes import write_lines
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json, Store, Uri
from omnigraph.cli.output import printable, write_json
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.base.ids import CommitId
    from omnigraph.graph.manifest.records import CommitRecord
    from omnigraph.storage.location import Location

Graph_ = Annotated[bool, typer.Option("--graph", help="Draw the ancestry of the commits.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N lines.")]


def log(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    graph: Graph_ = False,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """Show the commits of all branches, newest first.

    In a copied or moved graph, shows only the commits of main: its other branches cannot be read.
    """
    location = resolve_target(context, uri, store)

    from omnigraph.cli.commit_graph import draw_commits
    from omnigraph.graph.branches import read_all_commits

    commits, heads = read_all_commits(location)
    head_ids = tuple(dict.fromkeys(head for head in heads.values() if head is not None))
    names = {head: [name for name, head_id in heads.items() if head_id == head] for head in head_ids}

    def describe(commit: CommitRecord) -> str:
        branches = f" ({', '.join(names[commit.id])})" if commit.id in names else ""
        text = f"{commit.id}{branches} {format_timestamp(commit.created_us)} {commit.actor} {commit.operation}"
        return printable(text)

    drawn = draw_commits(commits, head_ids)
    if as_json:
        shown_commits = islice((line.commit for line in drawn if line.commit is not None), limit)
        write_json({"heads": heads, "commits": _documents(location, tuple(shown_commits), heads)})
        return
    shown = drawn if graph else (line for line in drawn if line.commit is not None)
    write_lines(
        " ".join([*([line.marks] if graph else []), *([describe(line.commit)] if line.commit else [])])
        for line in islice(shown, limit)
    )
    hidden = [name for name, head in heads.items() if head is None]
    if hidden and not context.obj.quiet:
        hidden_names = printable(", ".join(hidden))
        sys.stderr.write(f"note: the graph was copied or moved, so these branches are not shown: {hidden_names}\n")


def _documents(
    location: Location, commits: Sequence[CommitRecord], heads: Mapping[str, CommitId | None]
) -> list[dict[str, Any]]:
    """Return the commits as JSON, with the table names of their branch, or of main if it was deleted."""
    import msgspec

    from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
    from omnigraph.wire.commits import commit_output, table_names

    live_branches = {commit.branch for commit in commits if heads.get(commit.branch) is not None}
    names = {branch: table_names(read_snapshot(location, branch)) for branch in {MAIN, *live_branches}}
    return [
        msgspec.to_builtins(commit_output(commit, {**names[MAIN], **names.get(commit.branch, {})}))
        for commit in commits
    ]


COMMAND = CommandSource("log", log, ("omnigraph log graph.omni", "omnigraph log --graph --store graph.omni --limit 20"))
