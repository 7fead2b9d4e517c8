"""`omnigraph doctor`: everything about a graph and this machine in one go, and which command fixes what."""

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
    "where": "where",
    "message": "finding",
    "fix": "what helps",
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
    """Look at everything, and say which command fixes what.

    The machine, the format, missing and damaged files, pending recoveries, locks, drift, edges without nodes,
    fragments, indexes and left-overs, on every branch. Nothing is changed. A problem needs a hand, and the exit code is
    3; a notice can wait. Without a graph only the machine is checked.
    """
    how = choose_format(rows_format, as_json)
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
    if how is RowsFormat.JSON:
        place = None if location is None else location.uri
        write_json({"uri": place, "healthy": healthy, "findings": documents})
    elif how is RowsFormat.TABLE:
        write_rows(TITLES, [_inside(location, document) for document in documents], how)
    else:
        write_rows({name: name for name in TITLES}, documents, how)
    if not healthy:
        raise typer.Exit(ExitCode.REFUSED)


def _inside(graph: Location | None, finding: dict[str, Any]) -> dict[str, Any]:
    """As a table shows it: a place in the graph without the way to the graph."""
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
