"""`omnigraph explain`: show the plan of a query on a graph; with `--analyze`, run it and show what each step did."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.query_options import GivenLimits, GivenMoment, GivenQuery, MaxHops

Analyze = Annotated[bool, typer.Option("--analyze", help="Run the query, and show the rows and the time of each step.")]


def explain(
    context: typer.Context,
    query_options: GivenQuery,
    state_options: GivenMoment,
    limits: GivenLimits,
    max_hops: MaxHops = None,
    analyze: Analyze = False,
    as_json: Json = False,
) -> None:
    """Show the plan of a query; with --analyze, run it.

    Shows for each scan the filter that storage evaluates, the index that serves it and the rows that the index does not
    cover; for each step an estimate of its rows. With parameters, shows the plan for these values. With --analyze, the
    query runs, and each step also shows its rows, its time including the steps below it, and how it followed edges.
    """
    request = query_options.read(context)
    allowed = limits.limits(max_hops)
    if limits != GivenLimits() and not analyze:
        raise UsageError(
            "`--max-memory` and `--max-seconds` require `--analyze`: without it, the query does not run",
            code="usage",
            hint="Pass `--analyze` as well, or remove `--max-memory` and `--max-seconds`.",
        )
    graph, state = state_options.open(request.location)
    explained = graph.explain(
        request.text, request.params, name=request.name, as_of=state, analyze=analyze, limits=allowed
    )
    if as_json:
        from omnigraph.wire.results import explain_output

        write_json(explain_output(explained, state_options.requested_commit(explained.snapshot.head)))
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
