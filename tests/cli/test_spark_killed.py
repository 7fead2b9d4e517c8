"""A process of Spark is killed during a command: one error, no data is lost, and the next run works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.storage.location import parse_location
from tests.cli.process import OMNIGRAPH, SCHEMA, CommandResult, assert_success_or_one_error, environment
from tests.pipeline.in_place import load_here
from tests.pipeline.process import is_alive, processes_with
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("spark")]

RECORDS = 50_000
COUNT = "query q() { match { $p: Person } return { count($p) as people } }"
COMMANDS = {
    "load": ("load", "--data", "new.jsonl", "graph.omni", "--spark-master", "local[1]"),
    "optimize": ("optimize", "graph.omni", "--spark-master", "local[1]"),
}


@pytest.mark.parametrize("victim", ["worker", "daemon", "java"])
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_process_of_spark(command: str, victim: str, tmp_path: Path) -> None:
    graph = tmp_path / "graph.omni"
    og.init(str(graph), SCHEMA)
    for name in ("old", "older", "new"):
        write(tmp_path / f"{name}.jsonl", name)
        if name != "new":
            load_here(parse_location(str(graph)), [str(tmp_path / f"{name}.jsonl")])
    before, after = 2 * RECORDS, (3 if command == "load" else 2) * RECORDS
    env = {"OMNIGRAPH_HOME": str(tmp_path / "home"), "OMNIGRAPH_CLASS_ARCHIVE": "off"}

    first = run(tmp_path, command, env, victim)
    assert_success_or_one_error(first)
    assert count(graph) == (after if first.exit_code == 0 else before)
    if first.exit_code != 0:
        again = run(tmp_path, command, env)
        assert again.exit_code == 0, again.stderr
    assert count(graph) == after
    assert not [finding for finding in og.open(str(graph)).doctor() if finding.health.value == "problem"]


def test_java_killed_after_its_work(tmp_path: Path) -> None:
    """The command does not need Java any more: it succeeds and reports nothing."""
    graph = tmp_path / "graph.omni"
    og.init(str(graph), SCHEMA)
    for name in ("old", "older"):
        write(tmp_path / f"{name}.jsonl", name)
        load_here(parse_location(str(graph)), [str(tmp_path / f"{name}.jsonl")])
    env = {"OMNIGRAPH_HOME": str(tmp_path / "home"), "OMNIGRAPH_CLASS_ARCHIVE": "off"}
    stopping = environment({**env, ENVIRONMENT_VARIABLE: f"{Failpoint.ARM_BEFORE}=stop"})
    with started(tmp_path, "optimize", stopping) as process:
        wait_until(lambda: is_stopped(process.pid))
        java = spark_pids(f"OMNIGRAPH_HOME={env['OMNIGRAPH_HOME']}\0")["java"]
        os.kill(java, signal.SIGKILL)
        wait_until(lambda: not is_alive(java))
        process.send_signal(signal.SIGCONT)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert "Exception" not in stderr
    assert count(graph) == 2 * RECORDS


def write(path: Path, name: str) -> None:
    lines = (json.dumps({"type": "Person", "data": {"slug": f"{name}{n}"}}) + "\n" for n in range(RECORDS))
    path.write_text("".join(lines), encoding="utf-8")


def count(graph: Path) -> int:
    (row,) = og.open(str(graph), read_only=True).query(COUNT).to_pylist()
    people = row["people"]
    assert isinstance(people, int)
    return people


def run(directory: Path, command: str, env: dict[str, str], victim: str | None = None) -> CommandResult:
    """Run the command; with a victim, kill that process as soon as a worker of Spark runs."""
    with started(directory, command, environment(env)) as process:
        if victim is not None:
            mark = f"OMNIGRAPH_HOME={env['OMNIGRAPH_HOME']}\0"
            pids: dict[str, int] = {}

            def has_worker() -> bool:
                pids.update(spark_pids(mark))
                return "worker" in pids or process.poll() is not None

            wait_until(has_worker)
            os.kill(pids[victim], signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
    return CommandResult(stdout, stderr, process.returncode)


@contextmanager
def started(directory: Path, command: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Yield the running command; kill it at the end."""
    with subprocess.Popen(
        [OMNIGRAPH, *COMMANDS[command]],
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def spark_pids(mark: str) -> dict[str, int]:
    """Return the processes of Spark by kind: Java, its child the Python daemon, and the worker of the daemon."""
    pids: dict[str, int] = {}
    for pid in processes_with(mark):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            parent_command = Path(f"/proc/{parent}/cmdline").read_text(errors="replace")
        except OSError:
            continue
        if "org.apache.spark.deploy.SparkSubmit" in arguments:
            pids["java"] = pid
        elif any("pyspark.daemon" in argument for argument in arguments):
            pids["worker" if "pyspark.daemon" in parent_command else "daemon"] = pid
    return pids
