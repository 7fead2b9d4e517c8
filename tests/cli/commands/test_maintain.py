"""`omnigraph maintain`: its report, its exit codes, and rounds until SIGTERM."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import lance
import pytest

import omnigraph as og
from tests.cli.process import OMNIGRAPH, environment, omnigraph, run_in_process
from tests.waiting import SECONDS_MAX, wait_until


def test_healthy_graph(graph: Path, directory: Path) -> None:
    # In another process, because an active Spark session of another test would run the jobs.
    outcome = omnigraph("maintain", "graph.omni", cwd=directory)
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert "optimize: nothing to do\n" in outcome.stderr
    assert outcome.stderr.splitlines()[-1] == "runner: local"


def test_json(graph: Path, directory: Path) -> None:
    outcome = run_in_process("maintain", "graph.omni", "--json", "--no-cleanup", cwd=directory)
    document = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert (document["optimized"], document["cleaned"], document["needs_repair"]) == ({}, None, False)


def test_drift_exits_with_3_and_names_the_command(graph: Path, directory: Path) -> None:
    opened = og.open(str(graph))
    opened.mutate('query m() { insert Person { slug: "a" } }')
    lance.dataset(str(graph / opened.snapshot().tables["node:Person"].path)).delete("slug = 'a'")
    for flags in (["--no-cleanup"], [], ["--confirm"]):
        outcome = run_in_process("maintain", "graph.omni", *flags, cwd=directory)
        assert outcome.exit_code == 3, outcome
        assert "omnigraph repair graph.omni" in outcome.stderr
        assert "error: " not in outcome.stderr


def test_quiet_prints_only_what_is_left(graph: Path, directory: Path) -> None:
    """The documented line for cron: its mail names the problem and the command."""
    command = ["maintain", "graph.omni", "--confirm", "--quiet"]
    opened = og.open(str(graph))
    opened.fix_location(dry_run=False)  # the graph of the fixture is a copy
    opened.mutate('query m() { insert Person { slug: "a" } }')
    assert run_in_process(*command, cwd=directory).stderr == ""
    lance.dataset(str(graph / opened.snapshot().tables["node:Person"].path)).delete("slug = 'a'")
    outcome = run_in_process(*command, cwd=directory)
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("left: node:Person: suspicious")
    assert line.endswith("; omnigraph repair graph.omni")
    as_json = run_in_process(*command, "--json", cwd=directory)
    assert (as_json.exit_code, as_json.stderr) == (3, "")


def test_help_of_confirm_names_what_runs_without_it(directory: Path) -> None:
    text = " ".join(run_in_process("maintain", "--help", cwd=directory).stdout.split())
    assert "Without it, no file is deleted; recovery and optimize still run." in text


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_copied_graph_with_a_branch(form: tuple[str, ...], graph: Path, directory: Path) -> None:
    """Main is optimized, and the report says it: only cleanup needs the branch."""
    opened = og.open(str(graph))
    opened.fix_location(dry_run=False)  # the graph of the fixture is a copy
    opened.mutate('query m() { insert Person { slug: "a" } }')
    opened.create_branch("review")
    shutil.copytree(graph, directory / "copy.omni")
    outcome = run_in_process("maintain", "copy.omni", *form, cwd=directory)
    assert outcome.exit_code == 1
    assert next(iter(og.open(str(directory / "copy.omni")).log())).operation == "optimize"
    error = "cleanup: branch 'review' cannot be used: the graph was created at another location, then copied or moved"
    if not form:
        lines = outcome.stderr.splitlines()
        assert "optimized main: node:Person, __manifest" in lines
        assert f"error: {error}" in lines
        assert [
            line
            for line in lines
            if line.startswith("left: review: ") and "`omnigraph doctor copy.omni --fix-location`" in line
        ]
        return
    document = json.loads(outcome.stdout)
    assert (list(document["optimized"]), document["cleaned"], document["errors"]) == (["main"], None, [error])
    assert [finding["where"] for finding in document["left"] if "--fix-location" in finding["fix"]] == ["review"]


def test_unknown_branch_is_an_error_before_any_work(graph: Path, directory: Path) -> None:
    og.open(str(graph)).mutate('query m() { insert Person { slug: "a" } }')
    outcome = run_in_process("maintain", "graph.omni", "--branch", "main", "--branch", "nowhere", cwd=directory)
    assert (outcome.exit_code, "no branch 'nowhere'" in outcome.stderr) == (1, True)
    assert next(iter(og.open(str(graph)).log())).operation == "mutate"


def test_invalid_policy_is_rejected(graph: Path, directory: Path) -> None:
    outcome = run_in_process("maintain", "graph.omni", "--keep", "0", cwd=directory)
    assert outcome.exit_code == 2


def test_rounds_end_with_sigterm(graph: Path, directory: Path) -> None:
    """The second round shows that it keeps running; the interval is short, and the test waits for lines."""
    log = directory / "rounds.txt"
    with log.open("wb") as output:
        command = [OMNIGRAPH, "maintain", "graph.omni", "--every", "1s", "--no-cleanup"]
        process = subprocess.Popen(command, cwd=directory, env=environment({}), stdout=output, stderr=output)
        try:
            wait_until(lambda: log.read_text().count(" errors, ") >= 2 or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == 0, log.read_text()
        finally:
            process.kill()
    assert log.read_text().splitlines()[-1] == "stopped"
