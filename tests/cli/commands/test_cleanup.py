"""`omnigraph cleanup`: the preview, the deletion with `--confirm`, and failed tables."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import lance

import omnigraph as og
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.files import list_files
from omnigraph.storage.location import parse_location
from tests.cli.process import run_in_process
from tests.graph.writers import create, run, triple


def _old_graph(directory: Path) -> Path:
    graph = directory / "graph.omni"
    location = parse_location(str(graph))
    create(location)
    for name in "abcd":
        run(location, triple([name]))
    long_ago = time.time() - 30 * 24 * 3600
    for file in list_files(location):
        os.utime(graph / file.path, (long_ago, long_ago))
    return graph


def test_confirm_deletes_the_files_of_the_preview(tmp_path: Path) -> None:
    graph = _old_graph(tmp_path)
    arguments = ("cleanup", "--keep", "2", "graph.omni", "--list-files", "--json")
    before = {file.path for file in list_files(parse_location(str(graph)))}
    shown = json.loads(run_in_process(*arguments, cwd=tmp_path).stdout)
    done = run_in_process(*arguments, "--confirm", cwd=tmp_path)
    assert done.exit_code == 0
    assert "→" in done.stderr
    assert "warning: few versions of each table are kept (2)" in done.stderr
    document = json.loads(done.stdout)
    assert (shown["confirmed"], document["confirmed"]) == (False, True)
    assert document["tables"] == shown["tables"]
    after = {file.path for file in list_files(parse_location(str(graph)))}
    deleted_files = {path for path in before - after if not path.startswith("__locks/")}
    assert {file for row in document["tables"] for file in row["files"]} == deleted_files
    assert {row["old_versions_removed"] for row in document["tables"]} == {3}
    assert len(list(og.open(str(graph)).log(None))) == 5
    listed = run_in_process("commit", "list", "graph.omni", "--json", cwd=tmp_path)
    readable = [row["readable"] for row in json.loads(listed.stdout)["commits"]]
    assert readable == [True, True, False, False, False]
    table = run_in_process("commit", "list", "graph.omni", cwd=tmp_path).stdout.splitlines()
    assert [line.endswith("  deleted") for line in table[1:]] == [not is_readable for is_readable in readable]


def test_rows_in_csv_and_jsonl(tmp_path: Path) -> None:
    _old_graph(tmp_path)
    arguments = ("cleanup", "--keep", "2", "graph.omni", "--quiet", "--format")
    head, *lines = run_in_process(*arguments, "csv", cwd=tmp_path).stdout.splitlines()
    assert head.startswith("table_key,branch,old_versions_removed,files_removed,bytes_removed,")
    assert [line.partition(",")[0] for line in lines] == [*("node:Company", "node:Person", "edge:Knows", "__manifest")]
    outcome = run_in_process(*arguments, "jsonl", "--list-files", cwd=tmp_path)
    assert outcome.stderr == ""
    files = [json.loads(line)["file"] for line in outcome.stdout.splitlines()]
    document = json.loads(run_in_process(*arguments, "json", "--list-files", cwd=tmp_path).stdout)
    assert files == [file for row in document["tables"] for file in row["files"]] != []


def test_failed_table_is_reported_with_exit_code_1(tmp_path: Path) -> None:
    graph = _old_graph(tmp_path)
    table = read_snapshot(parse_location(str(graph))).tables["node:Person"]
    broken = graph / table.path / f"_versions/{2**64 - 1 - 2:020d}.manifest"
    broken.write_bytes(b"")
    outcome = run_in_process("cleanup", "--keep", "3", "graph.omni", "--confirm", cwd=tmp_path)
    assert outcome.exit_code == 1
    (line,) = [line for line in outcome.stdout.splitlines() if line.startswith("node:Person")]
    assert "could not" in line
    assert "1 failed; see the column 'error'" in outcome.stderr
    assert "ERROR" not in outcome.stderr


def test_damaged_head_is_reported_once(tmp_path: Path) -> None:
    """The row has the error; the failed comparison of the table is only in the log."""
    graph = _old_graph(tmp_path)
    table = read_snapshot(parse_location(str(graph))).tables["node:Person"]
    head = graph / table.path / f"_versions/{2**64 - 1 - table.pin.version:020d}.manifest"
    head.write_bytes(head.read_bytes()[:10])
    outcome = run_in_process("cleanup", "--keep", "3", "graph.omni", "--log-file", "l.jsonl", cwd=tmp_path)
    assert outcome.exit_code == 1
    assert (outcome.stdout + outcome.stderr).count("corrupt or truncated") == 1
    assert "corrupt or truncated, run `omnigraph doctor --deep`" in outcome.stdout
    assert "WARNING" not in outcome.stderr
    events = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert [event["level"] for event in events] == ["WARNING", "ERROR"]


def test_remote_target_requires_confirmation(tmp_path: Path) -> None:
    """The command fails before it opens the graph."""
    uri = "s3://bucket/graph.omni"
    outcome = run_in_process("cleanup", "--keep", "10", uri, "--confirm", "--json", cwd=tmp_path)
    assert outcome.exit_code == 3
    assert "confirmation_missing" in outcome.stdout + outcome.stderr


def test_retained_versions_are_counted_by_reason(tmp_path: Path) -> None:
    """All versions are younger than 10 minutes: nothing is deleted, and the command reports the reason."""
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    for name in "abc":
        run(location, triple([name]))
    outcome = run_in_process("cleanup", "--keep", "1", "graph.omni", "--json", cwd=tmp_path)
    document = json.loads(outcome.stdout)
    assert document["kept"] == [{"reason": "young", "versions": 12}]
    assert [row["kept"] for row in document["tables"]] == [[{"reason": "young", "versions": 3}]] * 4
    text = run_in_process("cleanup", "--keep", "1", "graph.omni", cwd=tmp_path).stderr
    assert "retained versions that the policy would delete: 12 younger than 10 minutes" in text


def test_drifted_table_is_skipped_with_exit_code_1(tmp_path: Path) -> None:
    graph = _old_graph(tmp_path)
    table = read_snapshot(parse_location(str(graph))).tables["node:Person"]
    lance.dataset(str(graph / table.path)).update_config({"external": "1"})
    outcome = run_in_process("cleanup", "--keep", "3", "graph.omni", "--confirm", "--json", cwd=tmp_path)
    assert outcome.exit_code == 1
    rows = {row["table_key"]: row for row in json.loads(outcome.stdout)["tables"]}
    assert rows["node:Person"]["error"].startswith("drift: ")
    assert rows["node:Person"]["files_removed"] == 0
    assert rows["node:Company"]["old_versions_removed"] == 2
