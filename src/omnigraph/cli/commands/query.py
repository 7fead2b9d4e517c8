"""`omnigraph query`: the rows of a read query, of a branch as it is now or as it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    snapshot = moment.pin(asked.location)

    from omnigraph.api.query import PreparedQuery, QueryOptions, run_prepared

    prepared = PreparedQuery(asked.text, asked.name, asked.source, max_hops)
    if engine is QueryEngine.PROCESS:
        show_result(run_prepared(prepared, snapshot, asked.params, QueryOptions(limits=allowed)), how)
        return

    from omnigraph.cli.progress import show_progress

    with show_progress(quiet=context.obj.quiet) as report:
        options = QueryOptions(engine, spark_master, limits=allowed, report=report)
        result = run_prepared(prepared, snapshot, asked.params, options)
        # A bar on stderr and rows on stdout would mix on a terminal.
        result.arrow()
    show_result(result, how)


def show_result(result: Result, how: RowsFormat) -> None:
    """Print the rows of a result; as lines of JSON while they come."""
    from omnigraph.api.results import json_rows

    if how is RowsFormat.JSONL:
        import json

        for batch in result.batches():
            lines = [json.dumps(row, ensure_ascii=False) for row in json_rows(batch)]
            if lines:
                write_json_text("\n".join(lines))
        return
    rows = result.json()
    if how is RowsFormat.JSON:
        write_json(_to_json(result, rows))
    else:
        titles = {column: column for column in result.columns}
        write_rows(titles, [{key: _cell(value) for key, value in row.items()} for row in rows], how)


def _to_json(result: Result, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    listed = list(rows)
    source = result.source
    return {
        "query_name": source.query_name,
        "target": {"branch": source.branch, "snapshot": source.manifest_version},
        "columns": result.columns,
        "row_count": len(listed),
        "rows": listed,
        "graph_commit_id": source.commit,
    }


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
