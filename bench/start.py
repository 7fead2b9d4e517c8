"""Measures the CPU time of whole commands, as a shell starts them, compared with imports in a plain interpreter.

Each command is a process; its CPU time is that of all its threads. `version` is compared with importing typer and rich,
every other command with importing Lance, which imports pandas. The imports that no command can avoid, typer and Lance
without pandas, are measured as well: no command can be faster. All processes use compiled bytecode, as after an
installation, even if the environment says that Python does not write it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import omnigraph
from bench.generate import SCHEMA, people_file
from bench.harness import Ratio, compare, sized

ROUNDS: Final = sized(11, 2)
QUERY: Final = "query q() { match { $p: Person } return { $p.slug } limit 1 }"
MUTATION: Final = 'query add() { insert Person { slug: "new", name: "New", joined: date("2026-01-01") } }'
PRINTS: Final = "import typer, rich"
READS: Final = "import lance"
SMALLEST: Final = "import typer, and lance without pandas"
LIMITS: Final = {
    "version": (PRINTS, 1.3),
    "query": (READS, 0.6),
    "snapshot": (READS, 0.6),
    "mutate": (READS, 0.6),
    "branch list": (READS, 0.6),
    "load of one line": (READS, 1.2),
    "optimize": (READS, 1.5),
    SMALLEST: (READS, None),
}
_WITHOUT_PANDAS: Final = """\
import gc, os
gc.set_threshold(250_000, 50, 100)
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from omnigraph.cli.pandas_import import hide_pandas
hide_pandas()
import typer, lance
"""


def run(folder: Path) -> list[Ratio]:
    """Return the ratio of each command."""
    graph = str(folder / "graph.omni")
    omnigraph.init(graph, SCHEMA)
    line = people_file(range(1))
    commands = {
        PRINTS: [sys.executable, "-c", PRINTS],
        READS: [sys.executable, "-c", READS],
        SMALLEST: [sys.executable, "-c", _WITHOUT_PANDAS],
        "version": _command("version"),
        "query": _command("query", "--store", graph, "-e", QUERY),
        "snapshot": _command("snapshot", graph),
        "mutate": _command("mutate", "--store", graph, "-e", MUTATION),
        "branch list": _command("branch", "list", graph),
        "load of one line": _command("load", "--mode", "merge", "--data", str(line), graph),
        "optimize": _command("optimize", graph),
    }
    environ = _environment(folder / "bytecode")
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            seconds[name].append(_cpu_seconds(command, environ))
    # The first round compiles.
    medians = {name: median(values[1:]) for name, values in seconds.items()}
    return [compare(name, medians, (name, base), limit) for name, (base, limit) in LIMITS.items()]


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "omnigraph"), *arguments, "--quiet"]


def _environment(bytecode: Path) -> dict[str, str]:
    """Return the environment of the processes: they write and read bytecode in one directory."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(bytecode)}


def _cpu_seconds(command: list[str], environ: Mapping[str, str]) -> float:
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime
