"""Measures the CPU time of whole commands, from the shell, next to the imports that they cannot do without.

Each command is a process; its CPU time is that of all its threads. A command that only prints is compared with
importing typer and rich, every other one with importing Lance in a plain interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import omnigraph
from bench.generate import SCHEMA, people_file
from bench.harness import Ratio, compare, report, sized

ROUNDS: Final = sized(11, 2)
QUERY: Final = "query q() { match { $p: Person } return { $p.slug } limit 1 }"
MUTATION: Final = 'query add() { insert Person { slug: "new", name: "New", joined: date("2026-01-01") } }'
PRINTS: Final = "import typer and rich"
READS: Final = "import lance"
LIMITS: Final = {
    "version": (PRINTS, 1.3),
    "query": (READS, 0.6),
    "snapshot": (READS, 0.6),
    "mutate": (READS, 0.6),
    "branch list": (READS, 0.6),
    "load of one line": (READS, 1.2),
    "optimize": (READS, 1.5),
}


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        report("start", run(Path(folder)))


def run(folder: Path) -> list[Ratio]:
    """Return the ratio of each command."""
    graph = str(folder / "graph.omni")
    omnigraph.init(graph, SCHEMA)
    line = people_file(range(1))
    commands = {
        PRINTS: [sys.executable, "-c", "import typer, rich"],
        READS: [sys.executable, "-c", "import lance"],
        "version": _command("version"),
        "query": _command("query", "--store", graph, "-e", QUERY),
        "snapshot": _command("snapshot", graph),
        "mutate": _command("mutate", "--store", graph, "-e", MUTATION),
        "branch list": _command("branch", "list", graph),
        "load of one line": _command("load", "--mode", "merge", "--data", str(line), graph),
        "optimize": _command("optimize", graph),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            seconds[name].append(_cpu_seconds(command))
    medians = {name: median(values[1:]) for name, values in seconds.items()}
    return [compare(name, medians, (name, base), limit) for name, (base, limit) in LIMITS.items()]


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "omnigraph"), *arguments, "--quiet"]


def _cpu_seconds(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime
