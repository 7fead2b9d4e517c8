"""Measures how a load scales from one executor process to two, with one core each.

Each session runs in a separate process, which is started and warmed up before the measurement; the processes take
turns, and a waiting process is idle. On two cores the driver and its JVM share them with the executors.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import omnigraph
from bench.generate import SCHEMA, graph_file
from bench.harness import Ratio, compare, median_seconds, sized
from omnigraph.pipeline.spark.session import SparkSettings, spark_session

LINES: Final = sized(2_000_000, 50_000)
ROUNDS: Final = sized(3, 7)
MASTERS: Final = {"2 executors": "local-cluster[2,1,1024]", "1 executor": "local-cluster[1,1,1024]"}
_CONF: Final = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}


@dataclass(frozen=True, slots=True)
class SparkProcess:
    """A process with a session, which loads the file into a new graph for each line of its stdin."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, master: str, folder: Path, file: Path, stack: ExitStack) -> SparkProcess:
        command = [sys.executable, "-m", "bench.executors", master, str(folder), str(file)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The exit of the stack closes its stdin, which ends it.
        session = cls(stack.enter_context(process))
        session.wait()
        return session

    def load(self) -> None:
        print("load", file=_pipe(self.process.stdin), flush=True)
        self.wait()

    def wait(self) -> None:
        answer = _pipe(self.process.stdout).readline()
        assert answer == "ready\n", f"a session failed: {answer}"


def run(folder: Path) -> list[Ratio]:
    """Return the ratio of two executors over one."""
    file = graph_file(LINES)
    with ExitStack() as stack:
        sessions = {name: SparkProcess.start(master, folder / name, file, stack) for name, master in MASTERS.items()}
        times = median_seconds({name: session.load for name, session in sessions.items()}, ROUNDS)
    return [compare(f"load of {LINES:,} lines", times, ("2 executors", "1 executor"), 0.65, LINES)]


def serve(master: str, folder: Path, file: str) -> None:
    """Load the file once for each line on stdin."""
    folder.mkdir(parents=True)
    session = spark_session(SparkSettings(master, _CONF))
    omnigraph.init(str(folder / "warm.omni"), SCHEMA).load(graph_file(1_000))
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin):
        omnigraph.init(str(folder / f"{number}.omni"), SCHEMA).load(file)
        print("ready", flush=True)
    session.stop()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "both streams are pipes"
    return pipe


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
