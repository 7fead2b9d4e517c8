"""`omnigraph explain`: show the plan of a query on a graph; with `--analyze`, run it and show what each step did."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import StateArguments
from omnigraph.cli.query_options import Exact, LimitArguments, MaxHops, QueryArguments
from omnigraph.cli.results import TextOutput

Analyze = Annotated[bool, typer.Option("--analyze", help="Run the query, and show the rows and the time of each step.")]


@command(
    "omnigraph explain graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
    'omnigraph explain friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\'',
    "omnigraph explain friends --query people.gq --store graph.omni --params-file params.json --analyze --json",
    capability=Capability.ANY,
)
def explain(
    query: QueryArguments,
    state: StateArguments,
    limits: LimitArguments,
    *,
    max_hops: MaxHops = None,
    exact: Exact = False,
    analyze: Analyze = False,
    output: TextOutput,
) -> None:
    """Show the plan of a query; with --analyze, run it.

    Shows for each scan the filter that storage evaluates, the index that serves it and the rows that the index does not
    cover; for each search whether it uses an index, and why; for each step an estimate of its rows. With parameters,
    shows the plan for these values. With --analyze, the query runs, and each step also shows its rows, its time
    including the steps below it, and how it followed edges or searched.
    """
    text, params = query.read()
    connection = query.target.connect(limits=limits.limits(max_hops, exact=exact), state=state)
    if limits != LimitArguments() and not analyze:
        raise UsageError(
            "`--max-memory` and `--max-seconds` require `--analyze`: without it, the query does not run",
            code="usage",
            hint="Pass `--analyze` as well, or remove `--max-memory` and `--max-seconds`.",
        )

    from omnigraph.wire.requests import ExplainRequest

    request = ExplainRequest(query=text, name=query.query_name, params=params, analyze=analyze, **connection.state)
    document = connection.client.explain(request)
    output.show(lambda: document, text=document.text)
