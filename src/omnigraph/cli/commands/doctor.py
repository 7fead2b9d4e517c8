"""`omnigraph doctor`: check a graph and this machine, and name the command that fixes each problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_command
from omnigraph.cli.options import Format, Json, LogFileOption, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import direct_target

if TYPE_CHECKING:
    from omnigraph.storage.location import Location

TITLES: Final = {
    "check": "check",
    "health": "health",
    "branch": "branch",
    "where": "location",
    "message": "finding",
    "fix": "fix",
}


def doctor(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also open each data file and index, and read large tables.")
    ] = False,
    rows_format: Format = None,
    as_json: Json = False,
    log_file: LogFileOption = None,
) -> None:
    """Check a graph, and name the command that fixes a problem.

    Checks the machine, the format, missing and damaged files, pending recoveries, locks, drift, edges without nodes,
    fragments, indexes and unreferenced files, on every branch. Changes nothing. The exit code is 3 if there is a
    problem; a notice needs no immediate action. Without a graph, only the machine is checked.
    """
    output_format = choose_format(rows_format, as_json)
    location = None if uri is None and store is None else direct_target(context, uri, store)

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.doctor.findings import is_healthy
    from omnigraph.maintenance.doctor.run import examine

    graph = None if location is None else Graph(location, read_only=True)
    findings = examine(graph, deep=deep)
    healthy = is_healthy(findings)
    address = uri if uri is not None else store
    documents: list[dict[str, Any]] = [
        {**finding.to_json(), "fix": render_command(finding.fix, address) or None} for finding in findings
    ]
    if output_format is RowsFormat.JSON:
        graph_uri = None if location is None else location.uri
        write_json({"uri": graph_uri, "healthy": healthy, "findings": documents})
    elif output_format is RowsFormat.TABLE:
        write_rows(TITLES, [_with_relative_path(location, document) for document in documents], output_format)
    else:
        write_rows({name: name for name in TITLES}, documents, output_format)
    if not healthy:
        raise typer.Exit(ExitCode.REFUSED)


def _with_relative_path(graph: Location | None, finding: dict[str, Any]) -> dict[str, Any]:
    """Return the finding with its location relative to the graph."""
    if graph is None or finding["where"] is None:
        return finding
    return {**finding, "where": finding["where"].removeprefix(f"{graph.uri}/")}


COMMAND = CommandSource(
    "doctor",
    doctor,
    (
        "omnigraph doctor",
        "omnigraph doctor graph.omni",
        "omnigraph doctor graph.omni --deep",
        "omnigraph doctor --store s3://bucket/graph.omni --json",
    ),
)
