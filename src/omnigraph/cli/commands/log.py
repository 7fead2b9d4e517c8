"""`omnigraph log`: the commits of every branch, newest first; `--draw` draws their ancestry."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.command import Capability, command
from omnigraph.cli.commit_graph import DrawnLine, draw_commits
from omnigraph.cli.output import printable, write_json, write_lines
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient
    from omnigraph.wire.commits import CommitOutput, LogOutput

Draw = Annotated[bool, typer.Option("--draw", help="Draw the ancestry of the commits.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N lines.")]

_PAGE: Final = 1_000
"""How many commits one request asks for."""


@command("omnigraph log graph.omni", "omnigraph log --draw --store graph.omni --limit 20", capability=Capability.ANY)
def log(target: GraphArguments, *, draw: Draw = False, limit: Limit = 100, output: TextOutput) -> None:
    """Show the commits of all branches, newest first.

    In a copied or moved graph, shows only the commits of main, until `doctor --fix-location` was run.
    """
    client = target.connect().client
    pages = _read_pages(client, limit)
    if output.as_json:
        write_json(pages)
        return

    def describe(commit: CommitOutput) -> str:
        names = [name for name, head in pages.heads.items() if head == commit.graph_commit_id]
        branches = f" ({', '.join(names)})" if names else ""
        return printable(f"{commit.graph_commit_id}{branches} {commit.created} {commit.actor_id} {commit.operation}")

    lines = draw_commits(pages.commits) if draw else (DrawnLine("", commit) for commit in pages.commits)
    write_lines(
        " ".join([*([line.marks] if draw else []), *([describe(line.commit)] if line.commit else [])])
        for line in islice(lines, limit)
    )
    hidden = [name for name, head in pages.heads.items() if head is None]
    if hidden:
        hidden_names = printable(", ".join(hidden))
        output.notify(f"note: the graph was copied or moved, so these branches are not shown: {hidden_names}")


def _read_pages(client: GraphClient, limit: int) -> LogOutput:
    """Return the newest commits, of as many pages as needed, as one page."""
    import msgspec

    from omnigraph.wire.requests import LogParameters

    page = client.log(LogParameters(limit=min(limit, _PAGE)))
    heads, commits = page.heads, list(page.commits)
    while isinstance(page.next_page_token, str) and len(commits) < limit:
        page = client.log(LogParameters(limit=min(limit - len(commits), _PAGE), page_token=page.next_page_token))
        commits += page.commits
    return msgspec.structs.replace(page, heads=heads, commits=commits, next_page_token=msgspec.UNSET)
