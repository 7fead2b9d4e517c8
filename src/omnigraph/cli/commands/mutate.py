"""`omnigraph mutate`: a query that changes the graph becomes one commit, or none when nothing matched."""

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
        help="Only if the branch's head is this commit, by its whole id; otherwise exit with 4.",
    ),
]


def mutate(
    context: typer.Context,
    given: GivenQuery,
    limits: GivenLimits,
    branch: TargetBranch = "main",
    if_commit: IfCommit = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Run a query that inserts, updates or deletes, as one commit.

    Later statements see what earlier ones did. Nothing is written when a rule of the schema is broken, or when nothing
    matches.
    """
    asked = given.read(context)
    allowed = limits.limits()

    from omnigraph.api.graph import Graph

    announce_target(context, asked.location)
    result = Graph(asked.location, branch).mutate(
        asked.text, asked.params, name=asked.name, if_commit=if_commit, actor=actor, limits=allowed
    )
    if as_json:
        from omnigraph.wire.results import change_output

        write_json(change_output(asked.location, result))
    elif not context.obj.quiet:
        sys.stderr.write(f"{_sentence(result)}\n")


def _sentence(result: MutationResult) -> str:
    if result.commit is None:
        return "nothing matched; there is no commit"
    told = [
        f"{verb} {' and '.join(_number(count, word) for count, word in counts if count)}"
        for verb, counts in (
            ("inserted", ((result.nodes.inserted, "node"), (result.edges.inserted, "edge"))),
            ("updated", ((result.nodes.updated, "node"), (result.edges.updated, "edge"))),
            ("deleted", ((result.nodes.deleted, "node"), (result.edges.deleted, "edge"))),
        )
        if any(count for count, _ in counts)
    ]
    return f"{', '.join(told)} at commit {result.commit.id}"


def _number(count: int, word: str) -> str:
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
