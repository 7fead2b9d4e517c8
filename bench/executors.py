"""How a load scales: on one executor process and on two, with one core for each.

Each kind of session lives in a process of its own, which is started and warm before the clock; the processes take
turns, and whoever waits does nothing. With two cores the driver and its JVM share them with the executors.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import omnigraph
from bench.generate import SCHEMA, graph_file
from bench.harness import Ratio, compare, median_seconds, report, sized
from omnigraph.pipeline.spark.session import SparkSettings, spark_session

LINES: Final = sized(2_000_000, 50_000)
ROUNDS: Final = sized(3, 7)
MASTERS: Final = {
    "2 executors": "local-cluster[2,1,1024]",
    "1 executor": "local-cluster[1,1,1024]",
}
_CONF: Final = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}


@dataclass(frozen=True, slots=True)
class Session:
    """A process with a session, which loads the file into a new graph each time it is told to."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, master: str, folder: Path, file: Path, stack: ExitStack) -> Session:
        command = [sys.executable, "-m", "bench.executors", master, str(folder), str(file)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # Leaving it closes its stdin, with which it ends.
        started = cls(stack.enter_context(process))
        started.wait()
        return started

    def load(self) -> None:
        print("load", file=_pipe(self.process.stdin), flush=True)
        self.wait()

    def wait(self) -> None:
        said = _pipe(self.process.stdout).readline()
        assert said == "ready\n", f"a session failed: {said}"


def run(folder: Path) -> list[Ratio]:
    """Two over one."""
    file = graph_file(LINES)
    with ExitStack() as stack:
        sessions = {
            name: Session.start(master, folder / name, file, stack) for name, master in MASTERS.items()
        }
        times = median_seconds({name: session.load for name, session in sessions.items()}, ROUNDS)
    return [compare(f"load of {LINES:,} lines", times, ("2 executors", "1 executor"), None, LINES)]


def serve(master: str, folder: Path, file: str) -> None:
    """Load once for every line on stdin."""
    folder.mkdir(parents=True)
    session = spark_session(SparkSettings(master, _CONF))
    omnigraph.init(str(folder / "warm.omni"), SCHEMA).load(graph_file(1_000))
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin):
        omnigraph.init(str(folder / f"{number}.omni"), SCHEMA).load(file)
        print("ready", flush=True)
    session.stop()


def _pipe(found: IO[str] | None) -> IO[str]:
    assert found is not None, "both pipes were asked for"
    return found


def main() -> bool:
    """Run it in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return report("executors", run(Path(folder)))


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
