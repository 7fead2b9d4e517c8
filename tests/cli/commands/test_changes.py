"""`omnigraph changes poll --follow`: later commits are printed until Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import OMNIGRAPH, environment, run_in_process
from tests.waiting import SECONDS_MAX, wait_until


def test_follow_prints_later_commits(graph: Path, directory: Path) -> None:
    log = directory / "changes.jsonl"
    command = [OMNIGRAPH, "changes", "poll", "--follow", "--start", "beginning", "--format", "jsonl", "graph.omni"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=directory, env=environment({}), stdout=output)
        try:
            wait_until(lambda: '"cursor"' in log.read_text() or process.poll() is not None)
            for slug in ("ada", "bob"):
                og.open(graph).mutate("query m($s: String) { insert Person { slug: $s } }", {"s": slug})
                wait_until(lambda slug=slug: f'"{slug}"' in log.read_text() or process.poll() is not None)  # type: ignore[misc]
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_MAX) == 130
        finally:
            process.kill()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["id"] for line in lines if "op" in line] == ["ada", "bob"]
    assert lines[-1]["cursor"] == og.open(graph).log()[0].id


def test_follow_is_not_one_document(graph: Path, directory: Path) -> None:
    outcome = run_in_process("changes", "poll", "--follow", "--json", "graph.omni", cwd=directory)
    assert outcome.exit_code == 2
    assert "Pass `--format jsonl` instead of `--json`." in outcome.stderr


@pytest.mark.parametrize("flag", ["--wait", "--limit"])
def test_follow_has_no_end(flag: str, graph: Path, directory: Path) -> None:
    outcome = run_in_process("changes", "poll", "--follow", flag, "3", "graph.omni", cwd=directory)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"error: `--follow` and `{flag}` cannot be used together")
