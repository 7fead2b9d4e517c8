"""`omnigraph explain`: how a query would run on a graph, step by step, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, Commit, Json, Store
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.query_text import (
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
    read_params,
    read_query,
)
from omnigraph.cli.target import named_target

if TYPE_CHECKING:
    from omnigraph.api.checking import Explained
    from omnigraph.query import ExplainedStep

Analyze = Annotated[
    bool, typer.Option("--analyze", help="Run the query, and tell what each step really did.")
]


def explain(
    context: typer.Context,
    name: QueryName = None,
    query: QueryFile = None,
    text: QueryText = None,
    store: Store = None,
    branch: Branch = "main",
    commit: Commit = None,
    params: Params = None,
    params_file: ParamsFile = None,
    analyze: Analyze = False,
    as_json: Json = False,
) -> None:
    """Show how a query would run, without running it.

    Per scan the filter that storage evaluates, the index that serves it and the rows it does not cover; per step about
    how many rows there may be. With parameters, the plan for exactly those values. With --analyze the query is run:
    each step also tells how many rows it gave, how long it took with those below it, and how edges were followed.
    """
    source, found = read_query(context.command_path, query, text)
    values = read_params(params, params_file)
    location = named_target(context, name, store)

    from omnigraph.api.checking import QuerySource, explain_query
    from omnigraph.api.graph import Graph

    snapshot = Graph(location, branch, read_only=True).snapshot(commit=commit and commit.upper())
    explained = explain_query(snapshot, QuerySource(found, source, name), values, analyze=analyze)
    if as_json:
        write_json(_to_json(explained))
    else:
        write_text(explained.text)


def _to_json(explained: Explained) -> dict[str, Any]:
    snapshot = explained.snapshot
    return {
        "query_name": explained.query_name,
        "target": {"branch": snapshot.branch.name, "snapshot": snapshot.version},
        "graph_commit_id": snapshot.head,
        "steps": [_step_to_json(step) for step in explained.steps],
        "text": explained.text,
    }


def _step_to_json(step: ExplainedStep) -> dict[str, Any]:
    figures = step.figures
    return {
        "number": step.number,
        "depth": step.depth,
        "step": step.text,
        "rows_estimated": figures.rows_estimated,
        "rows": figures.rows,
        "seconds": figures.seconds,
        "mode": figures.mode,
        "reason": figures.reason,
    }


COMMAND = CommandSource(
    "explain",
    explain,
    (
        "omnigraph explain --store graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
        'omnigraph explain friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\'',
        "omnigraph explain friends --query people.gq --store graph.omni --params-file params.json --analyze --json",
    ),
)
