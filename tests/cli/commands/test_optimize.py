"""`omnigraph optimize` without Spark: plans, targets, flags and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import parse_location
from tests.cli.process import run_in_process, tree


@pytest.fixture
def written(graph: Path) -> Path:
    """Two commits, so that a table has two fragments."""
    for name in ("ada", "grace"):
        query = f'query add() {{ insert Person {{ slug: "{name}" }} }}'
        assert run_in_process("mutate", "--store", graph, "-e", query, cwd=graph).exit_code == 0
    return graph


def test_plan_in_every_format(written: Path) -> None:
    before = tree(written)
    outcomes = {
        output_format: run_in_process("optimize", written, "--dry-run", "--format", output_format, cwd=written)
        for output_format in ("table", "json", "jsonl", "csv", "kv")
    }
    assert {outcome.exit_code for outcome in outcomes.values()} == {0}
    document = json.loads(outcomes["json"].stdout)
    assert (document["dry_run"], document["commit"], document["branch"]) == (True, None, "main")
    rows = {row["table_key"]: row for row in map(json.loads, outcomes["jsonl"].stdout.splitlines())}
    person = rows["node:Person"]
    assert (person["fragments_removed"], person["fragments_added"], person["committed"]) == (2, 1, False)
    assert person["indexes_built"] == "id, slug"
    assert person.keys() == document["tables"][0].keys()
    assert outcomes["csv"].stdout.splitlines()[0] == ",".join(person)
    assert "-2 +1" in outcomes["table"].stdout
    assert "table_key: node:Person" in outcomes["kv"].stdout
    assert tree(written) == before


def test_run_without_work_commits_nothing_and_logs_each_table(graph: Path) -> None:
    outcome = run_in_process("optimize", graph, "--json", "--quiet", "--log-file", "events.jsonl", cwd=graph.parent)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    document = json.loads(outcome.stdout)
    assert document["commit"] is None
    assert [row["committed"] for row in document["tables"]] == [False] * 4
    events = [json.loads(line) for line in (graph.parent / "events.jsonl").read_text().splitlines()]
    tables = [row["table_key"] for row in document["tables"]]
    assert [event["table"] for event in events] == tables == [*tables[:3], "__manifest"]
    assert all(event["version"] >= 1 and event["seconds"] >= 0 for event in events)


def test_drift_is_reported_once(written: Path) -> None:
    (table,) = [path for path in (written / "nodes").iterdir() if "age" in lance.dataset(str(path)).schema.names]
    lance.dataset(str(table)).delete("slug = 'ada'")
    for flags in (("--dry-run",), ("--type", "Person")):
        outcome = run_in_process("optimize", written, *flags, cwd=written)
        output = outcome.stdout + outcome.stderr
        assert outcome.exit_code == 0
        assert output.count(f"skipped: an external tool changed it, run `omnigraph repair {written}`") == 1
        assert "DriftNeedsRepair" not in output
        assert (output.count("omnigraph repair"), "WARNING" in output) == (1, False)


@pytest.mark.parametrize("flags", [("--dry-run",), ()])
def test_damaged_table_is_reported_once_with_a_command(written: Path, flags: tuple[str, ...]) -> None:
    """The row shows the failure, stderr its reason, and the log has an event of level ERROR."""
    table = read_snapshot(parse_location(str(written))).tables["node:Person"]
    manifest = written / table.path / f"_versions/{2**64 - 1 - table.pin.version:020d}.manifest"
    manifest.write_bytes(manifest.read_bytes()[:10])
    outcome = run_in_process("optimize", written, *flags, "--log-file", "events.jsonl", cwd=written.parent)
    assert outcome.exit_code == 1
    assert outcome.stderr.count("corrupt or truncated, run `omnigraph doctor --deep`") == 1
    assert outcome.stderr.count("corrupt or truncated") == 1
    assert not {"WARNING", "ERROR"} & set(outcome.stderr.replace(":", " ").split())
    events = [json.loads(line) for line in (written.parent / "events.jsonl").read_text().splitlines()]
    (failed,) = [event for event in events if event["level"] == "ERROR"]
    assert failed["table"] == "node:Person"
    assert failed["error"].endswith("run `graph.doctor(deep=True)`")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error_code"),
    [
        ("http://localhost:8080/graphs/a", 2, "uri_is_server"),
        ("--server prod", 2, "server_unsupported"),
        ("graph.omni --type Robot", 1, "type_missing"),
        ("--target g.omni", 2, "flag_renamed"),
        ("--graph a", 2, "target_missing"),
        ("graph.omni --as ada", 2, "usage"),
        ("graph.omni --table Robot", 1, "type_missing"),
        ("graph.omni --branch missing", 1, "branch_missing"),
        ("graph.omni --max-tasks 0", 2, "bound_too_small"),
        ("nowhere.omni", 1, "graph_missing"),
        ("", 2, "target_missing"),
    ],
)
def test_invalid_calls_are_rejected(arguments: str, exit_code: int, error_code: str, graph: Path) -> None:
    outcome = run_in_process("optimize", *arguments.split(), "--json", cwd=graph.parent)
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["error_code"]) == (exit_code, error_code)
    assert document["hint"]
