"""What a writer waits for while optimize runs: at most for the time that optimize holds the branch's lease.

A process appends a few rows again and again, or updates single rows at a fixed rate, first alone and then next to
optimize. It reports how long each write took and how long it waited for the lease, from the end of its staging to the
epoch it got. Of optimize it reports how long it held the lease, its commit section, and next to updates how many of the
fragments that it found are left. A busy machine slows both.
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
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.snapshot import MAIN, open_table, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.optimize.options import TableOptimizeStats
from omnigraph.storage.lance.stage import stage_fragments, stage_upsert, write_rows

TABLE: Final = "node:T0"
ROWS: Final = 10
WARM: Final = 5
ALONE: Final = 40
UPDATES_PER_SECOND: Final = 20
_ROOT: Final = Path(__file__).parents[1]
_EPOCH: Final = re.compile(r"__locks/.+/\d{20}\.json")
_RELEASE: Final = re.compile(r"__locks/.+/\d{20}\.release\.json")


def run(graph: Graph, folder: Path, optimize: Callable[[], object]) -> list[Ratio]:
    """How long a writer waits, in optimize's longest commit section, and how much slower its writes are."""
    alone, beside, hold = _measure(graph, folder, optimize, "append")
    wait = max(beside["waits"])
    usual, beside_usual = median(alone["writes"]), median(beside["writes"])
    detail = (
        f"longest wait {wait * 1e3:.0f} ms of {len(beside['waits'])} writes, "
        f"optimize held the lease for {hold * 1e3:.0f} ms at most"
    )
    return [
        Ratio(
            "a writer's longest wait / the commit section",
            wait / (hold + limits.LEASE_POLL_SECONDS_MAX),
            1.0,
            detail,
        ),
        Ratio(
            "a write beside optimize / alone",
            beside_usual / usual,
            None,
            f"median {beside_usual * 1e3:.0f} ms, alone {usual * 1e3:.0f} ms, "
            f"longest {max(beside['writes']) * 1e3:.0f} ms",
        ),
    ]


def run_updates(
    graph: Graph, folder: Path, optimize: Callable[[], Sequence[TableOptimizeStats]]
) -> list[Ratio]:
    """How many of the fragments that optimize found are left next to a writer of single-row updates, and its wait."""
    before = set(_fragment_numbers(graph))
    stats: list[TableOptimizeStats] = []
    _, beside, hold = _measure(graph, folder, lambda: stats.extend(optimize()), "update")
    after = set(_fragment_numbers(graph))
    (row,) = [row for row in stats if row.table_key == TABLE]
    wait, usual = max(beside["waits"]), median(beside["writes"])
    name = f"{UPDATES_PER_SECOND} updates a second"
    return [
        Ratio(
            f"fragments left / found next to {name}",
            len(before & after) / len(before),
            0.1,
            f"{len(before):,} fragments before, {len(before & after):,} of them left, {len(after - before):,} new ones "
            f"of {len(beside['writes']):,} updates and 1 run, {row.skipped or 'committed'}",
        ),
        Ratio(
            f"longest wait / commit section next to {name}",
            wait / (hold + limits.LEASE_POLL_SECONDS_MAX),
            1.0,
            f"longest wait {wait * 1e3:.0f} ms, median update {usual * 1e3:.0f} ms, longest "
            f"{max(beside['writes']) * 1e3:.0f} ms, optimize held the lease for {hold * 1e3:.0f} ms at most",
        ),
    ]


def _measure(
    graph: Graph, folder: Path, optimize: Callable[[], object], kind: str
) -> tuple[dict[str, list[float]], dict[str, list[float]], float]:
    """What the writer reports, alone and next to optimize, and how long optimize held the lease at most."""
    stop, held = folder / f"stop-{kind}", _Held()
    command = [sys.executable, "-m", "bench.beside", graph.uri, str(stop), kind]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        alone = json.loads(writer.stdout.readline())
        with observed(held.see):
            optimize()
        stop.touch()
        beside = json.loads(writer.stdout.readline())
    assert writer.returncode == 0
    assert held.seconds, "optimize held the lease"
    return alone, beside, max(held.seconds)


def _fragment_numbers(graph: Graph) -> Iterable[int]:
    return open_table(graph.location, read_snapshot(graph.location).tables[TABLE]).fragment_rows()


@dataclass(slots=True)
class _Held:
    """How long this process held leases, from what it announces."""

    seconds: list[float] = field(default_factory=list)
    since: float = 0.0

    def see(self, effect: str, target: str) -> None:
        if effect == "object.create" and _EPOCH.fullmatch(target):
            self.since = perf_counter()
        elif effect == "object.create" and _RELEASE.fullmatch(target):
            self.seconds.append(perf_counter() - self.since)


@dataclass(slots=True)
class _Writer:
    """Writes, and remembers how long each took and waited."""

    graph: Graph
    kind: str
    waits: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    staged_at: float = 0.0
    acquired_at: float = 0.0
    count: int = 0

    def see(self, effect: str, target: str) -> None:
        if effect == "object.create" and _EPOCH.fullmatch(target):
            self.acquired_at = perf_counter()

    def write(self) -> None:
        self.count += 1
        started = perf_counter()
        request = WriteRequest(WriterKind.LOAD, "bench", self._stage, lambda at, _: self._change(at))
        assert write(self.graph.location, MAIN, request) is not None
        self.writes.append(perf_counter() - started)
        self.waits.append(self.acquired_at - self.staged_at)

    def _stage(self, at: StagingArea) -> StagedWrite:
        """Before the lease; what is staged again under it is no waiting."""
        staged = self._change(at)
        self.staged_at = perf_counter()
        return staged

    def _change(self, at: StagingArea) -> StagedWrite:
        return self._update(at) if self.kind == "update" else self._append(at)

    def _update(self, at: StagingArea) -> StagedWrite:
        target = at.writable(TABLE)
        name = f"k{self.count * 7919 % target.table.row_count:09d}"
        row = pa.table({"id": [name], "slug": [name], "age": [self.count]}, schema=target.dataset.schema)
        effect = at.transaction_effect(target, stage_upsert(target.dataset, row), target.table.row_count)
        return at.finish((effect,), frozenset(), Outcome({}))

    def _append(self, at: StagingArea) -> StagedWrite:
        target = at.writable(TABLE)
        names = [f"beside{self.count}-{number}" for number in range(ROWS)]
        values = {"id": names, "slug": names, "age": list(range(ROWS))}
        staged = stage_fragments(
            target.dataset, write_rows(target.dataset, pa.table(values, schema=target.dataset.schema))
        )
        effect = at.transaction_effect(target, staged, target.table.row_count + ROWS)
        return at.finish((effect,), frozenset(), Outcome({}))

    def tell(self) -> None:
        print(json.dumps({"waits": self.waits, "writes": self.writes}), flush=True)
        self.waits, self.writes = [], []


def main(uri: str, stop: Path, kind: str) -> None:
    """The writer's process. Updates come at a fixed rate, or as fast as they can when that is slower."""
    writer = _Writer(omnigraph.open(uri), kind)
    with observed(writer.see):
        for _ in range(WARM):
            writer.write()
        writer.waits, writer.writes = [], []
        for _ in range(ALONE):
            writer.write()
        writer.tell()
        due = perf_counter()
        while not stop.exists():
            writer.write()
            due += 1 / UPDATES_PER_SECOND
            if kind == "update":
                SYSTEM_CLOCK.sleep(max(0.0, due - perf_counter()))
        writer.tell()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
