"""The scenes of `omnigraph demo`, in order.

A scene says why, and has acts. An act is a command that is really run, in this process, with the exit code it must
have; or something that a program does beside. A new part of omnigraph adds its scene to `SCENES`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from omnigraph.base.errors import InvariantError
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.base.progress import Progress
from omnigraph.cli.demo.dataset import SCHEMA, Company, write_company
from omnigraph.cli.output import write_text
from omnigraph.cli.progress import show_progress

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph

_FOREIGN_DELETE = 'import sys, lance; lance.dataset(sys.argv[1]).delete("salary > 150000")'


def foreign_delete(place: Path, table_path: str) -> None:
    """A program that knows Lance and nothing of Omnigraph deletes the well paid."""
    subprocess.run(
        [sys.executable, "-c", _FOREIGN_DELETE, str(place / "graph.omni" / table_path)], check=True
    )


def killed_mutation(place: Path, query: str) -> None:
    """A writer that gets SIGKILL after its tables are committed and before they are published."""
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"{Failpoint.PUBLISH_BEFORE}=kill"}
    command = [sys.executable, "-m", "omnigraph.cli.main", "mutate", "--store", "graph.omni", "-e", query]
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    if ended.returncode >= 0:
        raise InvariantError("the writer outlived its end", code="demo_writer_survived")
    write_text("Killed")


def pass_weeks(place: Path, weeks: int) -> None:
    """Make every file as old as if it had been written weeks ago; cleanup goes by the age of files."""
    moment = time.time() - weeks * 7 * 86_400
    for path in (place / "graph.omni").rglob("*"):
        if path.is_file():
            os.utime(path, (moment, moment))


@dataclass(slots=True)
class DemoStep:
    """Where the story plays, how large it is, and the commits that it comes back to."""

    place: Path
    company: Company
    commits: int
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandStep:
    """A command of omnigraph as one types it. `$name` is a commit that was marked under this name."""

    command: str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """What happens that is no command of omnigraph: the words for it, the doing, and where one would type it."""

    shown: str
    run: Callable[[DemoStep], None]
    prompt: str = "$"


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing to see, and why."""

    title: str
    why: str
    acts: tuple[CommandStep | ScriptStep, ...]


def _write_company(stage: DemoStep) -> None:
    lines = write_company(stage.company, stage.place)
    size = (stage.place / "company.jsonl").stat().st_size
    write_text(f"{SCHEMA}{lines:>{len(str(size))}} {size} company.jsonl")


def _asked(name: str, params: str) -> tuple[CommandStep, CommandStep]:
    """A query of `company.gq`: its plan with what each step took, then its rows."""
    given = f"--params-file {params}" if params.endswith(".json") else f"--params '{params}'"
    query = f"{name} --query company.gq --store graph.omni {given}"
    return CommandStep(f"omnigraph explain --analyze {query}"), CommandStep(f"omnigraph query {query}")


def _mark(name: str) -> Callable[[DemoStep], None]:
    def mark(stage: DemoStep) -> None:
        stage.marks[name] = _open(stage).snapshot().head
        write_text(stage.marks[name])

    return mark


def _raise(slug: str, salary: int, where: str) -> str:
    text = f'query q() {{ update Person set {{ salary: {salary} }} where slug = "{slug}" }}'
    return f"omnigraph mutate --store graph.omni {where} -e '{text}'"


def _write_decisions(stage: DemoStep) -> None:
    text = json.dumps([{"entity_kind": "node", "type_name": "Person", "entity_id": "p7", "take": "theirs"}])
    (stage.place / "decisions.json").write_text(text, encoding="utf-8")
    write_text(text)


def _hire_many(stage: DemoStep) -> None:
    graph = _open(stage)
    started = perf_counter()
    with show_progress(quiet=not sys.stderr.isatty()) as report:
        for number in range(stage.commits):
            graph.mutate(_HIRE, params={"slug": f"hire{number}"})
            report(Progress("commits", perf_counter() - started, number + 1, stage.commits))
    each_ms = (perf_counter() - started) / stage.commits * 1e3
    write_text(f"{stage.commits} commits, {each_ms:.0f} ms each")


def _delete_outside(stage: DemoStep) -> None:
    foreign_delete(stage.place, _open(stage).snapshot().tables["node:Person"].path)


def _kill_writer(stage: DemoStep) -> None:
    killed_mutation(stage.place, _TEAM)


def _pass_weeks(stage: DemoStep) -> None:
    pass_weeks(stage.place, weeks=3)


def _open(stage: DemoStep) -> Graph:
    import omnigraph

    return omnigraph.open(str(stage.place / "graph.omni"))


