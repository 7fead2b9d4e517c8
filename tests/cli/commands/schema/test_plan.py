"""`omnigraph schema plan`: steps, refusals and exit codes; and that it reads little and writes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph
from tests.cli.process import SCHEMA, Outcome, assert_golden, omnigraph_here, tree

NEXT = SCHEMA.replace("age: I32?", "years: I32? @rename_from(age)") + "node City { name: String @key }\n"
BAD = SCHEMA.replace("age: I32?", "age: String?")
TEXTS = {"same": (0, SCHEMA), "next": (0, NEXT), "bad": (3, BAD)}


def plan(place: Path, text: str, *arguments: str) -> Outcome:
    (place / "next.pg").write_text(text, encoding="utf-8")
    return omnigraph_here("schema", "plan", "--schema", "next.pg", "graph.omni", *arguments, cwd=place)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("flag", ["", "--json"])
def test_golden(name: str, flag: str, graph: Path, place: Path, update_golden: bool) -> None:
    exit_code, text = TEXTS[name]
    outcome = plan(place, text, *filter(None, [flag]))
    suffix = "_json" if flag else ""
    assert_golden(f"schema_plan_{name}{suffix}.txt", outcome.transcript(place), update_golden)
    assert outcome.exit_code == exit_code


def test_it_reads_only_the_manifest_and_writes_nothing(place: Path) -> None:
    """Two hundred types: the tables are not even there."""
    types = [f"node N{number} {{ a: I32  b: String? }}" for number in range(200)]
    omnigraph.init(str(place / "graph.omni"), "\n".join(types))
    shutil.rmtree(place / "graph.omni" / "nodes")
    (place / "next.pg").touch()
    before = tree(place / "graph.omni")
    outcome = plan(place, "\n".join(types).replace("a: I32", "c: I32 @rename_from(a)"), "--json")
    assert tree(place / "graph.omni") == before
    steps = json.loads(outcome.stdout)["steps"]
    assert [step["step"] for step in steps] == ["rename_property"] * 200


def test_rows_that_only_apply_looks_at(graph: Path, place: Path) -> None:
    text = SCHEMA.replace("age: I32?", "age: I32  @range(age, 0..150)")
    told = "whether the rows obey the new rules is checked by `omnigraph schema apply`\n"
    assert told not in plan(place, text).stderr, "there are no rows"
    omnigraph.open(str(graph)).mutate('query q() { insert Person { slug: "ada" } }')
    outcome = plan(place, text)
    assert (outcome.exit_code, outcome.stdout.count("reads 1 row")) == (0, 2)
    assert outcome.stderr.endswith(told)


def test_the_graph_plans_as_the_command_does(graph: Path, place: Path) -> None:
    found = omnigraph.open(str(graph), read_only=True).plan_schema(NEXT)
    assert found.to_json() == json.loads(plan(place, NEXT, "--json").stdout)


def test_a_text_that_is_no_schema(graph: Path, place: Path) -> None:
    outcome = plan(place, "node person { }")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "next.pg:1:6: S101" in outcome.stderr
