"""The scenes of `omnigraph demo`, in order.

A scene has a title, an explanation and steps. A step is an `omnigraph` command, which runs in this process and must end
with the expected exit code, or a Python function. To show a new feature in the demo, add a scene to `SCENES`.
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

_DELETE_WITH_LANCE = 'import sys, lance; lance.dataset(sys.argv[1]).delete("salary > 150000")'


def delete_with_lance(directory: Path, table_path: str) -> None:
    """Delete high salaries from a table with plain Lance, as an external tool would."""
    subprocess.run([sys.executable, "-c", _DELETE_WITH_LANCE, str(directory / "graph.omni" / table_path)], check=True)


def kill_mutation(directory: Path, query: str) -> None:
    """Run a mutation that is killed by SIGKILL after its tables are committed and before they are published."""
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"{Failpoint.PUBLISH_BEFORE}=kill"}
    command = [sys.executable, "-m", "omnigraph.cli.main", "mutate", "--store", "graph.omni", "-e", query]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False)
    if ended.returncode >= 0:
        raise InvariantError(
            f"the writer was not killed: expected SIGKILL, got exit code {ended.returncode}",
            code="demo_writer_survived",
        )
    write_text("Killed")


def age_files(directory: Path, weeks: int) -> None:
    """Set the modification time of every file to some weeks ago; cleanup uses the age of files."""
    modified = time.time() - weeks * 7 * 86_400
    for path in (directory / "graph.omni").rglob("*"):
        if path.is_file():
            os.utime(path, (modified, modified))


@dataclass(slots=True)
class DemoState:
    """The directory and the size of the demo, and the commits that later steps use by name."""

    directory: Path
    company: Company
    commits: int
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandStep:
    """An `omnigraph` command line. `$name` is replaced by the commit that was marked with this name."""

    command: str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """A step that is not an `omnigraph` command: the line to print, the function, and the prompt of the line."""

    shown: str
    run: Callable[[DemoState], None]
    prompt: str = "$"


@dataclass(frozen=True, slots=True)
class Scene:
    """A part of the demo: its title, an explanation, and its steps."""

    title: str
    explanation: str
    steps: tuple[CommandStep | ScriptStep, ...]


def _write_company(state: DemoState) -> None:
    lines = write_company(state.company, state.directory)
    size = (state.directory / "company.jsonl").stat().st_size
    write_text(f"{SCHEMA}{lines:>{len(str(size))}} {size} company.jsonl")


def _query_steps(name: str, params: str) -> tuple[CommandStep, CommandStep]:
    """Return the steps that show the analyzed plan of a query of `company.gq`, and its rows."""
    params_flag = f"--params-file {params}" if params.endswith(".json") else f"--params '{params}'"
    query = f"{name} --query company.gq --store graph.omni {params_flag}"
    return CommandStep(f"omnigraph explain --analyze {query}"), CommandStep(f"omnigraph query {query}")


def _mark(name: str) -> Callable[[DemoState], None]:
    def mark(state: DemoState) -> None:
        state.marks[name] = _open(state).snapshot().head
        write_text(state.marks[name])

    return mark


def _set_salary(slug: str, salary: int, where: str) -> str:
    text = f'query q() {{ update Person set {{ salary: {salary} }} where slug = "{slug}" }}'
    return f"omnigraph mutate --store graph.omni {where} -e '{text}'"


def _write_decisions(state: DemoState) -> None:
    text = json.dumps([{"entity_kind": "node", "type_name": "Person", "entity_id": "p7", "take": "theirs"}])
    (state.directory / "decisions.json").write_text(text, encoding="utf-8")
    write_text(text)


def _hire_many(state: DemoState) -> None:
    graph = _open(state)
    started = perf_counter()
    with show_progress(quiet=not sys.stderr.isatty()) as report:
        for number in range(state.commits):
            graph.mutate(_HIRE, params={"slug": f"hire{number}"})
            report(Progress("commits", perf_counter() - started, number + 1, state.commits))
    each_ms = (perf_counter() - started) / state.commits * 1e3
    write_text(f"{state.commits} commits, {each_ms:.0f} ms each")


def _delete_externally(state: DemoState) -> None:
    delete_with_lance(state.directory, _open(state).snapshot().tables["node:Person"].path)


def _kill_writer(state: DemoState) -> None:
    kill_mutation(state.directory, _TEAM)


def _age_files(state: DemoState) -> None:
    age_files(state.directory, weeks=3)


def _open(state: DemoState) -> Graph:
    import omnigraph

    return omnigraph.open(str(state.directory / "graph.omni"))


_PAY: Final = 'query q() { match { $p: Person { slug: "p7" } } return { $p.slug, $p.salary } }'
_NIGHT: Final = 'query q() { match { $p memberOf $t  $t: Team { slug: "night" } } return { $p.slug, $t.city } }'
_HIRE: Final = """
query hire($slug: String) {
  insert Person { slug: $slug, name: "New Hire", title: "writer", salary: 40000 }
}"""
_TEAM: Final = 'query q() { insert Team { slug: "night", city: "Lima" } insert MemberOf { from: "p1", to: "night" } }'

SCENES: Final = (
    Scene(
        "A company",
        "A schema declares the types of nodes and edges. The data has one line of JSON per node or edge.",
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
        "They run in this process, without Spark. The plan shows which index is used and how edges are followed.",
        (
            *_query_steps("lookup", '{"slug": "p7"}'),
            *_query_steps("colleagues", '{"slug": "p7"}'),
            *_query_steps("about", '{"words": "salary contract"}'),
            *_query_steps("like", "like.json"),
        ),
    ),
    Scene(
        "A branch, a conflict, a decision",
        "A branch costs one row, whatever the size of the graph. Both sides change the salary of p7: a conflict.",
        (
            ScriptStep(
                "loaded=$(omnigraph commit list graph.omni --limit 1 --format csv | tail -1 | cut -d, -f1); "
                "echo $loaded",
                _mark("loaded"),
            ),
            CommandStep("omnigraph branch create raises graph.omni"),
            CommandStep(_set_salary("p7", 90_000, "--branch raises")),
            CommandStep(_set_salary("p8", 165_000, "--branch raises")),
            CommandStep(_set_salary("p7", 70_000, "--branch main")),
            CommandStep("omnigraph branch merge raises graph.omni", exit_code=1),
            ScriptStep("cat decisions.json", _write_decisions),
            CommandStep("omnigraph branch merge raises graph.omni --resolve decisions.json --delete-branch"),
            CommandStep("omnigraph log --graph graph.omni"),
        ),
    ),
    Scene(
        "History",
        "Every earlier state is readable: show the changes since then, and query the old data.",
        (
            CommandStep("omnigraph diff $loaded main graph.omni"),
            CommandStep(f"omnigraph query --store graph.omni -e '{_PAY}'"),
            CommandStep(f"omnigraph query --store graph.omni --commit $loaded -e '{_PAY}'"),
        ),
    ),
    Scene(
        "Many small commits, and optimize",
        "Each commit adds a small file that no index covers. Optimize compacts them while other writers run.",
        (
            ScriptStep("for number in range(…): graph.mutate(hire, params={'slug': …})", _hire_many, ">>>"),
            CommandStep("omnigraph doctor graph.omni"),
            CommandStep("omnigraph optimize graph.omni"),
            CommandStep("omnigraph doctor graph.omni"),
            CommandStep("omnigraph optimize graph.omni"),
        ),
    ),
    Scene(
        "A write by an external tool",
        "The tables are Lance files, so another tool can change them. Repair shows the change and refuses it.",
        (
            ScriptStep("python -c 'import lance; lance.dataset(…).delete(\"salary > 150000\")'", _delete_externally),
            CommandStep("omnigraph repair graph.omni"),
            CommandStep("omnigraph repair graph.omni --confirm", exit_code=3),
            CommandStep("omnigraph repair graph.omni --discard --confirm"),
        ),
    ),
    Scene(
        "A killed writer",
        "It is killed after it commits its tables and before it publishes them. The next writer recovers the write.",
        (
            ScriptStep(
                f"OMNIGRAPH_FAILPOINTS=publish.before=kill omnigraph mutate --store graph.omni -e '{_TEAM}'",
                _kill_writer,
            ),
            CommandStep("omnigraph doctor graph.omni", exit_code=3),
            CommandStep(_set_salary("p9", 92_000, "--branch main")),
            CommandStep("omnigraph recovery list graph.omni"),
            CommandStep(f"omnigraph query --store graph.omni -e '{_NIGHT}'"),
        ),
    ),
    Scene(
        "Cleanup",
        "Cleanup deletes old versions that nothing needs. The demo first sets the age of all files to three weeks.",
        (
            ScriptStep("find graph.omni -type f -exec touch -d '21 days ago' {} +", _age_files),
            CommandStep("omnigraph cleanup --keep 10 --older-than 2w graph.omni"),
            CommandStep("omnigraph cleanup --keep 10 --older-than 2w --confirm graph.omni"),
            *_query_steps("lookup", '{"slug": "p7"}')[1:],
        ),
    ),
)
