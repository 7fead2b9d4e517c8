"""Measures how long a writer waits while optimize runs: at most as long as optimize holds the lease of the branch.

A process appends a few rows repeatedly, or updates single rows at a fixed rate, first alone and then during optimize.
It reports the time of each write and its wait for the lease, from the end of staging to the new epoch. For optimize the
benchmark reports how long it held the lease (its commit section) and, with updates, how many of the old fragments
remain. A busy machine slows both.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio
from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, open_table, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.optimize.options import TableOptimizeStats
from omnigraph.storage.lance.stage import stage_fragments, stage_upsert, write_rows

TABLE: Final = "node:T0"
ROWS: Final = 10
WARM: Final = 5
ALONE: Final = 40
UPDATES_PER_SECOND: Final = 20
UPDATES_BETWEEN_RUNS: Final = 200
RUNS: Final = 3
FRAGMENTS_SECONDS_MAX: Final = 300
FRAGMENTS_POLL_SECONDS: Final = 0.2
_ROOT: Final = Path(__file__).parents[1]
_EPOCH: Final = re.compile(r"__locks/.+/\d{20}\.json")
_RELEASE: Final = re.compile(r"__locks/.+/\d{20}\.release\.json")


def run(graph: Graph, folder: Path, optimize: Callable[[], object]) -> list[Ratio]:
    """Measure the wait of a writer over optimize's longest commit section, and how much slower its writes are."""
    alone, concurrent, hold = _measure(graph, folder, optimize, "append")
    wait = max(concurrent["waits"])
    alone_median, concurrent_median = median(alone["writes"]), median(concurrent["writes"])
    detail = (
        f"longest wait {wait * 1e3:.0f} ms of {len(concurrent['waits'])} writes, "
        f"optimize held the lease for {hold * 1e3:.0f} ms at most"
    )
    return [
        Ratio(
            "a writer's longest wait / the commit section", wait / (hold + limits.LEASE_POLL_SECONDS_MAX), 1.0, detail
        ),
        Ratio(
            "a write during optimize / alone",
            concurrent_median / alone_median,
            None,
            f"median {concurrent_median * 1e3:.0f} ms, alone {alone_median * 1e3:.0f} ms, "
            f"longest {max(concurrent['writes']) * 1e3:.0f} ms",
        ),
    ]


