"""`omnigraph demo`: the whole of omnigraph in one short story on embedded defaults.

The commands it shows are run, in this process and as they stand; the numbers are those of this run. A command that ends
otherwise than the story says ends the story with an error. The files are removed at the end unless the caller wants
them.
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

from omnigraph.base.errors import InvariantError, RefusedError, UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.output import write_text

if TYPE_CHECKING:
    from omnigraph.cli.demo.steps import CommandStep, DemoStep, ScriptStep

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIR", help="Work in this new or empty directory and leave the files there."
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the files of a temporary directory behind.")]
People = Annotated[int, typer.Option("--people", min=20, help="How many people the company has.")]
Commits = Annotated[int, typer.Option("--commits", min=1, help="How many small commits are made.")]


def demo(
    directory: Directory = None, keep: Keep = False, people: People = 50_000, commits: Commits = 500
) -> None:
    """Run a story end to end: load, query, branch, merge, optimize, repair, recover, clean up.

    It takes about two minutes on two cores, in a temporary directory that is removed at the end.
    """
    from omnigraph.cli.demo.dataset import Company
    from omnigraph.cli.demo.steps import SCENES, DemoStep

    started, command = perf_counter(), _typed_here()
    with _workplace(directory, keep) as place, chdir(place):
        stage = DemoStep(place, Company(people), commits)
        write_text(
            "Every omnigraph command below is really run. Only the one that is killed has a process of its own; "
            "the times of the others are without the start of one. The other lines show how one would type what the "
            "demo itself does."
        )
        for number, scene in enumerate(SCENES, 1):
            write_text(f"\n=== {number}. {scene.title}\n{scene.why}")
            for act in scene.acts:
                _run(act, stage)
        write_text(f"\nAll of it took {perf_counter() - started:.0f} s.")
        write_text(_next_words(command, place if keep or directory else None))


def _typed_here() -> str:
    """The name of the command, or its path where a shell would not find it."""
    script = Path(sys.executable).parent / "omnigraph"
    if shutil.which("omnigraph") is not None or not script.exists():
        return "omnigraph"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))


@contextmanager
def _workplace(directory: Path | None, keep: bool) -> Iterator[Path]:
    from tempfile import TemporaryDirectory, mkdtemp

    if directory is not None:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise RefusedError(
                f"{directory} is not an empty directory",
                code="directory_not_empty",
                hint="name a new directory, or leave --dir out",
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{directory} cannot be made: {error.strerror}",
                code="usage",
                hint="name another directory, or leave --dir out",
            ) from error
        yield directory.resolve()
    elif keep:
        yield Path(mkdtemp(prefix="omnigraph-demo-")).resolve()
    else:
        with TemporaryDirectory(prefix="omnigraph-demo-") as temporary:
            yield Path(temporary).resolve()


def _run(act: CommandStep | ScriptStep, stage: DemoStep) -> None:
    """Show an act, do it, and say how long it took."""
    from omnigraph.cli.demo.steps import CommandStep
    from omnigraph.cli.main import run

    write_text(f"\n$ {act.command}" if isinstance(act, CommandStep) else f"\n{act.prompt} {act.shown}")
    started = perf_counter()
    if isinstance(act, CommandStep):
        words = [stage.marks.get(word.removeprefix("$"), word) for word in shlex.split(act.command)]
        exit_code = run(words[1:])
        sys.stderr.flush()
        if exit_code != act.exit_code:
            raise InvariantError(
                f"the command ended with {exit_code}, not with {act.exit_code}", code="demo_went_wrong"
            )
    else:
        act.run(stage)
    write_text(f"  ({perf_counter() - started:.2f} s)")


def _next_words(command: str, place: Path | None) -> str:
    if place is None:
        return (
            "The files are gone again. To keep them and look around:\n\n"
            f"  {command} demo --dir demo\n  {command} branch list demo/graph.omni\n"
        )
    return (
        f"The files are in {place}. To look around:\n\n"
        f"  {command} schema show {place}/graph.omni\n"
        f"  {command} query colleagues --query {place}/company.gq --store {place}/graph.omni"
        ' --params \'{"slug": "p8"}\'\n'
        f"  {command} log --graph {place}/graph.omni\n"
    )


COMMAND = CommandSource(
    "demo", demo, ("omnigraph demo", "omnigraph demo --dir demo", "omnigraph demo --people 5000")
)
