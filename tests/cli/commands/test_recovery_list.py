"""`omnigraph recovery list` shows a killed write before recovery and its outcome after it, and changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.clock import format_timestamp
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import parse_location
from tests.cli.process import assert_golden, environment, omnigraph, run_in_process, tree
from tests.graph.writers import create, read_contents, run, triple
from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX

WRITER = """\
import sys
from omnigraph.storage.location import parse_location
from tests.graph.writers import run, triple
run(parse_location(sys.argv[1]), triple(["a"]))
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A graph whose writer was killed after it committed every table and before the publish."""
    graph = tmp_path / "graph.omni"
    create(parse_location(str(graph)))
    kill_writer(graph)
    return graph


def kill_writer(graph: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(graph)],
        cwd=ROOT,
        env=environment({ENVIRONMENT_VARIABLE: f"{Failpoint.PUBLISH_BEFORE}=kill"}),
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_killed_write_is_pending_and_then_rolled_forward(killed: Path, update_golden: bool) -> None:
    directory = killed.parent
    before = tree(killed)
    pending = run_in_process("recovery", "list", "graph.omni", cwd=directory)
    assert_golden("recovery_list_pending.txt", pending.transcript(directory), update_golden)
    assert tree(killed) == before, "listing changes nothing"
    document = json.loads(run_in_process("recovery", "list", "graph.omni", "--json", cwd=directory).stdout)
    assert [intent["state"] for intent in document["pending"]] == ["pending"]
    assert all(intent["created"] == format_timestamp(intent["created_at"]) for intent in document["pending"])

    og.open(str(killed))
    after = run_in_process("recovery", "list", "graph.omni", cwd=directory)
    assert_golden("recovery_list_done.txt", after.transcript(directory), update_golden)
    document = json.loads(run_in_process("recovery", "list", "graph.omni", "--json", cwd=directory).stdout)
    assert document["pending"] == []
    assert [(recovery["state"], len(recovery["tables"])) for recovery in document["recoveries"]] == [
        ("rolled_forward", 3)
    ]
    assert all(recovery["created"] == format_timestamp(recovery["created_at"]) for recovery in document["recoveries"])


@pytest.mark.parametrize("command", [("repair",), ("cleanup", "--keep", "10")], ids=lambda arguments: arguments[0])
def test_maintenance_with_confirm_recovers_first(killed: Path, command: tuple[str, ...]) -> None:
    directory = killed.parent
    before = tree(killed)
    preview = run_in_process(*command, "graph.omni", cwd=directory)
    assert (preview.exit_code, tree(killed)) == (3, before), "a preview changes nothing"
    assert "belongs to a write that was interrupted" in preview.stderr
    done = omnigraph(*command, "--confirm", "graph.omni", cwd=directory)
    assert done.exit_code == 0, done.stderr
    head = og.open(str(killed), read_only=True).snapshot().head
    assert "WARNING: recovered an interrupted write (load 01" in done.stderr
    assert f", by tester, on branch main): it is commit {head}\n" in done.stderr
    again = omnigraph(*command, "--confirm", "graph.omni", cwd=directory)
    assert (again.exit_code, "interrupted" in again.stderr) == (0, False)


def test_merge_recovers_before_it_plans(killed: Path) -> None:
    """A merge that planned first would fail, because recovery changes its branch."""
    directory = parse_location(str(killed))
    create_branch(directory, "b", "tester", read_snapshot(directory))
    run(directory, triple(["b"]), branch="b")
    merged = run_in_process("branch", "merge", "b", "graph.omni", cwd=killed.parent)
    assert merged.exit_code == 0, merged.stderr
    assert set(read_contents(directory)["node:Person"]) == {"a", "b"}


def test_revert_of_head_undoes_the_head_before_recovery(tmp_path: Path) -> None:
    """The commit that recovery publishes is not reverted."""
    graph = tmp_path / "graph.omni"
    directory = parse_location(str(graph))
    create(directory)
    run(directory, triple(["shown"]))
    kill_writer(graph)
    done = run_in_process("commit", "revert", "HEAD", "graph.omni", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert set(read_contents(directory)["node:Person"]) == {"a"}


def test_invalid_arguments_change_nothing(killed: Path) -> None:
    before = tree(killed)
    for arguments in (
        ("repair", "--confirm", "--force", "--discard"),
        ("branch", "merge", "b", "--strategy", "nonsense"),
    ):
        assert run_in_process(*arguments, "--store", "graph.omni", cwd=killed.parent).exit_code == 2
    assert tree(killed) == before


def test_quiet_command_recovers_silently(killed: Path) -> None:
    done = omnigraph("repair", "--confirm", "--quiet", "graph.omni", cwd=killed.parent)
    assert (done.exit_code, done.stderr) == (0, "")
    assert og.open(str(killed), read_only=True).pending_writes() == ()


def test_unreadable_intent_fails_the_command(killed: Path) -> None:
    (killed / "__recovery" / "notes.txt").write_text("not an intent", encoding="utf-8")
    og.open(str(killed))
    refused = run_in_process("repair", "--confirm", "graph.omni", cwd=killed.parent)
    assert refused.exit_code == 3
    assert "notes.txt cannot be read: " in refused.stderr


def test_unreadable_intent_is_listed_with_its_path(killed: Path) -> None:
    strange = killed / "__recovery" / "notes.txt"
    strange.write_text("not an intent", encoding="utf-8")
    document = json.loads(run_in_process("recovery", "list", "graph.omni", "--json", cwd=killed.parent).stdout)
    unreadable = [intent for intent in document["pending"] if intent["state"] == "unreadable"]
    assert [Path(intent["path"]).name for intent in unreadable] == ["notes.txt"]
    assert unreadable[0]["why"]
    doctor = json.loads(run_in_process("doctor", "graph.omni", "--json", cwd=killed.parent).stdout)
    locations = [finding["where"] for finding in doctor["findings"] if finding["check"] == "recovery"]
    assert sorted(locations) == sorted(intent["path"] for intent in document["pending"])
    table = run_in_process("doctor", "graph.omni", cwd=killed.parent).stdout
    assert "  __recovery/notes.txt  " in table, "the table shows paths relative to the graph"


def test_empty_list_prints_a_message(tmp_path: Path) -> None:
    create(parse_location(str(tmp_path / "graph.omni")))
    outcome = run_in_process("recovery", "list", "graph.omni", cwd=tmp_path)
    assert (outcome.stdout, outcome.exit_code) == ("", 0)
    assert outcome.stderr == "no pending intents and no past recoveries on branch main\n"
