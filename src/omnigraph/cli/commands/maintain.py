"""`omnigraph maintain`: recover, optimize and clean up a graph, once or on a schedule."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.display import format_bytes, format_count
from omnigraph.base.errors import ConflictError, StorageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.commands.cleanup import Keep, OlderThan
from omnigraph.cli.commands.optimize import MaxTasks
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_command, render_hint
from omnigraph.cli.options import LogFileOption, RunnerArguments, Yes
from omnigraph.cli.output import printable
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import LocatedGraph, StorageArguments, confirm_destruction, print_location
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions

if TYPE_CHECKING:
    from omnigraph.types import MaintainResult

JITTER: Final = 0.1
"""The share of the interval by which a round is moved, so that maintainers of several graphs do not start together."""

Every = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="Keep running, one round per interval, such as 15m.")
]
Branches = Annotated[
    list[str] | None,
    typer.Option("--branch", metavar="NAME", help="Optimize only this branch. Repeatable. Default: where needed."),
]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm", help="Delete the files. Without it, no file is deleted; recovery and optimize still run."
    ),
]
NoCleanup = Annotated[bool, typer.Option("--no-cleanup", help="Delete nothing and do not show what cleanup would do.")]


@command(
    "omnigraph maintain graph.omni",
    "omnigraph maintain graph.omni --keep 10 --older-than 14d --confirm",
    "omnigraph maintain s3://bucket/graph.omni --every 15m --confirm --yes --log-file maintain.jsonl",
    "omnigraph maintain graph.omni --no-cleanup --branch main --json",
    "omnigraph maintain --cluster deploy/ --every 15m",
    capability=Capability.DIRECT,
)
def maintain(
    target: StorageArguments,
    *,
    every: Every = None,
    keep: Keep = 10,
    older_than: OlderThan = "14d",
    no_cleanup: NoCleanup = False,
    branches: Branches = None,
    max_tasks: MaxTasks = None,
    confirm: Confirm = False,
    yes: Yes = False,
    execution: RunnerArguments,
    output: TextOutput,
    log_file: LogFileOption = None,
) -> None:
    """Recover, optimize and clean up a graph, or every graph of a cluster.

    Finishes or undoes interrupted writes, optimizes the branches that need it, deletes old versions under the policy
    (only with --confirm), and checks the graph. Prints what was wrong, what was done and what is left. One process
    maintains a graph at a time; other writers are not blocked. It never runs repair: if an external tool changed a
    table, the exit code is 3.
    """
    from omnigraph.api.arguments import read_duration

    interval = None if every is None else read_duration("every", every)
    age = None if older_than is None else read_duration("older_than", older_than)
    CleanupPolicyOptions(keep, age).policy(0)  # rejects an invalid policy before the graph is opened
    graphs = target.locate_all()
    for graph in graphs:
        print_location(target.context, graph.location)
        if confirm:
            confirm_destruction(target.context, graph.location, "maintain --confirm", yes=yes)

    from omnigraph.api.graph import Graph
    from omnigraph.wire.maintenance import maintain_output

    def document(results: Sequence[MaintainResult]) -> dict[str, Any]:
        pairs = zip(graphs, results, strict=True)
        documents = [
            maintain_output(item.location.uri, result, render_hint, confirmed=confirm) for item, result in pairs
        ]
        return documents[0] if graphs[0].id is None else {"graphs": documents}

    def run_once() -> list[MaintainResult]:
        return [maintain_graph(graph) for graph in graphs]

    def maintain_graph(graph: LocatedGraph) -> MaintainResult:
        with output.progress() as report:
            return Graph(graph.location, spark=execution.spark_master).maintain(
                keep=keep,
                older_than=age,
                cleanup=not no_cleanup,
                branches=branches,
                max_tasks=max_tasks,
                delete=confirm,
                runner=execution.runner,
                progress=report,
            )

    if interval is not None:

        def show(results: Sequence[MaintainResult]) -> None:
            output.show(lambda: document(results), text="\n".join(map(_one_line, results)))

        _repeat(run_once, interval, show)
        output.notify("stopped")
        return
    results = run_once()
    pairs = list(zip(graphs, results, strict=True))
    output.show(lambda: document(results), notices=_all_lines(pairs, partial(_lines, confirmed=confirm)))
    if output.context.obj.quiet and not output.as_json:  # cron and systemd show what is left, and nothing else
        sys.stderr.writelines(f"{line}\n" for line in _all_lines(pairs, _left_lines))
    if any(result.errors for result in results):
        raise typer.Exit(ExitCode.ERROR)
    if any(result.needs_repair for result in results):
        raise typer.Exit(ExitCode.REFUSED)


def _repeat(
    run_once: Callable[[], Sequence[MaintainResult]],
    interval: timedelta,
    show: Callable[[Sequence[MaintainResult]], None],
) -> None:
    """Run rounds until Ctrl-C or SIGTERM. What an interrupted round has not published is undone by the next one.

    A round that fails because the store or another process is busy is a warning; the next round tries again.
    """
    try:
        while True:
            try:
                show(run_once())
            except (StorageError, ConflictError) as error:
                sys.stderr.write(f"warning: this round failed: {printable(error.message)}\n")
            SYSTEM_CLOCK.sleep(interval.total_seconds() * random.uniform(1 - JITTER, 1 + JITTER))
    except KeyboardInterrupt:
        return


def _all_lines(
    pairs: Sequence[tuple[LocatedGraph, MaintainResult]],
    describe: Callable[[MaintainResult, tuple[str, ...]], Iterator[str]],
) -> Iterator[str]:
    """Yield the lines of every graph that has some, below its heading."""
    for graph, result in pairs:
        lines = list(describe(result, graph.arguments))
        if lines:
            yield from (*graph.heading, *lines)


def _lines(result: MaintainResult, graph: tuple[str, ...], *, confirmed: bool) -> Iterator[str]:
    yield f"before: {format_count(len(result.problems), 'finding')}"
    if result.recovered:
        yield f"recovered {format_count(len(result.recovered), 'interrupted write')}; see `omnigraph recovery list`"
    for branch, rows in result.optimized.items():
        done = [row.table_key for row in rows if row.committed]
        yield f"optimized {branch}: {', '.join(done) or 'nothing to do'}"
    if not result.optimized:
        yield "optimize: nothing to do"
    yield from _cleanup_lines(result, confirmed=confirmed)
    yield from _left_lines(result, graph)
    yield f"runner: {result.runner}"


def _left_lines(result: MaintainResult, graph: tuple[str, ...]) -> Iterator[str]:
    """Yield the failed tables and what is left, with the command that fixes it."""
    yield from (f"error: {error}" for error in result.errors)
    for finding in result.left:
        fix = render_command(finding.fix, graph)
        yield f"left: {finding.where or finding.check}: {finding.message}" + (f"; {fix}" if fix else "")


def _cleanup_lines(result: MaintainResult, *, confirmed: bool) -> Iterator[str]:
    if result.cleaned is None:
        return
    files, size = sum(row.files_removed for row in result.cleaned), sum(row.bytes_removed for row in result.cleaned)
    if confirmed:
        yield f"deleted {format_count(files, 'file')}, {format_bytes(size)}"
    elif files:
        yield f"nothing was deleted; --confirm deletes {format_count(files, 'file')}, {format_bytes(size)}"


def _one_line(result: MaintainResult) -> str:
    """Return the line of a round of `--every`."""
    deleted = sum(row.files_removed for row in result.cleaned or ())
    parts = [
        f"{len(result.recovered)} recovered",
        f"{len(result.optimized)} optimized",
        f"{deleted:,} files to delete or deleted",
        f"{len(result.errors)} errors",
        f"{len(result.left)} left",
    ]
    return ", ".join(parts)
