"""`omnigraph doctor`: check a graph and this machine, and name the command that fixes each problem."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_command
from omnigraph.cli.options import LogFileOption
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments

TITLES: Final = {
    "check": "check",
    "health": "health",
    "branch": "branch",
    "where": "location",
    "message": "finding",
    "fix": "fix",
}
Deep = Annotated[bool, typer.Option("--deep", help="Also open each data file and index, and read large tables.")]


@command(
    "omnigraph doctor",
    "omnigraph doctor graph.omni",
    "omnigraph doctor graph.omni --deep",
    "omnigraph doctor --store s3://bucket/graph.omni --json",
    capability=Capability.ANY,
)
def doctor(target: StorageArguments, *, deep: Deep = False, output: RowsOutput, log_file: LogFileOption = None) -> None:
    """Check a graph, and name the command that fixes a problem.

    Checks the machine, the format, missing and damaged files, pending recoveries, locks, drift, dangling edges,
    fragments, indexes and unreferenced files, on every branch. Changes nothing. The exit code is 3 if there is a
    problem; a notice needs no immediate action. Without a graph, only the machine is checked.
    """
    location = None if target.find_scope() is None else target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.doctor.run import check_graph
    from omnigraph.wire.maintenance import doctor_output

    graph = None if location is None else Graph(location, read_only=True)
    uri = None if location is None else location.uri
    findings = check_graph(graph, deep=deep)
    document = doctor_output(uri, findings, lambda fix: render_command(fix, target.arguments))
    rows = [{name: getattr(row, name) for name in TITLES} for row in document.findings]
    table_rows = [{**row, "where": row["where"] and row["where"].removeprefix(f"{uri}/")} for row in rows]
    output.show(lambda: document, TITLES, table_rows, field_rows=rows)
    if not document.healthy:
        raise typer.Exit(ExitCode.REFUSED)
