"""`omnigraph explain`: the plan of a query on a graph."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import CommandResult, assert_golden, run_in_process

QUERIES = """\
query friends($slug: String) {
  match { $p: Person { slug: $slug } $p knows{1,2} $f not { $f knows $p } }
  return { $f.slug, count($p) as n } order { n desc } limit 5
}
query grow($slug: String, $age: I32) { update Person set { age: $age } where slug = $slug }
"""


@pytest.fixture
def files(graph: Path) -> Path:
    (graph.parent / "people.gq").write_text(QUERIES, encoding="utf-8")
    (graph.parent / "params.json").write_text('{"slug": "ada"}', encoding="utf-8")
    return graph.parent


def explain(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("explain", *arguments, "--store", "graph.omni", cwd=directory)


CASES = {
    "friends": ("friends", "--query", "people.gq"),
    "values": ("friends", "--query", "people.gq", "--params-file", "params.json"),
    "json": ("friends", "--query", "people.gq", "--json"),
    "mutation": ("grow", "--query", "people.gq", "--params", '{"slug": "ada", "age": 3}'),
    "text": ("-e", "query all() { match { $p: Person } return { $p } }"),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, files: Path, update_golden: bool) -> None:
    outcome = explain(files, *CASES[name])
    assert_golden(f"explain_{name}.txt", outcome.transcript(files), update_golden)
    assert (outcome.exit_code, outcome.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        ((), 2, "query_text_missing"),
        (("--query", "people.gq"), 2, "query_unnamed"),
        (("freinds", "--query", "people.gq"), 1, "query_missing"),
        (("friends", "--query", "people.gq", "-e", "query a() {}"), 2, "query_twice"),
        (("friends", "--query", "people.gq", "--params", "{"), 2, "params_malformed"),
        (("friends", "--query", "people.gq", "--params", "[1]"), 2, "params_malformed"),
        (("friends", "--query", "people.gq", "--params", '{"slug": 1}'), 2, "query_parameter"),
        (("friends", "--query", "people.gq", "--params", "{}", "--params-file", "params.json"), 2, "params_twice"),
        (("-e", "query a() { match { $p: Missing } return { $p } }"), 1, "T101"),
        (("-e", "query a("), 1, "Q000"),
        (("friends", "--query", "people.gq", "--analyze"), 2, "query_parameter"),
        (("-e", "query a() { delete Person where true }", "--analyze"), 2, "query_is_mutation"),
        (("friends", "--query", "people.gq", "--max-seconds", "3"), 2, "usage"),
    ],
)
def test_invalid_calls_are_rejected(arguments: tuple[str, ...], exit_code: int, code: str, files: Path) -> None:
    outcome = explain(files, *arguments, "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (exit_code, code)


def test_analyze_reports_the_rows_and_time_of_each_step(files: Path) -> None:
    people = 'insert Person { slug: "ada" } insert Person { slug: "bob" } insert Knows { from: "ada", to: "bob" }'
    text = f"query a() {{ {people} }}"
    assert run_in_process("mutate", "-e", text, "--store", "graph.omni", cwd=files).exit_code == 0
    query = "query q() { match { $p: Person $p knows $f } return { $f.slug } }"
    outcome = explain(files, "-e", query, "--analyze", "--json")
    assert outcome.exit_code == 0, outcome.stderr
    steps = json.loads(outcome.stdout)["steps"]
    read = [step for step in steps if step["step"].startswith(("expand", "edge scan", "scan"))]
    assert read
    assert all(step["rows"] is not None and step["seconds"] >= 0 for step in read)
    followed = [step for step in steps if step["step"].startswith("expand")]
    assert all(step["rows"] == 1 and step["mode"] and step["reason"] for step in followed)
    shown = explain(files, "-e", query, "--analyze").stdout
    assert re.search(r"— .*, 1 row \(estimated [0-9,]+\), [0-9.]+ ms", shown), shown
