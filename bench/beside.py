"""What a writer waits for while optimize runs: at most for the time that optimize holds the branch's lease.

A process appends a few rows again and again, first alone and then beside optimize. It tells how long each write took
and how long it waited for the lease, from the end of its staging to the epoch it got. Of optimize it is told how long
it held the lease, its commit section. A busy machine slows both.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio
from omnigraph.api.graph import Graph
from omnigraph.base.effects import observed
from omnigraph.base.limits import LEASE_POLL_SECONDS_MAX
from omnigraph.graph.commit import Write, write
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.snapshot import MAIN
from omnigraph.graph.stage import Outcome, Stage
from omnigraph.graph.staged import Staged
from omnigraph.storage.staging import stage_fragments, write_rows

TABLE: Final = "node:T0"
ROWS: Final = 10
WARM: Final = 5
ALONE: Final = 40
_ROOT: Final = Path(__file__).parents[1]
_EPOCH: Final = re.compile(r"__locks/.+/\d{20}\.json")
_RELEASE: Final = re.compile(r"__locks/.+/\d{20}\.release\.json")


def run(graph: Graph, folder: Path, optimize: Callable[[], object]) -> list[Ratio]:
    """How long a writer waits, in optimize's longest commit section, and how much slower its writes are."""
    stop, held = folder / "stop", _Held()
    command = [sys.executable, "-m", "bench.beside", graph.uri, str(stop)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        alone = json.loads(writer.stdout.readline())
        with observed(held.see):
            optimize()
        stop.touch()
        beside = json.loads(writer.stdout.readline())
    assert writer.returncode == 0
    assert held.seconds, "optimize held the lease"
    hold, wait = max(held.seconds), max(beside["waits"])
    usual, beside_usual = median(alone["writes"]), median(beside["writes"])
    detail = (
        f"longest wait {wait * 1e3:.0f} ms of {len(beside['waits'])} writes, "
        f"optimize held the lease for {hold * 1e3:.0f} ms at most"
    )
    return [
        Ratio(
            "a writer's longest wait / the commit section",
            wait / (hold + LEASE_POLL_SECONDS_MAX),
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
        request = Write(WriterKind.LOAD, "bench", self._stage, lambda at, _: self._append(at))
        assert write(self.graph.location, MAIN, request) is not None
        self.writes.append(perf_counter() - started)
        self.waits.append(self.acquired_at - self.staged_at)

    def _stage(self, at: Stage) -> Staged:
        """Before the lease; what is staged again under it is no waiting."""
        staged = self._append(at)
        self.staged_at = perf_counter()
        return staged

    def _append(self, at: Stage) -> Staged:
        target = at.writable(TABLE)
        names = [f"beside{self.count}-{number}" for number in range(ROWS)]
        values = {"id": names, "slug": names, "age": list(range(ROWS))}
        staged = stage_fragments(
            target.dataset, write_rows(target.dataset, pa.table(values, schema=target.dataset.schema))
        )
        effect = at.exact(target, staged, target.table.row_count + ROWS)
        return at.finish((effect,), frozenset(), Outcome({}))

    def tell(self) -> None:
        print(json.dumps({"waits": self.waits, "writes": self.writes}), flush=True)
        self.waits, self.writes = [], []


def main(uri: str, stop: Path) -> None:
    """The writer's process."""
    writer = _Writer(omnigraph.open(uri))
    with observed(writer.see):
        for _ in range(WARM):
            writer.write()
        writer.waits, writer.writes = [], []
        for _ in range(ALONE):
            writer.write()
        writer.tell()
        while not stop.exists():
            writer.write()
        writer.tell()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
