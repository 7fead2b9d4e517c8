"""Branches and merges: that they cost by what changed, not by how much there is.

What is measured is prepared anew, untimed, before each round: a branch, and on it the rows that will be merged.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, report, sized
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.feed import commit_changes
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.stage import stage_fragments, stage_upsert, write_rows
from omnigraph.storage.location import Location

ROUNDS: Final = sized(9, 3)
FEW: Final = 100
MANY: Final = sized(100_000, 2_000)
SMALL: Final = sized(10_000, 1_000)
LARGE: Final = sized(1_000_000, 20_000)
BRANCHES: Final = sized(1_000, 20)
ALIAS: Final = "node:Person"
SCHEMA: Final = "node Person { slug: String @key  age: I64?  name: String? }\n"
NUMBERS: Final = count(1)

Prepared = Callable[[], object]
"""What is timed, ready to run."""


@dataclass(frozen=True, slots=True)
class People:
    """A graph with one table of so many rows."""

    root: Location
    rows: int

    @classmethod
    def make(cls, place: Path, rows: int) -> People:
        made = cls(omnigraph.init(str(place), SCHEMA).location, rows)
        made.write(range(rows), MAIN, new=True)
        return made

    def write(self, numbers: range, branch: str, *, new: bool = False) -> None:
        """Insert or change the people of these numbers."""
        names = [f"person {number}" for number in numbers]
        age = next(NUMBERS)

        def stage(at: StagingArea) -> StagedWrite:
            target = at.writable(ALIAS)
            columns = {"id": names, "slug": names, "age": [age] * len(names), "name": names}
            rows = pa.table(columns, schema=target.dataset.schema)
            staged = (
                stage_fragments(target.dataset, write_rows(target.dataset, rows))
                if new
                else stage_upsert(target.dataset, rows)
            )
            size = target.table.row_count + (len(names) if new else 0)
            return at.finish((at.transaction_effect(target, staged, size),), frozenset(), Outcome({}))

        assert write(self.root, branch, WriteRequest(WriterKind.LOAD, "bench", stage)) is not None

    def merge(self, size: int, *, diverged: bool = False) -> Prepared:
        """A branch with so many changed rows, to be merged into main, which changed as many others or none."""
        name = f"b{next(NUMBERS)}"
        create_branch(self.root, name, "bench", read_snapshot(self.root))
        self.write(range(size), name)
        if diverged:
            self.write(range(size, 2 * size), MAIN)
        return lambda: merge_branch(self.root, MergeRequest(name, "bench"))

    def load(self, size: int) -> Prepared:
        """The same rows, written to main by Lance's own upsert."""
        return lambda: self.write(range(size), MAIN)

    def changes(self, size: int) -> Prepared:
        """A commit of so many changed rows, to be shown."""
        self.write(range(size), MAIN)
        newest = read_snapshot(self.root)
        commit = newest.manifest.find_commit(newest.head)
        assert commit is not None
        return lambda: list(commit_changes(newest, commit))

    def touch(self) -> None:
        """One more version of the manifest, as making a branch leaves one, without a branch."""
        main = read_snapshot(self.root).branch
        publish(PublishTarget(self.root, main.name, main.id, main.lance_branch), ManifestChange())

    def branch(self) -> Prepared:
        name = f"b{next(NUMBERS)}"
        return lambda: create_branch(self.root, name, "bench", read_snapshot(self.root))


def make_tables(place: Path, tables: int, rows: int) -> People:
    """A graph with so many tables, and so many rows in all of them together."""
    types = "".join(f"node T{number} {{ x: String @key }}\n" for number in range(tables))
    root = omnigraph.init(str(place), types).location
    names = [f"thing {number}" for number in range(rows // tables)]

    def stage(at: StagingArea) -> StagedWrite:
        effects = []
        for number in range(tables):
            target = at.writable(f"node:T{number}")
            filled = pa.table({"id": names, "x": names}, schema=target.dataset.schema)
            effects.append(
                at.transaction_effect(
                    target, stage_fragments(target.dataset, write_rows(target.dataset, filled)), len(names)
                )
            )
        return at.finish(tuple(effects), frozenset(), Outcome({}))

    assert write(root, MAIN, WriteRequest(WriterKind.LOAD, "bench", stage)) is not None
    return People(root, rows)


def run(folder: Path, large: int = LARGE, many: int = MANY, branches: int = BRANCHES) -> list[Ratio]:
    """The ratios of branches and merges."""
    small, big = People.make(folder / "small.omni", SMALL), People.make(folder / "big.omni", large)
    wide = make_tables(folder / "wide.omni", 200, large)
    narrow = make_tables(folder / "narrow.omni", 5, 1_000)
    lonely = People.make(folder / "lonely.omni", SMALL)
    crowded = People.make(folder / "crowded.omni", SMALL)
    for _ in range(branches):
        crowded.branch()()
        lonely.touch()
    few = prepared_medians({"large": lambda: big.merge(FEW), "small": lambda: small.merge(FEW)})
    both = {
        name: lambda graph=graph: graph.merge(FEW, diverged=True)
        for name, graph in (("large", big), ("small", small))
    }
    diverged = prepared_medians(both)
    shown = prepared_medians({"large": lambda: big.changes(FEW), "small": lambda: small.changes(FEW)})
    created = prepared_medians({"200 tables": wide.branch, "5 tables": narrow.branch})
    beside = prepared_medians({"crowded": lambda: crowded.load(FEW), "lonely": lambda: lonely.load(FEW)})
    bulk = prepared_medians({"merge": lambda: big.merge(many), "upsert": lambda: big.load(many)}, rounds=3)
    return [
        compare(f"merge {FEW} rows: {large:,} over {SMALL:,}", few, ("large", "small"), 2.0),
        compare(f"merge {FEW} rows, both sides: {large:,} over {SMALL:,}", diverged, ("large", "small"), 2.0),
        compare(f"changes of {FEW} rows: {large:,} over {SMALL:,}", shown, ("large", "small"), 2.0),
        compare(
            f"create a branch: 200 tables, {large:,} rows over 5", created, ("200 tables", "5 tables"), 1.5
        ),
        compare(f"commit beside {branches:,} branches", beside, ("crowded", "lonely"), 1.2),
        compare(f"merge {many:,} rows over an upsert", bulk, ("merge", "upsert"), 3.0),
    ]


def prepared_medians(actions: Mapping[str, Callable[[], Prepared]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median time of each action, prepared anew for every round; the first round is to warm up."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, prepare in actions.items():
            action = prepare()
            started = perf_counter()
            action()
            times[name].append(perf_counter() - started)
    return {name: median(found[1:]) for name, found in times.items()}


def main() -> bool:
    """Run and report."""
    folder = Path(tempfile.mkdtemp(prefix="bench-merge-"))
    try:
        return report("merge", run(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
