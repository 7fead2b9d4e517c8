"""The output of commands, as text and as JSON, is that of the golden files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import SCHEMA, CommandResult, assert_golden, omnigraph, run_in_process

READS = {
    "snapshot": ("snapshot", "graph.omni"),
    "snapshot_json": ("snapshot", "--store", "graph.omni", "--json"),
    "snapshot_csv": ("snapshot", "graph.omni", "--format", "csv"),
    "snapshot_jsonl": ("snapshot", "graph.omni", "--format=jsonl"),
    "snapshot_kv": ("snapshot", "graph.omni", "--version", "1", "--format", "kv"),
    "schema_show": ("schema", "show", "graph.omni"),
    "schema_show_json": ("schema", "show", "--json", "graph.omni"),
    "commit_list": ("commit", "list", "graph.omni"),
    "commit_list_json": ("commit", "list", "graph.omni", "--json"),
    "commit_list_csv": ("commit", "list", "graph.omni", "--format", "csv"),
    "version": ("version",),
    "version_json": ("version", "--json"),
    "help": (),
    "help_init": ("init", "--help"),
    "help_commit": ("commit", "--help"),
}


@pytest.mark.parametrize("name", READS)
def test_output_of_a_command(name: str, graph: Path, update_golden: bool) -> None:
    outcome = run_in_process(*READS[name], cwd=graph.parent)
    assert_golden(f"{name}.txt", outcome.transcript(graph.parent), update_golden)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    if "--json" in READS[name]:
        json.loads(outcome.stdout)


@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)], ids=["text", "json", "quiet"])
def test_init(form: tuple[str, ...], directory: Path, update_golden: bool) -> None:
    outcome = run_in_process("init", "--schema", "schema.pg", "new/graph.omni", "--as", "ada", *form, cwd=directory)
    suffix = "".join(form).replace("--", "_")
    assert_golden(f"init{suffix}.txt", outcome.transcript(directory), update_golden)
    assert outcome.exit_code == 0
    assert {path.name for path in (directory / "new/graph.omni").iterdir()} == {"__manifest", "nodes", "edges"}


def test_id_of_a_commit_ignores_case(graph: Path, update_golden: bool) -> None:
    def read(*arguments: str) -> CommandResult:
        return run_in_process(*arguments, cwd=graph.parent)

    listed = json.loads(read("commit", "list", "graph.omni", "--json").stdout)
    commit = listed["commits"][0]["graph_commit_id"]
    shown = read("commit", "show", commit.lower(), "--store", "graph.omni")
    assert_golden("commit_show.txt", shown.transcript(graph.parent), update_golden)
    assert json.loads(read("commit", "show", commit, "graph.omni", "--json").stdout) == listed["commits"][0]
    snapshot = json.loads(read("snapshot", "graph.omni", "--commit", commit, "--json").stdout)
    assert snapshot["graph_commit_id"] == commit


def test_process_prints_the_same(graph: Path) -> None:
    for arguments in (("snapshot", "graph.omni"), ("snapshot", "nothing.omni", "--json"), ("snapshto",)):
        expected = run_in_process(*arguments, cwd=graph.parent)
        assert omnigraph(*arguments, cwd=graph.parent) == expected
        # `weak` runs the installed program and not a fork.
        assert omnigraph(*arguments, cwd=graph.parent, weak=True) == expected


def test_schema_is_shown_unchanged(graph: Path) -> None:
    assert run_in_process("schema", "show", graph, cwd=graph.parent).stdout == SCHEMA


def test_graph_is_created_and_read_on_s3(directory: Path, s3_place: tuple[str, dict[str, str]]) -> None:
    uri, env = s3_place
    made = omnigraph("init", "--schema", "schema.pg", uri, cwd=directory, env=env)
    assert made.stderr.startswith(f"omnigraph init → {uri} (direct, remote)\n"), made.stderr
    read = json.loads(omnigraph("snapshot", uri, "--json", env=env).stdout)
    assert [entry["table_key"] for entry in read["datasets"]] == ["node:Company", "node:Person", "edge:Knows"]
    again = omnigraph("init", "--schema", "schema.pg", uri, cwd=directory, env=env)
    assert (again.exit_code, again.stdout) == (1, "")


def test_force_creates_a_graph_next_to_other_files(directory: Path) -> None:
    (directory / "notes.txt").write_text("mine")
    made = run_in_process("init", "--schema", "schema.pg", ".", "--force", cwd=directory)
    assert made.exit_code == 0, made.stderr
    assert (directory / "notes.txt").read_text() == "mine"
    assert run_in_process("snapshot", ".", cwd=directory).exit_code == 0
