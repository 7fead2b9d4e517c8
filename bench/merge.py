"""Measures branches and merges: their cost must grow with the change, not with the size of the graph.

Before each round the input is prepared, outside the measured time: a branch with the rows to merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, sized
from bench.writes import commit_rows
from omnigraph.graph.branches import create_branch
from omnigraph.graph.feed import read_commit_diff
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.stage import stage_fragments, write_rows
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
"""The measured action."""


@dataclass(frozen=True, slots=True)
class People:
    """A graph with one table of `rows` rows."""

    root: Location
    rows: int

    @classmethod
    def make(cls, path: Path, rows: int) -> People:
        people = cls(omnigraph.init(str(path), SCHEMA).location, rows)
        people.write(range(rows), MAIN, new=True)
        return people

    def write(self, numbers: range, branch: str, *, new: bool = False) -> None:
        """Insert or update the people with these numbers."""
        names = [f"person {number}" for number in numbers]
        rows = pa.table({"id": names, "slug": names, "age": [next(NUMBERS)] * len(names), "name": names})
        commit_rows(self.root, ALIAS, rows, mode="append" if new else "upsert", branch=branch)

    def merge(self, size: int, *, diverged: bool = False) -> Prepared:
        """Create a branch with `size` updated rows; return its merge into main, which may have updated other rows."""
        name = f"b{next(NUMBERS)}"
        create_branch(self.root, name, "bench", read_snapshot(self.root))
        self.write(range(size), name)
        if diverged:
            self.write(range(size, 2 * size), MAIN)
        return lambda: merge_branch(self.root, MergeRequest(source=name, actor="bench"))

    def load(self, size: int) -> Prepared:
        """Return an upsert of the same rows to main."""
        return lambda: self.write(range(size), MAIN)

    def changes(self, size: int) -> Prepared:
        """Commit `size` updated rows; return the action that reads the changes of the commit."""
        self.write(range(size), MAIN)
        head = read_snapshot(self.root).head
        return lambda: list(read_commit_diff(self.root, MAIN, head))

    def touch(self) -> None:
        """Add a version of the manifest, as the creation of a branch does, without a branch."""
        main = read_snapshot(self.root).branch
        publish(PublishTarget(self.root, main.name, main.id, main.lance_branch), ManifestChange())

    def branch(self) -> Prepared:
        name = f"b{next(NUMBERS)}"
        return lambda: create_branch(self.root, name, "bench", read_snapshot(self.root))


def make_tables(path: Path, tables: int, rows: int) -> People:
    """Create a graph with `tables` tables, and `rows` rows in total."""
    types = "".join(f"node T{number} {{ x: String @key }}\n" for number in range(tables))
    root = omnigraph.init(str(path), types).location
    names = [f"thing {number}" for number in range(rows // tables)]

    def stage(area: StagingArea) -> StagedWrite:
        effects = []
        for number in range(tables):
            target = area.open_for_write(f"node:T{number}")
            filled = pa.table({"id": names, "x": names}, schema=target.dataset.schema)
            effects.append(
                area.transaction_effect(
                    target, stage_fragments(target.dataset, write_rows(target.dataset, filled)), len(names)
                )
            )
        return area.finish(tuple(effects), frozenset(), {})

    assert write(root, MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="bench", stage=stage)) is not None
    return People(root, rows)


def run(folder: Path, large: int = LARGE, many: int = MANY, branches: int = BRANCHES) -> list[Ratio]:
    """Return the ratios of branches and merges."""
    small, big = People.make(folder / "small.omni", SMALL), People.make(folder / "big.omni", large)
    wide = make_tables(folder / "wide.omni", 200, large)
    narrow = make_tables(folder / "narrow.omni", 5, 1_000)
    no_branches = People.make(folder / "no-branches.omni", SMALL)
    many_branches = People.make(folder / "many-branches.omni", SMALL)
    for _ in range(branches):
        many_branches.branch()()
        no_branches.touch()
    few = prepared_medians({"large": lambda: big.merge(FEW), "small": lambda: small.merge(FEW)})
    both = {
        name: lambda graph=graph: graph.merge(FEW, diverged=True) for name, graph in (("large", big), ("small", small))
    }
    diverged = prepared_medians(both)
    plotted_ratios = prepared_medians({"large": lambda: big.changes(FEW), "small": lambda: small.changes(FEW)})
    created = prepared_medians({"200 tables": wide.branch, "5 tables": narrow.branch})
    commits = prepared_medians(
        {"many branches": lambda: many_branches.load(FEW), "no branches": lambda: no_branches.load(FEW)}
    )
    bulk = prepared_medians({"merge": lambda: big.merge(many), "upsert": lambda: big.load(many)}, rounds=3)
    return [
        compare(f"merge {FEW} rows: {large:,} over {SMALL:,}", few, ("large", "small"), 2.0),
        compare(f"merge {FEW} rows, both sides: {large:,} over {SMALL:,}", diverged, ("large", "small"), 2.0),
        compare(f"changes of {FEW} rows: {large:,} over {SMALL:,}", plotted_ratios, ("large", "small"), 2.0),
        compare(f"create a branch: 200 tables, {large:,} rows over 5", created, ("200 tables", "5 tables"), 1.5),
        compare(f"commit with {branches:,} branches", commits, ("many branches", "no branches"), 1.2),
        compare(f"merge {many:,} rows over an upsert", bulk, ("merge", "upsert"), 3.0),
    ]


def prepared_medians(actions: Mapping[str, Callable[[], Prepared]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median time of each action, prepared again for each round, after one warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, prepare in actions.items():
            action = prepare()
            started = perf_counter()
            action()
            times[name].append(perf_counter() - started)
    return {name: median(seconds[1:]) for name, seconds in times.items()}
