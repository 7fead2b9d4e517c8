"""`omnigraph query`: the rows of a read query, on the newest or an earlier state of a branch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import command
from omnigraph.cli.options import SparkMaster, StateArguments
from omnigraph.cli.output import Cell, RowsFormat, write_json_text
from omnigraph.cli.query_options import LimitArguments, MaxHops, QueryArguments
from omnigraph.cli.results import RowsOutput
from omnigraph.engine.options import QueryEngine

if TYPE_CHECKING:
    from omnigraph.types import Result

EngineOption = Annotated[
    QueryEngine,
    typer.Option(
        "--engine",
        help="The engine of the query; spark is for graphs larger than one machine, and does not support search.",
    ),
]


@command(
    "omnigraph query --store graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
    'omnigraph query friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\' --json',
    "omnigraph query friends --query people.gq --store graph.omni --at 2026-05-31T12:00:00Z --format csv",
    "omnigraph query friends --query people.gq --store s3://bucket/graph.omni --engine spark --json",
)
def query(
    query: QueryArguments,
    state: StateArguments,
    limits: LimitArguments,
    *,
    max_hops: MaxHops = None,
    engine: EngineOption = QueryEngine.PROCESS,
    spark_master: SparkMaster = None,
    output: RowsOutput,
) -> None:
    """Run a read query and print its rows.

    The query reads one snapshot: the newest of the branch, or the one that --commit, --version or --at selects.
    """
    text, params = query.read()
    location = query.locate()
    allowed = limits.limits(max_hops)
    if spark_master is not None and engine is not QueryEngine.SPARK:
        raise UsageError(
            "`--spark-master` requires `--engine spark`",
            code="usage",
            hint="Pass `--engine spark` as well, or remove `--spark-master`.",
        )
    as_of = state.as_of()

    from omnigraph.api.graph import Graph

    graph = Graph(location, branch=state.branch, read_only=True, spark=spark_master)
    prepared = graph.prepare(text, name=query.name, limits=allowed)
    if engine is QueryEngine.PROCESS:
        result = prepared.run(params, as_of=as_of)
    else:
        with output.progress() as report:
            result = prepared.run(params, as_of=as_of, runner="spark", progress=report)
            # Read all rows before the progress bar ends: both would mix on a terminal.
            result.to_arrow()
    if output.format is RowsFormat.JSONL:
        _write_json_lines(result)
        return

    from omnigraph.wire.results import read_output

    document = read_output(result, state.requested_commit(result.source.commit))
    rows = [{key: _cell(value) for key, value in row.items()} for row in document.rows]
    output.show(lambda: document, {column: column for column in document.columns}, rows)


def _write_json_lines(result: Result) -> None:
    """Print each batch when it is ready."""
    from omnigraph.api.results import json_rows

    for batch in result.batches():
        lines = [json.dumps(row, ensure_ascii=False) for row in json_rows(batch)]
        if lines:
            write_json_text("\n".join(lines))


def _cell(value: Any) -> Cell:
    """Return a value as one cell of a row: lists and entities as JSON."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)
