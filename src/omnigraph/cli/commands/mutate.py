"""`omnigraph mutate`: a query that changes the graph becomes one commit, or none when nothing matched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.actors import login_name
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Actor, Json, TargetBranch
from omnigraph.cli.output import write_json
from omnigraph.cli.query_options import GivenLimits, GivenQuery
from omnigraph.cli.target import announce_target

if TYPE_CHECKING:
    from omnigraph.api.mutate import MutationResult
    from omnigraph.storage.location import Location

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

    from omnigraph.api.mutate import MutationOptions, run_mutation_text
    from omnigraph.api.query import QuerySource

    announce_target(context, asked.location)
    options = MutationOptions(actor or login_name(), branch, if_commit, limits=allowed)
    source = QuerySource(asked.text, asked.source, asked.name)
    result = run_mutation_text(asked.location, source, asked.params, options)
    if as_json:
        write_json(_to_json(asked.location, result))
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


def _to_json(location: Location, result: MutationResult) -> dict[str, Any]:
    from omnigraph.wire.history import new_commit_to_json

    return {
        "query_name": result.query_name,
        "branch": result.branch,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "nodes": result.nodes.to_json(),
        "edges": result.edges.to_json(),
        "actor_id": result.actor,
        "commit": new_commit_to_json(location, result.commit),
    }


COMMAND = CommandSource(
    "mutate",
    mutate,
    (
        "omnigraph mutate --store graph.omni -e 'query add() { insert Person { slug: \"ada\" } }'",
        'omnigraph mutate rename --query people.gq --store graph.omni --params \'{"slug": "ada", "name": "Ada"}\'',
        "omnigraph mutate sweep --query people.gq --store graph.omni --if-commit 01J8XKZ0000000000000000000 --json",
    ),
)
