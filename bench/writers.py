"""Compares 8 writers of one branch that are threads of one process with 8 that are processes, in commits per second.

Each writer inserts one row per commit. Threads share the lease of the branch, processes wait for it. The ratio has no
limit here: the bar of 2 belongs to the server, whose clients are such threads. The time starts when all writers are
ready. As a program, `python -m bench.writers <graph> <setting> <threads> <commits> <name>` writes when it reads a line.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import omnigraph
from bench.harness import Ratio, sized

WRITERS: Final = 8
COMMITS: Final = sized(20, 4)
ROUNDS: Final = sized(3, 1)
SETTINGS: Final = ("sync", "process")
SCHEMA: Final = "node Person { slug: String @key  age: I64? }"
INSERT: Final = "query add($slug: String) { insert Person { slug: $slug } }"
_ROOT: Final = Path(__file__).parents[1]


def run(folder: Path) -> list[Ratio]:
    """Return the time of the same commits by threads over that by processes, for both settings of durability."""
    return [_compare(folder, setting) for setting in SETTINGS]


def _compare(folder: Path, setting: str) -> Ratio:
    seconds: dict[str, list[float]] = {"processes": [], "threads": []}
    for number in range(ROUNDS):
        for side, (processes, threads) in {"processes": (WRITERS, 1), "threads": (1, WRITERS)}.items():
            graph = omnigraph.init(str(folder / f"{setting}-{side}-{number}.omni"), SCHEMA, durability=setting)
            seconds[side].append(measure_writers(graph.uri, setting, processes, threads))
    rates = {side: WRITERS * COMMITS / median(times) for side, times in seconds.items()}
    detail = ", ".join(f"{side} {rate:.0f} commits/s" for side, rate in rates.items())
    name = f"{WRITERS} threads over {WRITERS} processes, commits per second, {setting}"
    sides = {"threads": rates["threads"], "processes": rates["processes"]}
    return Ratio(name, rates["threads"] / rates["processes"], None, detail, sides, unit="commits/s")


def measure_writers(uri: str, setting: str, processes: int, threads: int) -> float:
    """Return how long all writers take, from the time when the last one is ready."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.writers", uri, setting, str(threads), str(COMMITS), f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        started = perf_counter()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        codes = [writer.wait() for writer in writers]
        elapsed = perf_counter() - started
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert not any(codes), f"a writer failed: {codes}"
    return elapsed


def _write(graph: omnigraph.Graph, commits: int, name: str) -> None:
    for number in range(commits):
        graph.mutate(INSERT, {"slug": f"{name}-{number}"})


def main(uri: str, setting: str, threads: int, commits: int, name: str) -> None:
    """Write with some threads after a line was read."""
    graph = omnigraph.open(uri, durability=setting)
    _write(graph, 1, f"{name}-warm")
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda number: _write(graph, commits, f"{name}-{number}"), range(threads)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
