"""`omnigraph doctor`: check a graph and this machine, and name the command that fixes each problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_command
from omnigraph.cli.options import LogFileOption
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments, ServerScope

if TYPE_CHECKING:
    from omnigraph.wire.maintenance import DoctorOutput

TITLES: Final = {
    "check": "check",
    "health": "health",
    "branch": "branch",
    "where": "location",
    "message": "finding",
    "fix": "fix",
}
Deep = Annotated[bool, typer.Option("--deep", help="Also open each data file and index, and read large tables.")]


FixLocation = Annotated[
    bool,
    typer.Option(
        "--fix-location", help="Show what to rewrite so that the branches of a moved or copied graph work here."
    ),
]
Confirm = Annotated[bool, typer.Option("--confirm", help="With --fix-location: rewrite it.")]


@command(
    "omnigraph doctor",
    "omnigraph doctor graph.omni",
    "omnigraph doctor graph.omni --deep",
    "omnigraph doctor --store s3://bucket/graph.omni --json",
    "omnigraph doctor copy.omni --fix-location --confirm",
    capability=Capability.ANY,
)
def doctor(
    target: GraphArguments,
    *,
    deep: Deep = False,
    fix_location: FixLocation = False,
    confirm: Confirm = False,
    output: RowsOutput,
    log_file: LogFileOption = None,
) -> None:
    """Check a graph, and name the command that fixes a problem.

    Checks the machine, the format, missing and damaged files, pending recoveries, locks, drift, dangling edges,
    fragments, indexes and unreferenced files, on every branch. Changes nothing. The exit code is 3 if there is a
    problem; a notice needs no immediate action. Without a graph, only the machine is checked.

    With --fix-location nothing is checked: it shows the references of branches to the location at which the graph was
    created. With --confirm it rewrites them, so that the branches of a moved or copied graph can be used.
    """
    if fix_location:
        if deep:
            raise UsageError(
                "unexpected `--deep`: `--fix-location` checks nothing", code="usage", hint="Omit one of the two."
            )
        _fix_location(target, output, confirm=confirm)
        return
    if confirm:
        raise UsageError(
            "unexpected `--confirm`: it is for `--fix-location`",
            code="usage",
            hint="Pass `--fix-location --confirm`, or omit `--confirm`.",
        )
    scope = target.find_scope()
    document = _ask_server(target) if isinstance(scope, ServerScope) else _check(target, deep=deep)
    rows = [{name: getattr(row, name) for name in TITLES} for row in document.findings]
    prefix = f"{document.uri}/"
    table_rows = [{**row, "where": row["where"] and row["where"].removeprefix(prefix)} for row in rows]
    output.show(lambda: document, TITLES, table_rows, field_rows=rows)
    if not document.healthy:
        raise typer.Exit(ExitCode.REFUSED)


LOCATION_TITLES: Final = {
    "recorded": "recorded location",
    "uri": "location",
    "lance_branches": "branches of tables",
    "files": "files",
    "state": "state",
}


def _fix_location(target: GraphArguments, output: RowsOutput, *, confirm: bool) -> None:
    location = target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.wire.maintenance import location_output

    document = location_output(Graph(location).fix_location(dry_run=not confirm))
    rows = [{name: getattr(document, name) for name in LOCATION_TITLES}]
    output.show(lambda: document, LOCATION_TITLES, rows)
    if document.state == "needed":
        output.notify("Nothing was changed. Run the command again with --confirm to rewrite the files.")


def _check(target: GraphArguments, *, deep: bool) -> DoctorOutput:
    """Check this machine, and the graph if the arguments name one."""
    location = None if target.find_scope() is None else target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.doctor.run import check_graph
    from omnigraph.wire.maintenance import doctor_output

    graph = None if location is None else Graph(location, read_only=True)
    uri = None if location is None else location.uri
    return doctor_output(uri, check_graph(graph, deep=deep), lambda fix: render_command(fix, target.arguments))


def _ask_server(target: GraphArguments) -> DoctorOutput:
    """Return what the server finds about the graph. Its hints are rendered for this command line."""
    health = target.connect().print_location().client.health()

    import msgspec

    from omnigraph.base.hints import hint_from_json
    from omnigraph.wire.maintenance import DoctorOutput, FindingOutput

    def render(finding: FindingOutput) -> FindingOutput:
        advice = finding.advice
        fix = render_command(hint_from_json(advice), target.arguments) if isinstance(advice, dict) else finding.fix
        return msgspec.structs.replace(finding, fix=fix, advice=msgspec.UNSET)

    return DoctorOutput(health.uri, health.healthy, [render(finding) for finding in health.findings])
