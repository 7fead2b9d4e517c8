"""`omnigraph explain`: how a query would run on a graph, step by step; with `--analyze`, how it did run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.query_options import GivenLimits, GivenMoment, GivenQuery, MaxHops

if TYPE_CHECKING:
    pass

Analyze = Annotated[
    bool, typer.Option("--analyze", help="Run the query, and tell what each step really did.")
]


def explain(
    context: typer.Context,
    given: GivenQuery,
    moment: GivenMoment,
    limits: GivenLimits,
    max_hops: MaxHops = None,
    analyze: Analyze = False,
    as_json: Json = False,
) -> None:
    """Show how a query would run; --analyze runs it.

    Per scan the filter that storage evaluates, the index that serves it and the rows it does not cover; per step about
    how many rows there may be. With parameters, the plan for exactly those values. With --analyze the query is run:
    each step also tells how many rows it gave, how long it took with those below it, and how edges were followed.
    """
    asked = given.read(context)
    allowed = limits.limits(max_hops)
    if limits != GivenLimits() and not analyze:
        raise UsageError(
            "--max-memory and --max-seconds are for queries that run",
            code="usage",
            hint="pass --analyze as well, or leave them out",
        )
    graph, state = moment.open(asked.location)
    explained = graph.explain(
        asked.text, asked.params, name=asked.name, as_of=state, analyze=analyze, limits=allowed
    )
    if as_json:
        from omnigraph.wire.results import explain_output

        write_json(explain_output(explained, moment.requested_commit(explained.snapshot.head)))
    else:
        write_text(explained.text)


COMMAND = CommandSource(
    "explain",
    explain,
    (
        "omnigraph explain --store graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
        'omnigraph explain friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\'',
        "omnigraph explain friends --query people.gq --store graph.omni --params-file params.json --analyze --json",
    ),
)
