"""`omnigraph demo`: run the main features of Omnigraph on generated data, with default settings.

Every command that it prints runs in this process, unchanged, and all numbers are measured. A command with an unexpected
exit code stops the demo with an error. The files are deleted at the end unless `--dir` or `--keep` is passed.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.errors import InvariantError, MachineError, RefusedError, UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.output import write_text

if TYPE_CHECKING:
    from omnigraph.cli.demo.steps import DemoSection, DemoState, Step

Directory = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Write the files to this new or empty directory and keep them."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the files of the temporary directory.")]
Serve = Annotated[bool, typer.Option("--serve", help="Serve the graph at the end until Ctrl-C, with a web page.")]
People = Annotated[int, typer.Option("--people", min=20, help="The number of people in the data.")]
Commits = Annotated[int, typer.Option("--commits", min=1, help="The number of small commits.")]


@command(
    "omnigraph demo",
    "omnigraph demo --dir demo",
    "omnigraph demo --serve",
    "omnigraph demo --people 5000",
    capability=Capability.LOCAL,
)
def demo(
    directory: Directory = None,
    keep: Keep = False,
    serve: Serve = False,
    people: People = 70_000,
    commits: Commits = 300,
) -> None:
    """Run the main commands on generated data.

    Loads, queries, embeds, branches, merges, optimizes, repairs, recovers, cleans up and serves a graph in a temporary
    directory, which is deleted at the end. Takes about two minutes on two cores. With --serve, the server runs until
    Ctrl-C, with a web page.
    """
    from omnigraph.cli.commands.serve import find_missing_package
    from omnigraph.cli.demo.steps import SECTIONS, DemoState, wait_for_server

    started, program, missing = perf_counter(), _command_name(), find_missing_package()
    if serve and missing is not None:
        raise missing
    with _open_work_directory(directory, keep) as work_directory, chdir(work_directory):
        state = DemoState(directory=work_directory, people_count=people, commit_count=commits)
        write_text(
            "The demo runs every omnigraph command that it prints. It starts a separate process only for the command "
            "that it kills and for the server. The other lines show shell and Python equivalents of what the demo does."
        )
        with state.resources:
            for number, section in enumerate(SECTIONS, 1):
                _run_section(number, section, state, missing)
            write_text(f"\nThe demo took {perf_counter() - started:.0f} s.")
            if serve:
                wait_for_server(state)
        write_text(_next_commands(program, work_directory if keep or directory else None))


def _command_name() -> str:
    """Return the name of the command, or its path if it is not on `PATH`."""
    script = Path(sys.executable).parent / "omnigraph"
    if shutil.which("omnigraph") is not None or not script.exists():
        return "omnigraph"
    directory = Path.cwd()
    return shlex.quote(str(script.relative_to(directory) if script.is_relative_to(directory) else script))


@contextmanager
def _open_work_directory(directory: Path | None, keep: bool) -> Iterator[Path]:
    from tempfile import TemporaryDirectory, mkdtemp

    if directory is not None:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise RefusedError(
                f"'{directory}' is not an empty directory",
                code="directory_not_empty",
                hint="Pass a new directory as `--dir`, or omit `--dir`.",
                facts={"path": str(directory)},
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot create directory '{directory}': {error.strerror}",
                code="usage",
                hint="Pass another directory as `--dir`, or omit `--dir`.",
                facts={"path": str(directory), "reason": error.strerror},
            ) from error
        yield directory.resolve()
    elif keep:
        yield Path(mkdtemp(prefix="omnigraph-demo-")).resolve()
    else:
        with TemporaryDirectory(prefix="omnigraph-demo-") as temporary:
            yield Path(temporary).resolve()


def _run_section(number: int, section: DemoSection, state: DemoState, missing: MachineError | None) -> None:
    """Run the steps of a section, or print which package it needs and skip it."""
    write_text(f"\n=== {number}. {section.title}\n{section.explanation}")
    if section.needs_server and missing is not None:
        write_text(f"\nSkipped: {missing.message}. {missing.hint}")
        return
    for step in section.steps:
        _run_step(step, state)


def _run_step(step: Step, state: DemoState) -> None:
    """Print a step, run it, and print its time."""
    from omnigraph.cli.main import run as run_command

    write_text(f"\n{step.prompt} {step.line}")
    started = perf_counter()
    if step.action is not None:
        step.action(state)
    else:
        names = state.values_by_name
        arguments = [names.get(argument.removeprefix("$"), argument) for argument in shlex.split(step.line)]
        exit_code = run_command(arguments[1:])
        sys.stderr.flush()
        if exit_code != step.exit_code:
            raise InvariantError(
                f"`{step.line}` failed: expected exit code {step.exit_code}, got {exit_code}",
                code="demo_went_wrong",
                facts={"command": step.line, "expected": step.exit_code, "actual": exit_code},
            )
    write_text(f"  ({perf_counter() - started:.2f} s)")


def _next_commands(command: str, work_directory: Path | None) -> str:
    if work_directory is None:
        return (
            "The files are deleted now. To keep them and run more commands:\n\n"
            f"  {command} demo --dir demo\n  {command} branch list demo/graph.omni\n"
        )
    return (
        f"The files are in {work_directory}. To run more commands:\n\n"
        f"  {command} schema show {work_directory}/graph.omni\n"
        f"  {command} query colleagues --query {work_directory}/company.gq --store {work_directory}/graph.omni"
        ' --params \'{"slug": "p8"}\'\n'
        f"  {command} log {work_directory}/graph.omni --draw\n"
    )
