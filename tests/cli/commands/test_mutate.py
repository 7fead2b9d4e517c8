"""`omnigraph mutate`: one commit, or none if nothing matched; errors write nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import CommandResult, assert_golden, run_in_process

QUERIES = """\
query add($slug: String, $age: I32?) { insert Person { slug: $slug, age: $age } }
query meet($a: String, $b: String) {
  insert Person { slug: $a }
  insert Person { slug: $b }
  insert Knows { from: $a, to: $b }
}
query remove($slug: String) { delete Person where slug = $slug }
query read() { match { $p: Person } return { $p.slug } }
"""


@pytest.fixture
def directory(graph: Path) -> Path:
    (graph.parent / "people.gq").write_text(QUERIES, encoding="utf-8")
    return graph.parent


def mutate(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("mutate", *arguments, "--store", "graph.omni", "--as", "ada", cwd=directory)


def head(directory: Path) -> str:
    snapshot = json.loads(run_in_process("snapshot", "graph.omni", "--json", cwd=directory).stdout)
    return str(snapshot["graph_commit_id"])


MEET = ("meet", "--query", "people.gq", "--params", '{"a": "ada", "b": "bob"}')


@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)], ids=["text", "json", "quiet"])
def test_golden(form: tuple[str, ...], directory: Path, update_golden: bool) -> None:
    outcome = mutate(directory, *MEET, *form)
    suffix = "".join(form).replace("--", "_")
    assert_golden(f"mutate{suffix}.txt", outcome.transcript(directory), update_golden)
    assert outcome.exit_code == 0
    if form == ("--json",):
        assert json.loads(outcome.stdout)["commit"]["graph_commit_id"] == head(directory)


def test_query_without_matches_creates_no_commit(directory: Path, update_golden: bool) -> None:
    before = head(directory)
    remove = ("remove", "--query", "people.gq", "--params", '{"slug": "missing"}')
    assert_golden("mutate_nothing.txt", mutate(directory, *remove).transcript(directory), update_golden)
    document = json.loads(mutate(directory, *remove, "--json").stdout)
    assert (document["commit"], document["affected_nodes"], document["affected_edges"]) == (None, 0, 0)
    assert head(directory) == before


def test_schema_violation_writes_nothing(directory: Path, update_golden: bool) -> None:
    before = head(directory)
    text = 'query bad() {\n  insert Knows { from: "x", to: "y" }\n}'
    outcome = mutate(directory, "-e", text, "--json")
    assert_golden("mutate_rejected.txt", outcome.transcript(directory), update_golden)
    assert outcome.exit_code == 1
    assert head(directory) == before


def test_if_commit_requires_the_head(directory: Path) -> None:
    before = head(directory)
    add = ("add", "--query", "people.gq", "--params", '{"slug": "ada"}')
    assert mutate(directory, *add, "--if-commit", before.lower()).exit_code == 0
    refused = mutate(directory, *add, "--if-commit", before, "--json")
    assert refused.exit_code == 4
    document = json.loads(refused.stdout)
    assert document["kind"] == "precondition_failed"
    assert document["precondition_failure"] == {"expected": before, "actual": head(directory)}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("read", "--query", "people.gq"), 2, "query_is_read"),
        (("--query", "people.gq"), 2, "query_unnamed"),
        (("missing", "--query", "people.gq"), 1, "query_missing"),
        (("add", "--query", "people.gq"), 2, "query_parameter"),
        (("-e", "query a() { insert Person { slug: 3 } }"), 1, "T306"),
        (("-e", "query a() { delete Person where true }", "--branch", "nowhere"), 1, "branch_missing"),
    ],
)
def test_invalid_calls_are_rejected(arguments: tuple[str, ...], exit_code: int, code: str, directory: Path) -> None:
    outcome = mutate(directory, *arguments, "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (exit_code, code)
