"""`omnigraph query`: the rows of a read query, of a branch as it is now or as it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.moments import parse_time
from omnigraph.cli.options import At, Branch, Commit, Format, Json, SparkMaster, Store, Version
from omnigraph.cli.output import Cell, RowsFormat, choose_format, write_json, write_rows, write_text
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
    name: QueryName = None,
    query_file: QueryFile = None,
    text: QueryText = None,
    store: Store = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    at: At = None,
    params: Params = None,
    params_file: ParamsFile = None,
    engine: EngineOption = QueryEngine.PROCESS,
    spark_master: SparkMaster = None,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Run a read query and print its rows.

    All of it sees one snapshot: the branch as it is now, or with --commit, --version or --at as it was.
    """
    how = choose_format(rows_format, as_json)
    source, found = read_query(context.command_path, query_file, text)
    values = read_params(params, params_file)
    moment = parse_time(at)
    if spark_master is not None and engine is not QueryEngine.SPARK:
        raise UsageError(
            "--spark-master is only for queries on Spark", code="usage", hint="pass --engine spark as well"
        )
    location = named_target(context, name, store)

    from omnigraph.api.graph import Graph
    from omnigraph.api.querying import PreparedQuery

    snapshot = Graph(location, branch, read_only=True).pin(commit=commit, version=version, at=moment)
    prepared = PreparedQuery(found, name, source)
    if engine is QueryEngine.PROCESS:
        show_result(prepared.run(snapshot, values), how)
        return

    from omnigraph.cli.progress import show_progress
    from omnigraph.pipeline.session import SparkSettings

    with show_progress(quiet=context.obj.quiet) as report:
        result = prepared.run_on_spark(snapshot, values, SparkSettings(spark_master), report)
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
                write_text("\n".join(lines))
        return
    rows = result.json()
    if how is RowsFormat.JSON:
        write_json(_to_json(result, rows))
    elif rows or how is not RowsFormat.KV:
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
