"""`omnigraph demo`: the main job end to end on embedded defaults, told as the commands one would type.

Each step does its work through the Python surface and prints what the command prints. A new part of omnigraph adds its
step to `STEPS`. The files are removed at the end unless the caller wants them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.base.errors import RefusedError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.output import write_text

if TYPE_CHECKING:
    from omnigraph.pipeline.load import Loaded

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIR", help="Work in this new or empty directory and leave the files there."
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the files of a temporary directory behind.")]

SCHEMA: Final = """\
node Person {
  slug: String @key
  name: String @index
  born: Date?
}

node Machine {
  slug: String @key
  year: I32
  @range(year, 1600..2100)
}

edge Knows: Person -> Person { since: Date? }
edge Built: Person -> Machine @card(0..*)
"""
PEOPLE: Final = 20_000
MACHINES: Final = 5_000


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the demo does: why, the command that does it, and the same in Python."""

    why: str
    command: str
    run: Callable[[Path], None]


def demo(directory: Directory = None, keep: Keep = False) -> None:
    """Run a short story end to end.

    A schema, a graph, a load on Spark, one that is refused, the snapshot and the history, in a temporary directory that
    is removed at the end.
    """
    with _workplace(directory, keep) as place:
        for number, step in enumerate(STEPS, 1):
            write_text(f"\n{number}. {step.why}\n\n$ {step.command}")
            sys.stdout.flush()
            step.run(place)
        write_text(_next_words(place if keep or directory else None))


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
        directory.mkdir(parents=True, exist_ok=True)
        yield directory.resolve()
    elif keep:
        yield Path(mkdtemp(prefix="omnigraph-demo-"))
    else:
        with TemporaryDirectory(prefix="omnigraph-demo-") as temporary:
            yield Path(temporary)


def _write_schema(place: Path) -> None:
    (place / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    write_text(SCHEMA)


def _init(place: Path) -> None:
    import omnigraph

    schema = (place / "schema.pg").read_text(encoding="utf-8")
    graph = omnigraph.init(str(place / "graph.omni"), schema)
    snapshot = graph.snapshot()
    write_text(f"created a graph with {len(snapshot.tables)} tables at commit {snapshot.head}")


def _write_data(place: Path) -> None:
    import json

    lines = [json.dumps(record) for record in _records()]
    (place / "data.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_text(f"{lines[0]}\n{lines[-1]}")


def _records() -> Iterator[dict[str, object]]:
    for number in range(PEOPLE):
        yield {
            "type": "Person",
            "data": {"slug": f"p{number}", "name": f"Person {number}", "born": "1815-12-10"},
        }
    for number in range(MACHINES):
        yield {"type": "Machine", "data": {"slug": f"m{number}", "year": 1800 + number % 200}}
    for number in range(PEOPLE):
        yield {"edge": "Knows", "from": f"p{number}", "to": f"p{number * 7 % PEOPLE}"}
    for number in range(MACHINES):
        yield {"edge": "Built", "from": f"p{number * 3 % PEOPLE}", "to": f"m{number}"}


def _load(place: Path) -> None:
    loaded = _load_file(place, "data.jsonl")
    write_text(f"loaded {loaded.total} entities at commit {loaded.commit.id if loaded.commit else None}")


def _load_mistakes(place: Path) -> None:
    from omnigraph.pipeline.load import LoadRejectedError

    lines = (
        '{"type": "Machine", "data": {"slug": "abacus", "year": -2700}}',
        '{"edge": "Built", "from": "nobody", "to": "m1"}',
    )
    (place / "mistakes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        _load_file(place, "mistakes.jsonl")
    except LoadRejectedError as refused:
        write_text(f"error: {refused.render()}\nhint: {refused.hint}")


def _load_file(place: Path, name: str) -> Loaded:
    import omnigraph
    from omnigraph.api.graph import default_actor
    from omnigraph.api.loading import LoadOptions, plan_load, run_load
    from omnigraph.cli.progress import show_progress

    graph = omnigraph.open(str(place / "graph.omni"))
    with show_progress(quiet=not sys.stderr.isatty()) as report:
        options = LoadOptions(actor=default_actor(), report=report)
        plan = plan_load(graph.location, graph.branch_name, str(place / name), options)
        return run_load(plan, options).loaded


def _snapshot(place: Path) -> None:
    import omnigraph
    from omnigraph.cli.snapshot import show_snapshot

    show_snapshot(omnigraph.open(str(place / "graph.omni"), read_only=True).snapshot())


def _commits(place: Path) -> None:
    import omnigraph
    from omnigraph.cli.commit_list import show_commits

    show_commits(omnigraph.open(str(place / "graph.omni"), read_only=True).commits())


STEPS: Final = (
    Step("A schema says which nodes and edges there are.", "cat schema.pg", _write_schema),
    Step(
        "A graph is a directory, here or in a bucket.", "omnigraph init --schema schema.pg graph.omni", _init
    ),
    Step(
        "Data is a line of JSON for each node and edge.",
        "head -1 data.jsonl; tail -1 data.jsonl",
        _write_data,
    ),
    Step(
        "Spark reads it, checks every rule and writes it as one commit.",
        "omnigraph load --data data.jsonl graph.omni",
        _load,
    ),
    Step(
        "A load with mistakes says where they are, and writes nothing.",
        "omnigraph load --data mistakes.jsonl graph.omni",
        _load_mistakes,
    ),
    Step(
        "A snapshot is what one commit publishes, all tables together.",
        "omnigraph snapshot graph.omni",
        _snapshot,
    ),
    Step("Every change is a commit.", "omnigraph commit list graph.omni", _commits),
)


def _next_words(place: Path | None) -> str:
    if place is None:
        return (
            "\nThe files are gone again. To keep them and look around:\n\n"
            "  omnigraph demo --dir demo\n  omnigraph schema show demo/graph.omni --json\n"
        )
    return (
        f"\nThe files are in {place}. To look around:\n\n"
        f"  omnigraph schema show {place}/graph.omni --json\n"
        f"  omnigraph snapshot {place}/graph.omni --json\n"
    )


COMMAND = CommandSource("demo", demo, ("omnigraph demo", "omnigraph demo --dir demo"))
