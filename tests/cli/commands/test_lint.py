"""`omnigraph lint`: check files against a schema or a graph; only errors fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import CommandResult, assert_golden, run_in_process

GOOD = "query find($slug: String) { match { $p: Person { slug: $slug } } return { $p.age } }\n"
WARNED = "query all($unused: I32) { match { $p: Person } return { $p.age } }\n"
BAD = GOOD + "query bad() { match { $p: Persn } return { $p.age } }\n"


@pytest.fixture
def files(directory: Path) -> Path:
    for name, text in (("good.gq", GOOD), ("warned.gq", WARNED), ("bad.gq", BAD)):
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def lint(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("lint", *arguments, cwd=directory)


CASES = {
    "good": (0, ("--query", "good.gq", "--schema", "schema.pg")),
    "warned": (0, ("--query", "warned.gq", "--schema", "schema.pg")),
    "bad": (1, ("--query", "good.gq", "--query", "bad.gq", "--schema", "schema.pg")),
    "bad_json": (1, ("--query", "bad.gq", "--query", "warned.gq", "--schema", "schema.pg", "--json")),
    "text": (1, ("-e", "query a( {", "--schema", "schema.pg", "--quiet")),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, files: Path, update_golden: bool) -> None:
    exit_code, arguments = CASES[name]
    outcome = lint(files, *arguments)
    assert_golden(f"lint_{name}.txt", outcome.transcript(files), update_golden)
    assert outcome.exit_code == exit_code


def test_graph_gives_the_same_report_as_its_schema_file(graph: Path, files: Path) -> None:
    of_file = lint(files, "--query", "bad.gq", "--schema", "schema.pg", "--json")
    for target in (("graph.omni",), ("--store", "graph.omni"), ("graph.omni", "--branch", "main")):
        assert lint(files, "--query", "bad.gq", *target, "--json") == of_file


def test_max_hops_limits_open_bounds(graph: Path, files: Path) -> None:
    text = "query q() { match { $p: Person $p knows{1,} $f } return { $f.slug } }"
    assert lint(files, "-e", text, "--schema", "schema.pg").exit_code == 1
    assert lint(files, "-e", text, "--schema", "schema.pg", "--max-hops", "3").exit_code == 0
    arguments = ("-e", text, "--store", "graph.omni", "--max-hops", "3")
    for command in ("query", "explain"):
        assert run_in_process(command, *arguments, cwd=files).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (("check",), ""),
        (("query", "lint"), "warning: `omnigraph query lint` was renamed to `omnigraph lint`\n"),
        (("query", "check"), "warning: `omnigraph query check` was renamed to `omnigraph lint`\n"),
        (("query", "check", "--quiet"), ""),
    ],
)
def test_aliases_of_lint(arguments: tuple[str, ...], warning: str, files: Path) -> None:
    rest = ("--query", "bad.gq", "--schema", "schema.pg")
    quiet = ("--quiet",) if "--quiet" in arguments else ()
    named, other = lint(files, *rest, *quiet), run_in_process(*arguments, *rest, cwd=files)
    assert other == CommandResult(named.stdout, warning + named.stderr, 1)


def test_messages_of_aliases_name_lint(files: Path) -> None:
    for arguments in (("check",), ("query", "check"), ("query", "lint")):
        message = run_in_process(*arguments, "--xyzzy", "-q", cwd=files).stderr
        assert "`omnigraph lint` has no flag --xyzzy" in message


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--schema", "schema.pg"), "query_text_missing"),
        (("--query", "none.gq", "--schema", "schema.pg"), "query_file"),
        (("--query", ".", "--schema", "schema.pg"), "query_file"),
        (("--query", "good.gq"), "schema_missing"),
        (("--query", "good.gq", "--schema", "schema.pg", "graph.omni"), "schema_twice"),
        (("--query", "good.gq", "--schema", "schema.pg", "--branch", "a"), "schema_twice"),
        (("--query", "good.gq", "--schema", "none.pg"), "schema_file"),
    ],
)
def test_invalid_calls_are_rejected(arguments: tuple[str, ...], code: str, files: Path) -> None:
    outcome = lint(files, *arguments, "--json")
    assert outcome.exit_code == 2
    assert json.loads(outcome.stdout)["error_code"] == code


def test_file_that_is_not_valid_text_is_rejected(files: Path) -> None:
    (files / "latin.gq").write_bytes(b"// \xe9\n")
    (files / "huge.gq").write_bytes(b" " * (256 * 1024 + 1))
    limit = {"resource": "query_text", "limit": 256 * 1024, "unit": "bytes"}
    for name, code, fact in (("latin.gq", "Q002", None), ("huge.gq", "Q001", limit)):
        outcome = lint(files, "--query", name, "--schema", "schema.pg", "--json")
        document = json.loads(outcome.stdout)
        assert (outcome.exit_code, document["error_code"], document.get("resource_limit")) == (1, code, fact)
        assert document["kind"] == ("invalid_content" if fact is None else "limit_exceeded")
