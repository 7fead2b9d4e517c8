"""`omnigraph mutate`: run a query that changes the graph, as one commit, or none if no entity matched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Actor, TargetBranch
from omnigraph.cli.query_options import LimitArguments, QueryArguments
from omnigraph.cli.results import TextOutput

if TYPE_CHECKING:
    from omnigraph.wire.results import ChangeOutput

IfCommit = Annotated[
    str | None,
    typer.Option(
        "--if-commit",
        metavar="ID",
        help="Write only if the head of the branch is this commit (full id); otherwise exit with 4.",
    ),
]


@command(
    "omnigraph mutate graph.omni -e 'query add() { insert Person { slug: \"ada\" } }'",
    'omnigraph mutate rename --query people.gq --store graph.omni --params \'{"slug": "ada", "name": "Ada"}\'',
    "omnigraph mutate sweep --query people.gq --store graph.omni --if-commit 01J8XKZ0000000000000000000 --json",
    capability=Capability.ANY,
)
def mutate(
    query: QueryArguments,
    limits: LimitArguments,
    *,
    branch: TargetBranch = "main",
    if_commit: IfCommit = None,
    actor: Actor = None,
    output: TextOutput,
) -> None:
    """Run a query that inserts, updates or deletes, as one commit.

    Later statements see the changes of earlier ones. Nothing is written if the result violates the schema, or if no
    entity matches.
    """
    text, params = query.read(is_run=True)
    connection = query.target.connect(actor=actor, limits=limits.limits(), read_only=False).print_location()

    from omnigraph.wire.requests import ChangeRequest

    request = ChangeRequest(query=text, name=query.query_name, params=params, branch=branch)
    document = connection.client.mutate(request, if_commit)
    output.show(lambda: document, notices=[_summary(document)])


def _summary(result: ChangeOutput) -> str:
    if result.commit is None:
        return "nothing matched; no commit was created"
    changes = []
    for verb in ("inserted", "updated", "deleted"):
        counts = ((result.nodes[verb], "node"), (result.edges[verb], "edge"))
        if any(count for count, _ in counts):
            changes.append(f"{verb} {' and '.join(format_count(count, word) for count, word in counts if count)}")
    return f"{', '.join(changes)} at commit {result.commit.graph_commit_id}"
