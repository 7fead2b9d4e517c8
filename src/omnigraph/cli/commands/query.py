"""`omnigraph query`: the rows of a read query, of a branch as it is now or as it was."""

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
        help="What runs the query; spark is for graphs that outgrow one machine, and does not search.",
    ),
]


def query(
    context: typer.Context,
    given: GivenQuery,
    moment: GivenMoment,
    limits: GivenLimits,
    max_hops: MaxHops = None,
    engine: EngineOption = QueryEngine.PROCESS,
    spark_master: SparkMaster = None,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Run a read query and print its rows.

    All of it sees one snapshot: the branch as it is now, or with --commit, --version or --at as it was.
    """
    how = choose_format(rows_format, as_json)
    asked = given.read(context)
    allowed = limits.limits(max_hops)
    if spark_master is not None and engine is not QueryEngine.SPARK:
        raise UsageError(
            "--spark-master is only for queries on Spark", code="usage", hint="pass --engine spark as well"
        )
    graph, state = moment.open(asked.location, spark_master)
    prepared = graph.prepare(asked.text, name=asked.name, limits=allowed)
    if engine is QueryEngine.PROCESS:
        _show_result(prepared.run(asked.params, as_of=state), how, moment)
        return

    from omnigraph.cli.progress import show_progress

    with show_progress(quiet=context.obj.quiet) as report:
        result = prepared.run(asked.params, as_of=state, engine="spark", progress=report)
        # A bar on stderr and rows on stdout would mix on a terminal.
        result.to_arrow()
    _show_result(result, how, moment)


def _show_result(result: Result, how: RowsFormat, moment: GivenMoment) -> None:
    """Print the rows of a result; lines of JSON are printed while the rows are made."""
    from omnigraph.api.results import json_rows

    if how is RowsFormat.JSONL:
        import json

        for batch in result.batches():
            lines = [json.dumps(row, ensure_ascii=False) for row in json_rows(batch)]
            if lines:
                write_json_text("\n".join(lines))
        return

    from omnigraph.wire.results import read_output

    document = read_output(result, moment.requested_commit(result.source.commit))
    if how is RowsFormat.JSON:
        write_json(document)
    else:
        titles = {column: column for column in document.columns}
        write_rows(titles, [{key: _cell(value) for key, value in row.items()} for row in document.rows], how)


def _cell(value: Any) -> Cell:
    """A value as one cell of text: lists and entities as JSON."""
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
