"""`omnigraph query`: rows in every format, earlier states, and invalid calls."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from omnigraph.api.graph import open as open_graph
from omnigraph.base.clock import format_timestamp
from omnigraph.storage.location import parse_location
from tests.cli.process import CommandResult, assert_golden, run_in_process
from tests.graph.writers import Change, create, run

QUERIES = """\
query people($from: I64?) {
  match { $p: Person optional { $p knows $f } }
  return { $p.slug, $p.age, $p, count($f) as friends } order { $p.slug }
}
query missing() { match { $p: Person { slug: "missing" } } return { $p.slug } }
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A graph with two people and one edge, and a file of queries."""
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    run(location, [Change("node:Person", upsert=(("ada", 36), ("ü\"'", 0)))])
    run(location, [Change("edge:Knows", insert=("ada",))])
    (tmp_path / "people.gq").write_text(QUERIES, encoding="utf-8")
    return tmp_path


def query(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("query", *arguments, "--store", "graph.omni", cwd=directory)


EVERYONE = "query q() { match { $p: Person } return { $p.slug } order { $p.slug } }"
FORMATS = ("table", "json", "jsonl", "csv", "kv")
CASES = {
    name if kind == "people" else f"no_{name}": (kind, "--query", "people.gq", "--format", name)
    for kind in ("people", "missing")
    for name in FORMATS
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, directory: Path, update_golden: bool) -> None:
    outcome = query(directory, *CASES[name])
    assert_golden(f"query_{name}.txt", outcome.transcript(directory), update_golden)
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_exact_searches_without_indexes(directory: Path) -> None:
    text = 'query q() { match { $p: Person } return { $p.slug } order { bm25($p.slug, "ada") } limit 1 }'
    for flags, reason in (((), "below 64 MiB"), (("--exact",), "requested")):
        explained = run_in_process("explain", "-e", text, *flags, "--store", "graph.omni", cwd=directory)
        assert f"exactly ({reason})" in explained.stdout
        assert query(directory, "-e", text, *flags).stdout.split() == ["p.slug", "ada"]


def test_earlier_states(directory: Path) -> None:
    text = "query n() { match { $p: Person } return { count($p) as n } }"
    commits = list(open_graph(str(directory / "graph.omni"), read_only=True).log(None))
    first = commits[-1]
    for flag, value in (("--commit", first.id.lower()), ("--version", "1"), ("--at", f"{_iso_time(first.created_us)}")):
        assert rows(query(directory, "-e", text, flag, value)) == [{"n": 0}]
    assert rows(query(directory, "-e", text)) == [{"n": 2}]
    before = query(directory, "-e", text, "--at", "2001-01-01T00:00:00Z", "--json")
    error = json.loads(before.stdout)
    assert (error["error_code"], error["hint"]) == (
        "moment_too_early",
        f"Pass {format_timestamp(first.created_us)}, the time of its first commit, or later.",
    )


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        ((), 2, "query_text_missing"),
        (("--query", "people.gq"), 2, "query_unnamed"),
        (("-e", 'query a() { insert Person { slug: "x" } }'), 2, "query_is_mutation"),
        (("-e", "query a() { match { $p: Person } return { $p.slug } }", "--at", "noon"), 2, "moment_malformed"),
        (("missing", "--query", "people.gq", "--format", "csv", "--json"), 2, "format_twice"),
        (("-e", EVERYONE, "--max-memory", "0.00001"), 1, "query_memory"),
        (("-e", EVERYONE, "--max-seconds", "0.000000001"), 1, "query_time"),
        (("-e", EVERYONE, "--max-seconds", "0"), 2, "query_limits"),
        (("-e", EVERYONE, "--params", '{"a": 1, "a": 2}'), 2, "params_malformed"),
        (("-e", EVERYONE, "--params", "[" * 100_000), 2, "params_malformed"),
        (("-e", EVERYONE, "--spark-master", "local"), 2, "usage"),
        (
            ("-e", 'query a() { match { $p: Person { slug: "ada" } } return { $p.age * 9000000000000000000 as n } }'),
            1,
            "integer_overflow",
        ),
    ],
)
def test_invalid_calls_are_rejected(directory: Path, arguments: tuple[str, ...], exit_code: int, code: str) -> None:
    outcome = query(directory, *arguments)
    assert outcome.exit_code == exit_code
    assert outcome.stderr.startswith("error: ")
    assert json.loads(query(directory, *arguments, "--json").stdout)["error_code"] == code


def test_single_parameters(directory: Path) -> None:
    text = (
        "query q($s: String, $min: I32, $all: [String]?) "
        "{ match { $p: Person { slug: $s }  $p.age > $min } return { $p.slug } }"
    )
    for flags in (
        ("--param", "s=ada", "--param", "min=3"),
        ("--param", "$s=ada", "--params", '{"min": 3}'),
        ("--param", "s=ada", "--param", "min=3", "--param", 'all=["a=b"]'),
    ):
        assert query(directory, "-e", text, *flags).stdout.split() == ["p.slug", "ada"]
    for invalid_flags, message in (
        (("--param", "s=42", "--param", "min=x"), "parameter `min`: "),
        (("--param", "s=ada", "--param", "s=bob"), "duplicate parameter 's': expected one value, got 2"),
        (("--param", "s=ada", "--params", '{"$s": "ada"}'), "duplicate parameter 's': expected one value, got 2"),
        (("--param", "ada"), "invalid --param: expected NAME=VALUE, got 'ada'"),
        (("--param", "=ada"), "invalid --param: expected NAME=VALUE, got '=ada'"),
    ):
        outcome = query(directory, "-e", text, *invalid_flags)
        assert (outcome.exit_code, message in outcome.stderr) == (2, True), outcome


def test_null_as_a_single_parameter(directory: Path) -> None:
    """As the documentation says: `null` is text for a String, and an omitted parameter is null."""
    text = "query q($s: String?, $n: I32?) { match { $p: Person } return { $s is null as s, $n is null as n } limit 1 }"
    for flags, row in (
        (("--param", "s=null", "--param", "n=null"), "false,true"),
        (("--param", "n=1"), "true,false"),
        (("--params", '{"s": null}'), "true,true"),
    ):
        assert query(directory, "-e", text, *flags, "--format", "csv").stdout.split()[1] == row


def test_missing_files_are_reported_with_their_flag(directory: Path) -> None:
    assert "hint: Check the path in `--query FILE`." in query(directory, "--query", "missing.gq").stderr
    parameters = query(directory, "-e", EVERYONE, "--params-file", "missing.json")
    assert "hint: Check the path in `--params-file FILE`." in parameters.stderr


def test_error_in_jsonl_is_one_line(directory: Path) -> None:
    (line,) = query(directory, "noone", "--query", "people.gq", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line)["error_code"] == "query_missing"


def rows(outcome: CommandResult) -> object:
    assert outcome.exit_code == 0, outcome.stderr
    lines = outcome.stdout.split()
    assert lines[0] == "n"
    return [{"n": int(line)} for line in lines[1:]]


def _iso_time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()


def test_graph_is_a_positional_argument(directory: Path) -> None:
    named = query(directory, "missing", "--query", "people.gq", "--json")
    assert named.exit_code == 0, named.stderr
    for words in (("missing", "graph.omni"), ("graph.omni", "missing"), ("./graph.omni", "missing")):
        assert run_in_process("query", *words, "--query", "people.gq", "--json", cwd=directory) == named
    (directory / "graph.omni").rename(directory / "plain")
    assert run_in_process("query", "plain", "missing", "--query", "people.gq", "--json", cwd=directory) == named


def test_invalid_positional_arguments(directory: Path) -> None:
    for command in ("query", "mutate", "explain"):
        nowhere = run_in_process(command, "people", "--query", "people.gq", cwd=directory)
        assert (nowhere.exit_code, "missing graph: " in nowhere.stderr) == (2, True)
        twice = run_in_process(command, "graph.omni", "--store", "graph.omni", "--query", "people.gq", cwd=directory)
        assert (twice.exit_code, "expected one graph, got URI" in twice.stderr) == (2, True)


def test_default_graph(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", "graph.omni")
    default = run_in_process("query", "missing", "--query", "people.gq", "--json", cwd=directory)
    assert default == query(directory, "missing", "--query", "people.gq", "--json")


def test_query_text_and_parameters_from_stdin(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def set_stdin(text: str) -> None:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))

    set_stdin(QUERIES)
    assert query(directory, "missing", "--query", "-", "--format", "csv").stdout == "p.slug\n"
    set_stdin('{"from": 3}')
    outcome = query(directory, "people", "--query", "people.gq", "--params-file", "-", "--format", "jsonl")
    assert (outcome.exit_code, len(outcome.stdout.splitlines())) == (0, 2)


def test_wide_characters_are_aligned(directory: Path) -> None:
    add = 'query a() { insert Person { slug: "日本" } insert Person { slug: "e\u0301" } }'
    assert run_in_process("mutate", "-e", add, "--store", "graph.omni", cwd=directory).exit_code == 0
    text = "query q() { match { $p: Person } return { $p.slug as s, 1 as one } order { $p.slug } }"
    lines = query(directory, "-e", text).stdout.splitlines()
    assert lines == ["s     one", "ada     1", "e\u0301       1", "ü\"'     1", "日本    1"]


def test_query_without_a_name_gets_a_hint(directory: Path) -> None:
    outcome = query(directory, "-e", "match { $p: Person } return { $p }")
    assert "Wrap it in a named query: `query name() { … }`" in outcome.stderr


def test_invalid_parameters_have_a_file_and_a_position(directory: Path) -> None:
    (directory / "params.json").write_text('{\n  "a": 1,,\n}', "utf-8")
    outcome = query(directory, "-e", EVERYONE, "--params-file", "params.json")
    message, _ = outcome.stderr.splitlines()
    assert message.startswith("error: invalid parameters in 'params.json': not valid JSON: ")
    assert message.endswith(", line 2, column 10")
