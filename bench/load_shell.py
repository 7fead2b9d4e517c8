"""Measures a load of three lines on Spark from the shell: a cold one over a bare session, a warm one over the imports.

Each measured command is a process. The warm server uses a separate cache directory, so that a server of the user is not
affected. The class-data archive is written before the measurement. Without `--runner spark` such a load starts no
Spark, which `bench start` measures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import omnigraph
from bench.generate import SCHEMA, people_file
from bench.harness import RESULTS, Ratio, compare, median_seconds, sized
from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.pipeline.spark.class_archive import flags_to_use
from omnigraph.pipeline.spark.java import find_java

ROUNDS: Final = sized(5, 1)
_ARCHIVE_SECONDS_MAX: Final = 300.0
_BARE_SESSION: Final = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[*]").getOrCreate()
assert session.range(3).count() == 3
session.stop()
"""


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands on one graph."""

    graph: Path

    def python(self, *arguments: str) -> None:
        self._run(sys.executable, *arguments)

    def omnigraph(self, *arguments: str) -> None:
        self._run(str(Path(sys.executable).parent / "omnigraph"), *arguments)

    def load(self) -> None:
        """Load three people; the first load inserts them, later loads replace them."""
        arguments = ("--data", str(people_file(range(3))), "--mode", "merge", "--runner", "spark")
        self.omnigraph("load", str(self.graph), *arguments)

    def _run(self, *command: str) -> None:
        environ = {
            **os.environ,
            "OMNIGRAPH_HOME": str(RESULTS / "home"),
            "OMNIGRAPH_CLASS_ARCHIVE": "on",
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _write_archive(shell: Shell) -> None:
    """Run commands until the JVM of one of them has written the class-data archive, if its Java can."""
    for _ in range(limits.CLASS_ARCHIVE_STARTS_MIN):
        shell.load()
    deadline = SYSTEM_CLOCK.monotonic() + _ARCHIVE_SECONDS_MAX
    while not any(map(flags_to_use, RESULTS.glob("home/spark/classes-*.jsa"))):
        if SYSTEM_CLOCK.monotonic() > deadline:
            return
        SYSTEM_CLOCK.sleep(1.0)


def shell_ratios(folder: Path, rounds: int = ROUNDS) -> list[Ratio]:
    """Return the ratios of a cold and a warm load."""
    shell = Shell(folder / "shell.omni")
    omnigraph.init(str(shell.graph), SCHEMA)
    _write_archive(shell)
    cold: dict[str, Callable[[], None]] = {
        "load": shell.load,
        "bare session": lambda: shell.python("-c", _BARE_SESSION),
    }
    warm: dict[str, Callable[[], None]] = {
        "load": shell.load,
        "imports": lambda: shell.python("-c", "import pyspark, lance"),
    }
    cold_times = median_seconds(cold, rounds)
    shell.omnigraph("spark", "start")
    try:
        warm_times = median_seconds(warm, rounds)
    finally:
        shell.omnigraph("spark", "stop")
    return [
        compare("cold load of 3 lines over a bare session", cold_times, ("load", "bare session"), 1.3),
        compare("warm load of 3 lines over the imports", warm_times, ("load", "imports"), 6.0),
    ]