def run_updates(graph: Graph, folder: Path, optimize: Callable[[], Sequence[TableOptimizeStats]]) -> list[Ratio]:
    """Measure the fragments before and after several runs with concurrent updates, and the waits of the writer."""
    runs: list[_Run] = []

    def run_optimize() -> None:
        for _ in range(RUNS):
            if runs:
                _wait_for_fragments(graph, len(runs[-1].after) + UPDATES_BETWEEN_RUNS)
            before = frozenset(_fragment_numbers(graph))
            (row,) = [row for row in optimize() if row.table_key == TABLE]
            runs.append(_Run(before, frozenset(_fragment_numbers(graph)), row.skipped or "committed"))

    _, concurrent, hold = _measure(graph, folder, run_optimize, "update")
    wait, longest, median_seconds = max(concurrent["waits"]), max(concurrent["writes"]), median(concurrent["writes"])
    first, name = runs[0], f"{UPDATES_PER_SECOND} updates a second"
    left = len(first.before & first.after)
    return [
        Ratio(
            f"fragments left / before, with {name}",
            left / len(first.before),
            0.1,
            f"{len(first.before):,} fragments before, {left:,} of them left, {len(first.after - first.before):,} new "
            f"ones after the first run, {first.result}",
        ),
        Ratio(
            f"fragments after / before each of {RUNS} runs, with {name}",
            max(len(run.after) / len(run.before) for run in runs),
            0.9,
            "; ".join(f"{len(run.before):,} → {len(run.after):,}, {run.result}" for run in runs),
        ),
        Ratio(
            f"longest wait / commit section, with {name}",
            wait / (hold + limits.LEASE_POLL_SECONDS_MAX),
            1.0,
            f"longest wait {wait * 1e3:.0f} ms, optimize held the lease for {hold * 1e3:.0f} ms at most",
        ),
        Ratio(
            f"longest update / median update, with {name}",
            longest / median_seconds,
            20.0,
            f"longest {longest * 1e3:.0f} ms, median {median_seconds * 1e3:.0f} ms of {len(concurrent['writes']):,} "
            "updates, each with its wait for the lease",
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    """The fragments before and after a run of optimize, and whether it committed."""

    before: frozenset[int]
    after: frozenset[int]
    result: str


def _wait_for_fragments(graph: Graph, count: int) -> None:
    """Wait until the writer has added fragments."""
    deadline = perf_counter() + FRAGMENTS_SECONDS_MAX
    while len(set(_fragment_numbers(graph))) < count:
        assert perf_counter() < deadline, "the writer stopped"
        SYSTEM_CLOCK.sleep(FRAGMENTS_POLL_SECONDS)


def _measure(
    graph: Graph, folder: Path, optimize: Callable[[], object], kind: str
) -> tuple[dict[str, list[float]], dict[str, list[float]], float]:
    """Return the writer's times alone and during optimize, and the longest time that optimize held the lease."""
    stop, leases = folder / f"stop-{kind}", _LeaseTimes()
    command = [sys.executable, "-m", "bench.concurrent_writer", graph.uri, str(stop), kind]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        alone = json.loads(writer.stdout.readline())
        with observed(leases.observe):
            optimize()
        stop.touch()
        concurrent = json.loads(writer.stdout.readline())
    assert writer.returncode == 0
    assert leases.seconds, "optimize did not hold the lease"
    return alone, concurrent, max(leases.seconds)


def _fragment_numbers(graph: Graph) -> Iterable[int]:
    return open_table(graph.location, read_snapshot(graph.location).tables[TABLE]).fragment_rows()


@dataclass(slots=True)
class _LeaseTimes:
    """How long this process held leases, from its observed effects."""

    seconds: list[float] = field(default_factory=list)
    since: float = 0.0

    def observe(self, effect: str, target: str) -> None:
        if effect == "object.create" and _EPOCH.fullmatch(target):
            self.since = perf_counter()
        elif effect == "object.create" and _RELEASE.fullmatch(target):
            self.seconds.append(perf_counter() - self.since)


@dataclass(slots=True)
class _Writer:
    """Writes, and stores how long each write took and waited."""

    graph: Graph
    kind: str
    waits: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    staged_at: float = 0.0
    acquired_at: float = 0.0
    count: int = 0

    def observe(self, effect: str, target: str) -> None:
        if effect == "object.create" and _EPOCH.fullmatch(target):
            self.acquired_at = perf_counter()

    def write(self) -> None:
        self.count += 1
        started = perf_counter()
        request = WriteRequest(
            kind=WriteOperation.LOAD, actor="bench", stage=self._stage, restage=lambda area, _: self._change(area)
        )
        assert write(self.graph.location, MAIN, request) is not None
        self.writes.append(perf_counter() - started)
        self.waits.append(self.acquired_at - self.staged_at)

    def _stage(self, area: StagingArea) -> StagedWrite:
        """Stage before the lease; the time of staging again under the lease is not part of the wait."""
        staged = self._change(area)
        self.staged_at = perf_counter()
        return staged

    def _change(self, area: StagingArea) -> StagedWrite:
        return self._update(area) if self.kind == "update" else self._append(area)

    def _update(self, area: StagingArea) -> StagedWrite:
        target = area.open_for_write(TABLE)
        name = f"k{self.count * 7919 % target.table.row_count:09d}"
        row = pa.table({"id": [name], "slug": [name], "age": [self.count]}, schema=target.dataset.schema)
        effect = area.transaction_effect(target, stage_upsert(target.dataset, row), target.table.row_count)
        return area.finish((effect,), frozenset(), {})

    def _append(self, area: StagingArea) -> StagedWrite:
        target = area.open_for_write(TABLE)
        names = [f"new{self.count}-{number}" for number in range(ROWS)]
        values = {"id": names, "slug": names, "age": list(range(ROWS))}
        staged = stage_fragments(
            target.dataset, write_rows(target.dataset, pa.table(values, schema=target.dataset.schema))
        )
        effect = area.transaction_effect(target, staged, target.table.row_count + ROWS)
        return area.finish((effect,), frozenset(), {})

    def print_times(self) -> None:
        print(json.dumps({"waits": self.waits, "writes": self.writes}), flush=True)
        self.waits, self.writes = [], []


def main(uri: str, stop: Path, kind: str) -> None:
    """Run the process of the writer. Updates have a fixed rate, or are as fast as possible if that is slower."""
    writer = _Writer(omnigraph.open(uri), kind)
    with observed(writer.observe):
        for _ in range(WARM):
            writer.write()
        writer.waits, writer.writes = [], []
        for _ in range(ALONE):
            writer.write()
        writer.print_times()
        due = perf_counter()
        while not stop.exists():
            writer.write()
            due += 1 / UPDATES_PER_SECOND
            if kind == "update":
                SYSTEM_CLOCK.sleep(max(0.0, due - perf_counter()))
        writer.print_times()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
