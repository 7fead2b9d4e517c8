"""`omnigraph query`: the rows of a read query, on the newest or an earlier state of a branch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import SparkMaster, StateArguments
from omnigraph.cli.output import Cell, RowsFormat, write_json_text
from omnigraph.cli.query_options import Exact, LimitArguments, MaxHops, QueryArguments
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import ServerScope
from omnigraph.engine.options import QueryEngine

if TYPE_CHECKING:
    from omnigraph.types import Result
    from omnigraph.wire.results import ReadOutput

EngineOption = Annotated[
    QueryEngine,
    typer.Option(
        "--engine",
        help="The engine of the query; spark is for graphs larger than one machine; it searches without indexes.",
    ),
]


@command(
    "omnigraph query graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
    "omnigraph query --server http://127.0.0.1:8080 -e 'query q() { match { $p: Person } return { $p.slug } }'",
    'omnigraph query friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\' --json',
    "omnigraph query friends --query people.gq --store graph.omni --at 2026-05-31T12:00:00Z --format csv",
    "omnigraph query friends --query people.gq --store s3://bucket/graph.omni --engine spark --json",
    capability=Capability.ANY,
)
def query(
    query: QueryArguments,
    state: StateArguments,
    limits: LimitArguments,
    *,
    max_hops: MaxHops = None,
    exact: Exact = False,
    engine: EngineOption = QueryEngine.PROCESS,
    spark_master: SparkMaster = None,
    output: RowsOutput,
) -> None:
    """Run a read query and print its rows.

    The query reads one snapshot: the newest of the branch, or the one that --commit, --version or --at selects.
    """
    text, params = query.read(is_run=True)
    scope = query.target.scope()
    allowed = limits.limits(max_hops, exact=exact)
    if spark_master is not None and engine is not QueryEngine.SPARK:
        raise UsageError(
            "`--spark-master` requires `--engine spark`",
            code="usage",
            hint="Pass `--engine spark` as well, or remove `--spark-master`.",
        )
    is_streamed = output.format is RowsFormat.JSONL or engine is QueryEngine.SPARK
    if isinstance(scope, ServerScope) or not is_streamed:
        connection = query.target.connect(limits=allowed, state=state)

        from omnigraph.wire.requests import QueryRequest

        request = QueryRequest(query=text, name=query.query_name, params=params, **connection.state)
        _show(connection.client.query(request), output)
        return

    from omnigraph.wire.results import read_output

    graph = query.target.open(state.branch, spark=spark_master)
    prepared = graph.prepare(text, name=query.query_name, limits=allowed)
    if engine is QueryEngine.PROCESS:
        result = prepared.run(params, as_of=state.as_of())
    else:
        with output.progress() as report:
            result = prepared.run(params, as_of=state.as_of(), runner="spark", progress=report)
            # Read all rows before the progress bar ends: both would mix on a terminal.
            result.to_arrow()
    if output.format is RowsFormat.JSONL:
        _write_batches(result)
    else:
        _show(read_output(result, state.requested_commit(result.source.commit)), output)


def _show(document: ReadOutput, output: RowsOutput) -> None:
    if output.format is RowsFormat.JSONL:
        _write_json_lines(document.rows)
        return
    rows = [{key: _cell(value) for key, value in row.items()} for row in document.rows]
    output.show(lambda: document, {column: column for column in document.columns}, rows)


def _write_batches(result: Result) -> None:
    """Print each batch when it is ready."""
    from omnigraph.api.results import json_rows

    for batch in result.batches():
        _write_json_lines(json_rows(batch))


def _write_json_lines(rows: Iterable[dict[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    if lines:
        write_json_text("\n".join(lines))


def _cell(value: Any) -> Cell:
    """Return a value as one cell of a row: lists and entities as JSON."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)
