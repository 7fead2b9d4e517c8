"""Commands about history: `commit changes`, `diff`, `changes poll`, `commit revert`, `log`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import SCHEMA, CommandResult, assert_golden, run_in_process


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a merged branch. No test changes it."""
    directory = tmp_path_factory.mktemp("history")
    return make_history(directory)


def make_history(directory: Path) -> Path:
    graph = og.init(str(directory / "graph.omni"), SCHEMA, actor="ada")
    graph.mutate('query a() { insert Person { slug: "x", age: 1 } insert Person { slug: "y" } }', actor="ada")
    branch = graph.create_branch("b", from_="main", actor="ada")
    branch.mutate('query b() { update Person set { age: 2 } where slug = "x" }', actor="ada")
    branch.mutate('query c() { insert Person { slug: "z" } }', actor="ada")
    branch.mutate('query d() { delete Person where slug = "y" }', actor="ada")
    graph.merge("b", actor="ada")
    return directory


def run(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process(*arguments, "--store", "graph.omni", cwd=directory)


def commits(directory: Path) -> list[str]:
    return [commit.id for commit in og.open(str(directory / "graph.omni"), read_only=True).log(None)]


READS = {
    "diff": ("diff", "main", "b"),
    "diff_text": ("diff", "FIRST", "main"),
    "diff_json": ("diff", "FIRST", "b", "--json"),
    "commit_changes_jsonl": ("commit", "changes", "LAST", "--format", "jsonl"),
    "changes_poll": ("changes", "poll", "--start", "beginning", "--limit", "2"),
    "changes_poll_json": ("changes", "poll", "--cursor", "FIRST", "--json"),
    "changes_poll_jsonl": ("changes", "poll", "--cursor", "FIRST", "--format", "jsonl"),
    "log": ("log",),
    "log_json": ("log", "--limit", "2", "--json"),
    "log_draw": ("log", "--draw"),
}


@pytest.mark.parametrize("name", READS)
def test_output_of_a_command(name: str, directory: Path, update_golden: bool) -> None:
    last, first, *_ = commits(directory)
    ids = {"FIRST": first, "LAST": last}
    outcome = run(directory, *(ids.get(argument, argument) for argument in READS[name]))
    assert_golden(f"history_{name}.txt", outcome.transcript(directory), update_golden)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    if "--json" in READS[name]:
        json.loads(outcome.stdout)


def test_diff_takes_the_graph_first(directory: Path) -> None:
    """Other commands take the graph first. A branch with the name of a graph directory is still a branch."""
    expected = run(directory, "diff", "main", "b").stdout
    first = run_in_process("diff", "graph.omni", "main", "b", cwd=directory)
    assert (first.exit_code, first.stdout) == (0, expected), first
    missing = run_in_process("diff", "missing.omni", "main", "b", cwd=directory)
    assert missing.stderr.startswith(f"error: no graph at {directory / 'missing.omni'}\n")
    graph = og.open(str(directory / "graph.omni"))
    graph.create_branch("graph.omni", from_="b")
    try:
        assert run_in_process("diff", "main", "graph.omni", "graph.omni", cwd=directory).stdout == expected
        assert run_in_process("diff", "graph.omni", "b", "graph.omni", cwd=directory).stdout == ""
    finally:
        graph.delete_branch("graph.omni")


def test_feed_reports_a_rename(tmp_path: Path, update_golden: bool) -> None:
    """The commit only renames. Its block has both names, and the table id that changes have."""
    graph = og.init(str(tmp_path / "graph.omni"), "node P { slug: String @key }", actor="ada")
    first = graph.snapshot().head
    graph.apply_schema("node Q @rename_from(P) { name: String @key @rename_from(slug) }", actor="ada")
    graph.mutate('query a() { insert Q { name: "x" } }', actor="ada")
    command = ("changes", "poll", "--cursor", first)
    outputs = [run(tmp_path, *command, *more).transcript(tmp_path) for more in ((), ("--format", "jsonl"))]
    assert_golden("history_feed_of_a_rename.txt", "".join(outputs), update_golden)


def test_log_names_the_types_of_a_branch(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    branch = graph.create_branch("b", from_="main")
    branch.apply_schema(f"{SCHEMA}\nnode City {{ slug: String @key }}")
    branch.mutate('query a() { insert City { slug: "x" } }')
    graph.mutate('query b() { insert Person { slug: "y" } }')
    entries = json.loads(run(tmp_path, "log", "--limit", "2", "--json").stdout)["commits"]
    assert [[table["table_key"] for table in commit["tables"]] for commit in entries] == [
        ["node:Person"],
        ["node:City"],
    ]


def test_printed_time_selects_its_commit(directory: Path) -> None:
    entries = json.loads(run(directory, "commit", "list", "--json").stdout)["commits"]
    shown = [line.split()[1] for line in run(directory, "commit", "list").stdout.splitlines()[1:]]
    assert [commit["created"] for commit in entries] == shown
    for commit in entries:
        for command in (("snapshot",), ("schema", "show")):
            read = run(directory, *command, "--at", commit["created"], "--json")
            assert json.loads(read.stdout)["graph_commit_id"] == commit["graph_commit_id"]


def test_edge_is_shown_with_its_nodes(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate('query a() { insert Person { slug: "x" } insert Person { slug: "y" } }')
    graph.mutate('query b() { insert Knows { from: "x", to: "y" } }')
    graph.mutate('query c() { delete Person where slug = "x" }')
    deleted, inserted = (run(tmp_path, "commit", "changes", commit).stdout for commit in commits(tmp_path)[:2])
    (edge,) = (line for line in deleted.splitlines() if "Knows" in line)
    assert edge.startswith("- Knows x → y (")
    assert inserted.startswith("+ Knows x → y (")


def test_feed_has_the_commit_of_a_revert(tmp_path: Path) -> None:
    directory = make_history(tmp_path)
    last = commits(directory)[0]
    planned = run(directory, "commit", "revert", last, "--dry-run", "--json")
    assert json.loads(planned.stdout)["commit"] is None
    done = json.loads(run(directory, "commit", "revert", last.lower(), "--json").stdout)
    assert done["tables"] == [{"table_key": "node:Person", "inserted": 1, "updated": 1, "deleted": 1, "adopted": False}]
    feed = json.loads(run(directory, "changes", "poll", "--cursor", last, "--json").stdout)
    reverted = done["commit"]["graph_commit_id"]
    assert [block["cause"]["graph_commit_id"] for block in feed["blocks"]] == [reverted]
    assert (feed["cursor"], feed["caught_up"]) == (reverted, True)
    first = json.loads(run(directory, "changes", "poll", "--start", "beginning", "--limit", "1", "--json").stdout)
    assert (len(first["blocks"]), "caught_up" in first) == (1, False)
    again = run(directory, "commit", "revert", last, "--json")
    assert (again.exit_code, json.loads(again.stdout)["outcome"]) == (0, "already_up_to_date")
    graph = og.open(str(directory / "graph.omni"))
    graph.mutate('query d() { update Person set { age: 9 } where slug = "x" }')
    refused = run(directory, "commit", "revert", commits(directory)[1], "--json")
    assert refused.exit_code == 1
    assert [conflict["kind"] for conflict in json.loads(refused.stdout)["merge_conflicts"]] == ["divergent_update"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("diff", "main", "nowhere"), 1, "reference_missing"),
        (("changes", "poll", "--cursor", "01KA1F0Z5Q8W9V3N7R2T4Y6B8D"), 1, "commit_missing"),
        (("changes", "poll", "--cursor", "HEAD", "--start", "now"), 2, "feed_start_twice"),
        (("commit", "changes", "01KA1F0Z5Q8W9V3N7R2T4Y6B8D"), 1, "reference_missing"),
        (("commit", "revert", "01KA1F0Z5Q8W9V3N7R2T4Y6B8D"), 1, "commit_missing"),
        (("commit", "revert", "ROOT"), 3, "commit_is_first"),
        (("commit", "changes", "ROOT"), 3, "commit_is_first"),
    ],
)
def test_error_of_a_command(arguments: tuple[str, ...], exit_code: int, code: str, directory: Path) -> None:
    root = commits(directory)[-1]
    outcome = run(directory, *(root if argument == "ROOT" else argument for argument in arguments), "--json")
    assert outcome.exit_code == exit_code, outcome.stderr
    assert json.loads(outcome.stdout)["error_code"] == code
