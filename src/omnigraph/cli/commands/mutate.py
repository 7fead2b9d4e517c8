"""`omnigraph mutate`: run a query that changes the graph, as one commit, or none if no entity matched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Actor, Json, TargetBranch
from omnigraph.cli.output import write_json
from omnigraph.cli.query_options import GivenLimits, GivenQuery
from omnigraph.cli.target import announce_target

if TYPE_CHECKING:
    from omnigraph.engine.mutation.text import MutationResult

IfCommit = Annotated[
    str | None,
    typer.Option(
        "--if-commit",
        metavar="ID",
        help="Write only if the head of the branch is this commit (full id); otherwise exit with 4.",
    ),
]


def mutate(
    context: typer.Context,
    query_options: GivenQuery,
    limits: GivenLimits,
    branch: TargetBranch = "main",
    if_commit: IfCommit = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Run a query that inserts, updates or deletes, as one commit.

    Later statements see the changes of earlier ones. Nothing is written if the result violates the schema, or if no
    entity matches.
    """
    request = query_options.read(context)
    allowed = limits.limits()

    from omnigraph.api.graph import Graph

    announce_target(context, request.location)
    result = Graph(request.location, branch).mutate(
        request.text, request.params, name=request.name, if_commit=if_commit, actor=actor, limits=allowed
    )
    if as_json:
        from omnigraph.wire.results import change_output

        write_json(change_output(request.location, result))
    elif not context.obj.quiet:
        sys.stderr.write(f"{_summary(result)}\n")


def _summary(result: MutationResult) -> str:
    if result.commit is None:
        return "nothing matched; no commit was created"
    changes = [
        f"{verb} {' and '.join(_count(count, word) for count, word in counts if count)}"
        for verb, counts in (
            ("inserted", ((result.nodes.inserted, "node"), (result.edges.inserted, "edge"))),
            ("updated", ((result.nodes.updated, "node"), (result.edges.updated, "edge"))),
            ("deleted", ((result.nodes.deleted, "node"), (result.edges.deleted, "edge"))),
        )
        if any(count for count, _ in counts)
    ]
    return f"{', '.join(changes)} at commit {result.commit.id}"


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


COMMAND = CommandSource(
    "mutate",
    mutate,
    (
        "omnigraph mutate --store graph.omni -e 'query add() { insert Person { slug: \"ada\" } }'",
        'omnigraph mutate rename --query people.gq --store graph.omni --params \'{"slug": "ada", "name": "Ada"}\'',
        "omnigraph mutate sweep --query people.gq --store graph.omni --if-commit 01J8XKZ0000000000000000000 --json",
    ),
)
