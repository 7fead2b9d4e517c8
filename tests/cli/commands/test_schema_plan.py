"""`omnigraph schema plan`: steps, unsupported changes and exit codes. It reads only the manifest and writes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.wire.results import schema_plan_output
from tests.cli.process import SCHEMA, CommandResult, assert_golden, run_in_process, tree

NEXT = SCHEMA.replace("age: I32?", "years: I32? @rename_from(age)") + "node City { name: String @key }\n"
BAD = SCHEMA.replace("age: I32?", "age: String?")
TEXTS = {"same": (0, SCHEMA), "next": (0, NEXT), "bad": (3, BAD)}


def plan(directory: Path, text: str, *arguments: str) -> CommandResult:
    (directory / "next.pg").write_text(text, encoding="utf-8")
    return run_in_process("schema", "plan", "--schema", "next.pg", "graph.omni", *arguments, cwd=directory)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("flag", ["", "--json"])
def test_golden(name: str, flag: str, graph: Path, directory: Path, update_golden: bool) -> None:
    exit_code, text = TEXTS[name]
    outcome = plan(directory, text, *filter(None, [flag]))
    suffix = "_json" if flag else ""
    assert_golden(f"schema_plan_{name}{suffix}.txt", outcome.transcript(directory), update_golden)
    assert outcome.exit_code == exit_code


def test_plan_reads_only_the_manifest_and_writes_nothing(directory: Path) -> None:
    """The plan of 200 types succeeds without the directories of the tables."""
    types = [f"node N{number} {{ a: I32  b: String? }}" for number in range(200)]
    omnigraph.init(str(directory / "graph.omni"), "\n".join(types))
    shutil.rmtree(directory / "graph.omni" / "nodes")
    (directory / "next.pg").touch()
    before = tree(directory / "graph.omni")
    outcome = plan(directory, "\n".join(types).replace("a: I32", "c: I32 @rename_from(a)"), "--json")
    assert tree(directory / "graph.omni") == before
    steps = json.loads(outcome.stdout)["steps"]
    assert [step["step"] for step in steps] == ["rename_property"] * 200


def test_message_about_rows_that_only_apply_checks(graph: Path, directory: Path) -> None:
    text = SCHEMA.replace("age: I32?", "age: I32  @range(age, 0..150)")
    message = "`omnigraph schema apply` checks whether the rows obey the new rules\n"
    assert message not in plan(directory, text).stderr, "the table is empty"
    omnigraph.open(str(graph)).mutate('query q() { insert Person { slug: "ada" } }')
    outcome = plan(directory, text)
    assert (outcome.exit_code, outcome.stdout.count("reads 1 row")) == (0, 2)
    assert outcome.stderr.endswith(message)


def test_python_and_command_return_the_same_plan(graph: Path, directory: Path) -> None:
    schema_plan = omnigraph.open(str(graph), read_only=True).plan_schema(NEXT)
    assert schema_plan_output(schema_plan) == json.loads(plan(directory, NEXT, "--json").stdout)


def test_invalid_schema_is_reported_with_its_position(graph: Path, directory: Path) -> None:
    outcome = plan(directory, "node person { }")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "next.pg:1:6: S101" in outcome.stderr
