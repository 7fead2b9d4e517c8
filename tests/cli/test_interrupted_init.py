"""An `init` that fails or is killed or interrupted leaves no files, or files that the next `init` deletes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from omnigraph.base.failpoints import Failpoint
from tests.cli.process import OMNIGRAPH, environment, omnigraph, run_in_process, tree
from tests.waiting import SECONDS_MAX, wait_until

INIT = ("init", "--quiet", "--schema", "schema.pg", "graph.omni")
BEFORE_THE_GRAPH = [Failpoint.INIT_MARK_BEFORE, Failpoint.INIT_TABLE_BEFORE, Failpoint.INIT_MANIFEST_BEFORE]
WITH_THE_GRAPH = [Failpoint.INIT_UNMARK_BEFORE, Failpoint.INIT_DONE]


@pytest.mark.parametrize("point", BEFORE_THE_GRAPH)
def test_killed_before_the_graph_exists(point: Failpoint, directory: Path) -> None:
    hit = "@3" if point is Failpoint.INIT_TABLE_BEFORE else ""
    assert _init(directory, f"{point}{hit}=kill") == -signal.SIGKILL
    read = run_in_process("snapshot", "graph.omni", cwd=directory)
    assert read.exit_code == 1
    assert "graph" in read.stderr
    assert run_in_process(*INIT, cwd=directory).exit_code == 0
    _assert_only_a_graph(directory)


@pytest.mark.parametrize("point", WITH_THE_GRAPH)
def test_killed_after_the_graph_exists(point: Failpoint, directory: Path) -> None:
    assert _init(directory, f"{point}=kill") == -signal.SIGKILL
    assert run_in_process("snapshot", "graph.omni", cwd=directory).exit_code == 0
    again = run_in_process(*INIT, cwd=directory)
    assert again.exit_code == 1
    assert "a graph already exists" in again.stderr
    _assert_only_a_graph(directory)


def test_existing_files_are_kept(directory: Path) -> None:
    (directory / "graph.omni" / "nodes").mkdir(parents=True)
    (directory / "graph.omni" / "nodes" / "mine.txt").write_text("mine")
    before = tree(directory)
    assert _init(directory, f"{Failpoint.INIT_MANIFEST_BEFORE}=kill", "--force") == -signal.SIGKILL
    assert _init(directory, f"{Failpoint.INIT_MANIFEST_BEFORE}=raise", "--force") == 1
    assert tree(directory) == before


@pytest.mark.parametrize("point", BEFORE_THE_GRAPH)
def test_failure_leaves_no_files(point: Failpoint, directory: Path) -> None:
    before = tree(directory)
    assert _init(directory, f"{point}=raise") == 1
    assert tree(directory) == before


@pytest.mark.parametrize(
    ("number", "point"),
    [
        (signal.SIGINT, Failpoint.INIT_MARK_BEFORE),
        (signal.SIGTERM, Failpoint.INIT_TABLE_BEFORE),
        (signal.SIGINT, Failpoint.INIT_MANIFEST_BEFORE),
        (signal.SIGTERM, Failpoint.INIT_MANIFEST_BEFORE),
    ],
)
def test_signal_leaves_no_files(number: signal.Signals, point: Failpoint, directory: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    before = tree(directory)
    with subprocess.Popen(
        [OMNIGRAPH, *INIT],
        cwd=directory,
        env=environment({"OMNIGRAPH_FAILPOINTS": f"{point}=hold:{gate}"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _wait_for(gate.with_name("gate.reached"))
        os.kill(process.pid, number)
        if point is Failpoint.INIT_TABLE_BEFORE:
            gate.touch()  # the interrupted thread waits for the thread at the failpoint
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, stdout, stderr) == (128 + number, "", "interrupted\n")
    gate.with_name("gate.reached").unlink()
    gate.unlink(missing_ok=True)
    assert tree(directory) == before


def test_closed_pipe_is_not_an_error(graph: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [OMNIGRAPH, "snapshot", str(graph)],
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=SECONDS_MAX,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_traceback_is_printed_only_with_debug(directory: Path) -> None:
    point = {"OMNIGRAPH_FAILPOINTS": f"{Failpoint.INIT_MARK_BEFORE}=raise"}
    plain = omnigraph(*INIT, cwd=directory, env=point)
    assert plain.stderr.splitlines()[0] == f"error: failpoint {Failpoint.INIT_MARK_BEFORE}"
    assert "Traceback" not in plain.stderr
    assert "Traceback" in omnigraph(*INIT, "--debug", cwd=directory, env=point).stderr


def _init(directory: Path, failpoint: str, *more: str) -> int:
    return omnigraph(*INIT, *more, cwd=directory, env={"OMNIGRAPH_FAILPOINTS": failpoint}).exit_code


def _assert_only_a_graph(directory: Path) -> None:
    """Assert that the directory has a complete graph with three tables and nothing else."""
    names = {path.name for path in (directory / "graph.omni").iterdir()}
    assert names == {"__manifest", "nodes", "edges"}
    assert len(list((directory / "graph.omni" / "nodes").iterdir())) == 2
    assert len(list((directory / "graph.omni" / "edges").iterdir())) == 1


def test_a_slow_end_is_announced_on_a_terminal(directory: Path, tmp_path: Path) -> None:
    gate, (terminal, other_end) = tmp_path / "gate", pty.openpty()
    with subprocess.Popen(
        [OMNIGRAPH, *INIT],
        cwd=directory,
        env=environment({"OMNIGRAPH_FAILPOINTS": f"{Failpoint.INIT_TABLE_BEFORE}=hold:{gate}"}),
        stdout=subprocess.DEVNULL,
        stderr=other_end,
    ) as process:
        os.close(other_end)
        _wait_for(gate.with_name("gate.reached"))
        os.kill(process.pid, signal.SIGINT)
        shown = b""
        while b"press Ctrl-C again to stop immediately" not in shown:
            shown += os.read(terminal, 1_000)
        gate.touch()
        assert process.wait(SECONDS_MAX) == 128 + signal.SIGINT
    os.close(terminal)


def _wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path} exists")
