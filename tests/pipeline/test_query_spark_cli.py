"""`omnigraph query --engine spark` prints the rows of the process engine, or rejects the query."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnigraph.storage.location import parse_location
from tests.pipeline.exporting import load_records, make_graph
from tests.pipeline.process import ProcessEnvironment
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """\
node Person { slug: String @key  bio: String? @index  height: F32?  seen: DateTime? }
edge Knows: Person -> Person
"""
COMMAND = (str(Path(sys.executable).parent / "omnigraph"), "query")
ADA = {"slug": "ada", "bio": "engine", "height": 1.7, "seen": "2026-05-31T12:00:00.007+02:00"}
QUERY = (
    "query q() { match { $p: Person  optional { $p knows $f } } "
    "return { $p, $p.height, $p.seen, count($f) as n } order { n desc } }"
)


def make(world: ProcessEnvironment) -> None:
    root = make_graph(parse_location(str(world.folder / "graph.omni")), SCHEMA)
    people = [{"type": "Person", "data": ADA}, {"type": "Person", "data": {"slug": "bob"}}]
    load_records(root, world.folder, [*people, {"edge": "Knows", "from": "ada", "to": "bob"}])


@pytest.mark.soak
def test_same_output_as_the_process_engine(world: ProcessEnvironment) -> None:
    make(world)
    words = ("query", "--store", "graph.omni", "-e", QUERY, "--json", "--quiet")
    expected = world.omnigraph(*words)
    assert expected.returncode == 0
    assert '"2026-05-31T10:00:00.007Z"' in expected.stdout
    outcome = world.omnigraph(*words, "--engine", "spark", "--spark-master", "local[1]")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout == expected.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-e", QUERY, "--spark-master", "local[1]"), "usage"),
        (("-e", QUERY, "--engine", "flink"), "usage"),
        (("-e", 'query q() { insert Person { slug: "c" } }', "--engine", "spark"), "query_is_mutation"),
    ],
)
def test_rejected_queries(world: ProcessEnvironment, words: tuple[str, ...], code: str) -> None:
    make(world)
    process = world.start(*COMMAND, "--store", "graph.omni", *words, "--json", env={"MASTER": "spark://nowhere:1"})
    stdout, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode != 0
    assert f'"{code}"' in stdout + stderr, "the query is rejected before Spark starts"
