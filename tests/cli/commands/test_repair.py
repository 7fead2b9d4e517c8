"""`omnigraph repair`: output, exit codes and rejected targets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph
from tests.cli.process import assert_golden, normalise, run_in_process

ADD = 'query add() { insert Person { slug: "ada", age: 36 } insert Person { slug: "grace" } }'


@pytest.fixture
def drifted(graph: Path) -> Iterator[Path]:
    """A graph with a table in which an external tool changed a row."""
    assert run_in_process("mutate", "--store", graph, "-e", ADD, cwd=graph).exit_code == 0
    (table,) = [path for path in (graph / "nodes").iterdir() if lance.dataset(str(path)).schema.names[-1] == "age"]
    lance.dataset(str(table)).update({"age": "1"}, where="slug = 'ada'")
    yield graph
    assert logging.getLogger("omnigraph").level == logging.NOTSET, "the log handler was not removed after the command"


def test_golden(drifted: Path, update_golden: bool) -> None:
    transcripts = []
    for flags in (
        "",
        "--confirm",
        "--confirm --quiet",
        "--force",
        "--discard",
        "--force --discard --confirm",
        "--force --confirm --json",
        "--format csv",
    ):
        outcome = run_in_process("repair", drifted, *flags.split(), cwd=drifted.parent)
        transcripts.append(f"$ omnigraph repair {flags}\n{outcome.transcript(drifted)}")
    assert_golden("repair.txt", normalise("\n".join(transcripts), drifted), update_golden)


def test_json_document(drifted: Path) -> None:
    refused = run_in_process("repair", drifted, "--confirm", "--json", "-q", cwd=drifted)
    assert refused.exit_code == 3
    document = json.loads(refused.stdout)
    assert document["commit"] is None
    outcome = run_in_process("repair", drifted, "--discard", "--confirm", "--json", cwd=drifted)
    assert outcome.exit_code == 0
    document = json.loads(outcome.stdout)
    person = next(row for row in document["tables"] if row["table_key"] == "node:Person")
    assert document["commit"] == person["commit"] == document["commits"][0]["graph_commit_id"]
    assert {
        "table_key", "branch", "classification", "action", "manifest_version", "lance_head_version",
        "operations", "error", "rows_added", "rows_updated", "rows_deleted",
    } <= person.keys()  # fmt: skip


def test_chosen_tables_and_actor(drifted: Path) -> None:
    def repair(*flags: str) -> tuple[int, list[tuple[str, str, str]]]:
        outcome = run_in_process("repair", drifted, *flags, "--json", "-q", cwd=drifted)
        rows = json.loads(outcome.stdout).get("tables", [])
        return outcome.exit_code, [(row["table_key"], row["branch"], row["action"]) for row in rows]

    person = ("node:Person", "main")
    assert repair("--type", "Company") == (0, [("node:Company", "main", "no_op")])
    assert repair("--type", "node:Person", "--branch", "main") == (0, [(*person, "preview")])
    assert repair("--type", "Persn") == (1, [])
    assert repair("--branch", "nowhere") == (1, [])
    assert repair("--type", "Person", "--force", "--confirm", "--as", "grace") == (0, [(*person, "forced")])
    assert omnigraph.open(drifted).log()[0].actor == "grace"


def test_log_file_contains_an_event_per_table(drifted: Path) -> None:
    outcome = run_in_process("repair", drifted, "--log-file", "events.jsonl", "-q", cwd=drifted.parent)
    assert outcome.stderr == ""
    events = [json.loads(line) for line in (drifted.parent / "events.jsonl").read_text().splitlines()]
    assert [event["table"] for event in events] == ["node:Company", "node:Person", "edge:Knows"]
    person = events[1]
    assert (person["logger"], person["level"]) == ("omnigraph.repair", "INFO")
    assert (person["classification"], person["version"]) == ("suspicious", 3)
    assert person["seconds"] >= 0
    nowhere = run_in_process("repair", drifted, "--log-file", "no/such/file", cwd=drifted.parent)
    assert nowhere.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("http://localhost:8080/graphs/a", "uri_is_server"),
        ("HTTPS://example.org", "uri_is_server"),
        ("--server prod", "server_unsupported"),
        ("--cluster dir --graph a", "cluster_missing"),
        ("--graph a", "target_missing"),
        ("--cluster-graph a", "flag_renamed"),
        ("--target g.omni", "flag_renamed"),
        ("", "target_missing"),
    ],
)
def test_invalid_targets_are_rejected(arguments: str, code: str, tmp_path: Path) -> None:
    outcome = run_in_process("repair", *arguments.split(), "--json", cwd=tmp_path)
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["error_code"]) == (2, code)
    assert document["hint"]
    if code in ("uri_is_server", "server_unsupported"):
        assert "`omnigraph repair`" in document["error"]
        assert "--store" in document["hint"]
