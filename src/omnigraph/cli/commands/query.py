"""`omnigraph query`: the rows of a read query, on the newest or an earlier state of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Format, Json, SparkMaster
from omnigraph.cli.output import Cell, RowsFormat, choose_format, write_json, write_json_text, write_rows
from omnigraph.cli.query_options import GivenLimits, GivenMoment, GivenQuery, MaxHops
from omnigraph.engine.options import QueryEngine

if TYPE_CHECKING:
    from omnigraph.api.results import Result

EngineOption = Annotated[
    QueryEngine,
    typer.Option(
        "--engine",
        help="The engine of the query; spark is for graphs larger than one machine, and does not support search.",
    ),
]


def query(
    context: typer.Context,
    query_options: GivenQuery,
    state_options: GivenMoment,
    limits: GivenLimits,
    max_hops: MaxHops = None,
    engine: EngineOption = QueryEngine.PROCESS,
    spark_master: SparkMaster = None,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Run a read query and print its rows.

    The query reads one snapshot: the newest of the branch, or the one that --commit, --version or --at selects.
    """
    output_format = choose_format(rows_format, as_json)
    request = query_options.read(context)
    allowed = limits.limits(max_hops)
    if spark_master is not None and engine is not QueryEngine.SPARK:
        raise UsageError(
            "`--spark-master` requires `--engine spark`",
            code="usage",
            hint="Pass `--engine spark` as well, or remove `--spark-master`.",
        )
    graph, state = state_options.open(request.location, spark_master)
    prepared = graph.prepare(request.text, name=request.name, limits=allowed)
    if engine is QueryEngine.PROCESS:
        _show_result(prepared.run(request.params, as_of=state), output_format, state_options)
        return

    from omnigraph.cli.progress import show_progress

    with show_progress(quiet=context.obj.quiet) as report:
        result = prepared.run(request.params, as_of=state, engine="spark", progress=report)
        # Read all rows before the progress bar ends: both would mix on a terminal.
        result.to_arrow()
    _show_result(result, output_format, state_options)


def _show_result(result: Result, output_format: RowsFormat, state_options: GivenMoment) -> None:
    """Print the rows of a result; `jsonl` prints each batch when it is ready."""
    from omnigraph.api.results import json_rows

    if output_format is RowsFormat.JSONL:
        import json

        for batch in result.batches():
            lines = [json.dumps(row, ensure_ascii=False) for row in json_rows(batch)]
            if lines:
                write_json_text("\n".join(lines))
        return

    from omnigraph.wire.results import read_output

    document = read_output(result, state_options.requested_commit(result.source.commit))
    if output_format is RowsFormat.JSON:
        write_json(document)
    else:
        titles = {column: column for column in document.columns}
        write_rows(titles, [{key: _cell(value) for key, value in row.items()} for row in document.rows], output_format)


def _cell(value: Any) -> Cell:
    """Return a value as one cell of a row: lists and entities as JSON."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


COMMAND = CommandSource(
    "query",
    query,
    (
        "omnigraph query --store graph.omni -e 'query q() { match { $p: Person } return { $p.slug } }'",
        'omnigraph query friends --query people.gq --store graph.omni --params \'{"slug": "ada"}\' --json',
        "omnigraph query friends --query people.gq --store graph.omni --at 2026-05-31T12:00:00Z --format csv",
        "omnigraph query friends --query people.gq --store s3://bucket/graph.omni --engine spark --json",
    ),
)