_PAY: Final = 'query q() { match { $p: Person { slug: "p7" } } return { $p.slug, $p.salary } }'
_NIGHT: Final = (
    'query q() { match { $p memberOf $t  $t: Team { slug: "night" } } return { $p.slug, $t.city } }'
)
_HIRE: Final = """
query hire($slug: String) {
  insert Person { slug: $slug, name: "New Hire", title: "writer", salary: 40000 }
}"""
_TEAM: Final = (
    'query q() { insert Team { slug: "night", city: "Lima" } insert MemberOf { from: "p1", to: "night" } }'
)

SCENES: Final = (
    Scene(
        "A company",
        "A schema says which nodes and edges there are. The data is a line of JSON for each of them.",
        (ScriptStep("cat company.pg; wc -lc company.jsonl", _write_company),),
    ),
    Scene(
        "Load on Spark",
        "Spark reads the file, checks every rule of the schema, and writes all tables as one commit.",
        (
            CommandStep("omnigraph init --schema company.pg graph.omni"),
            CommandStep("omnigraph load --data company.jsonl --with-indexes graph.omni"),
            CommandStep("omnigraph snapshot graph.omni"),
        ),
    ),
    Scene(
        "Four queries",
        "They run in this process, without Spark. The plan says which index is asked and how edges are followed.",
        (
            *_asked("lookup", '{"slug": "p7"}'),
            *_asked("colleagues", '{"slug": "p7"}'),
            *_asked("about", '{"words": "salary contract"}'),
            *_asked("like", "like.json"),
        ),
    ),
    Scene(
        "A branch, a conflict, a decision",
        "A branch costs one row, whatever the size of the graph. Both sides change the pay of p7, so a merge must ask.",
        (
            ScriptStep(
                "loaded=$(omnigraph commit list graph.omni --limit 1 --format csv | tail -1 | cut -d, -f1); "
                "echo $loaded",
                _mark("loaded"),
            ),
            CommandStep("omnigraph branch create raises graph.omni"),
            CommandStep(_raise("p7", 90_000, "--branch raises")),
            CommandStep(_raise("p8", 165_000, "--branch raises")),
            CommandStep(_raise("p7", 70_000, "--branch main")),
            CommandStep("omnigraph branch merge raises graph.omni", exit_code=1),
            ScriptStep("cat decisions.json", _write_decisions),
            CommandStep("omnigraph branch merge raises graph.omni --resolve decisions.json --delete-branch"),
            CommandStep("omnigraph log --graph graph.omni"),
        ),
    ),
    Scene(
        "History",
        "Every state stays readable: what was changed since, and what was there before.",
        (
            CommandStep("omnigraph diff $loaded main graph.omni"),
            CommandStep(f"omnigraph query --store graph.omni -e '{_PAY}'"),
            CommandStep(f"omnigraph query --store graph.omni --commit $loaded -e '{_PAY}'"),
        ),
    ),
    Scene(
        "Many small commits, and optimize",
        "Each commit leaves a small file that no index knows. Optimize puts them together, beside live writers.",
        (
            ScriptStep("for number in range(…): graph.mutate(hire, params={'slug': …})", _hire_many, ">>>"),
            CommandStep("omnigraph doctor graph.omni"),
            CommandStep("omnigraph optimize graph.omni"),
            CommandStep("omnigraph doctor graph.omni"),
            CommandStep("omnigraph optimize graph.omni"),
        ),
    ),
    Scene(
        "A foreign write",
        "The tables are open files, so another tool can change them. Repair shows what it did, and refuses.",
        (
            ScriptStep(
                "python -c 'import lance; lance.dataset(…).delete(\"salary > 150000\")'", _delete_outside
            ),
            CommandStep("omnigraph repair graph.omni"),
            CommandStep("omnigraph repair graph.omni --confirm", exit_code=3),
            CommandStep("omnigraph repair graph.omni --discard --confirm"),
        ),
    ),
    Scene(
        "A killed writer",
        "It dies with its tables committed and not yet published. Nobody sees half of it; the next writer settles it.",
        (
            ScriptStep(
                f"OMNIGRAPH_FAILPOINTS=publish.before=kill omnigraph mutate --store graph.omni -e '{_TEAM}'",
                _kill_writer,
            ),
            CommandStep("omnigraph doctor graph.omni", exit_code=3),
            CommandStep(_raise("p9", 92_000, "--branch main")),
            CommandStep("omnigraph recovery list graph.omni"),
            CommandStep(f"omnigraph query --store graph.omni -e '{_NIGHT}'"),
        ),
    ),
    Scene(
        "Cleanup",
        "Old versions go when nothing needs them, and nothing younger than ten minutes. So let three weeks pass first.",
        (
            ScriptStep("find graph.omni -type f -exec touch -d '21 days ago' {} +", _pass_weeks),
            CommandStep("omnigraph cleanup --keep 10 --older-than 2w graph.omni"),
            CommandStep("omnigraph cleanup --keep 10 --older-than 2w --confirm graph.omni"),
            *_asked("lookup", '{"slug": "p7"}')[1:],
        ),
    ),
)
