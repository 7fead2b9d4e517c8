"""`omnigraph log`: the commits of every branch, newest first, with `--graph` as a drawing."""

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

Graph_ = Annotated[bool, typer.Option("--graph", help="Draw how the commits descend from each other.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most so many lines.")]


def log(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    graph: Graph_ = False,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """Show the commits of all branches, newest first.

    In a copied or moved graph those of main: its other branches cannot be read there.
    """
    location = resolve_target(context, uri, store)

    from omnigraph.cli.commit_graph import draw_commits
    from omnigraph.graph.branches import read_all_commits

    commits, heads = read_all_commits(location)
    known = tuple(dict.fromkeys(head for head in heads.values() if head is not None))
    names = {head: [name for name, one in heads.items() if one == head] for head in known}

    def told(commit: CommitRecord) -> str:
        branches = f" ({', '.join(names[commit.id])})" if commit.id in names else ""
        text = (
            f"{commit.id}{branches} {format_timestamp(commit.created_us)} {commit.actor} {commit.operation}"
        )
        return printable(text)

    drawn = draw_commits(commits, known)
    if as_json:
        found = islice((line.commit for line in drawn if line.commit is not None), limit)
        write_json({"heads": heads, "commits": _documents(location, tuple(found), heads)})
        return
    shown = drawn if graph else (line for line in drawn if line.commit is not None)
    write_lines(
        " ".join([*([line.marks] if graph else []), *([told(line.commit)] if line.commit else [])])
        for line in islice(shown, limit)
    )
    hidden = [name for name, head in heads.items() if head is None]
    if hidden and not context.obj.quiet:
        told_names = printable(", ".join(hidden))
        sys.stderr.write(
            f"note: the graph was copied or moved, so these branches are not shown: {told_names}\n"
        )


def _documents(
    location: Location, commits: Sequence[CommitRecord], heads: Mapping[str, CommitId | None]
) -> list[dict[str, Any]]:
    """The commits, each with the tables as its own branch calls them, or main when that branch is gone."""
    import msgspec

    from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
    from omnigraph.wire.commits import commit_output, table_names

    living = {commit.branch for commit in commits if heads.get(commit.branch) is not None}
    names = {branch: table_names(read_snapshot(location, branch)) for branch in {MAIN, *living}}
    return [
        msgspec.to_builtins(commit_output(commit, {**names[MAIN], **names.get(commit.branch, {})}))
        for commit in commits
    ]


COMMAND = CommandSource(
    "log",
    log,
    ("omnigraph log graph.omni", "omnigraph log --graph --store graph.omni --limit 20"),
)
