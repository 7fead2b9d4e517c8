"""Optimize next to writers that update, delete and append while it works: every row keeps the value that they wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.api.graph import Graph, init
from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.maintenance.optimize.indexes import build_segments
from omnigraph.maintenance.optimize.options import OptimizeOptions, TableOptimizeStats
from omnigraph.maintenance.optimize.rewrite import rewrite_group
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import describe_fragments
from omnigraph.storage.lance.row_changes import row_changes
from omnigraph.storage.location import Location, parse_location
from tests.graph.concurrency.actors import Actor
from tests.graph.concurrency.jobs import update_until
from tests.graph.writers import PERSON, Change, Rows, apply, create, read_contents, run
from tests.maintenance.graphs import Result, Task, count_scanned, in_place, open_table
from tests.waiting import wait_until

SCHEMA: Final = "node Person { slug: String @key  note: String? @index  age: I64? @index }"
COMMITS: Final = 5
Step = tuple[str, int, int]
"""The operation, the first row, and the number of rows."""

steps = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 40), st.integers(1, 9)), max_size=4
)


@dataclass(slots=True)
class ConcurrentGraph:
    """A graph, the model of its one table, and what other writers do to both during a run."""

    location: Location
    rows: Rows = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))

    def write(self, todo: Sequence[Step]) -> None:
        for what, first, count in todo:
            present = sorted(self.rows)
            chosen = [present[(first + offset) % len(present)] for offset in range(min(count, len(present)))]
            if what == "insert" or not chosen:
                change = Change(PERSON, insert=tuple(f"p{next(self.counter):05d}" for _ in range(count)))
            elif what == "update":
                change = Change(PERSON, upsert=tuple((name, next(self.counter)) for name in chosen))
            else:
                change = Change(PERSON, delete=tuple(chosen))
            assert run(self.location, [change]) is not None
            self.rows = apply({PERSON: self.rows}, [change])[PERSON]

    def optimize(self, during: Callable[[str], None]) -> TableOptimizeStats:
        """Run optimize while others write after the rewrite, after the indexes are built, and immediately before the
        lease, when the run has read their earlier changes.
        """
        waiting = ["lease"]
        is_alone = True

        def write(stage: str) -> None:
            nonlocal is_alone
            is_alone = False  # a lease of another writer
            during(stage)
            is_alone = True

        def tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
            results = in_place(function, tasks)
            for interrupted in (rewrite_group, build_segments):
                if function is interrupted:
                    write(interrupted.__name__)
            return results

        def observe(effect: str, target: str) -> None:
            if effect == "object.create" and target.startswith("__locks/") and is_alone and waiting:
                write(waiting.pop())

        with observed(observe):
            table, *_ = optimize_all_tables(Graph(self.location), OptimizeOptions(rows_per_task=25), tasks)
        return table


def identities(location: Location) -> list[Any]:
    """Return every row with its row id and the versions that created and changed it."""
    columns = ["id", "age", "note", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = open_table(location, PERSON).native.scanner(columns=columns, with_row_id=True).to_table()
    return list(rows.sort_by("id").to_pylist())


@settings(max_examples=12, deadline=None)
@given(steps, steps, steps, steps)
def test_rows_match_the_model(before: list[Step], rewritten: list[Step], built: list[Step], leased: list[Step]) -> None:
    _check_rows(before, {"rewrite_group": rewritten, "build_segments": built, "lease": leased})


@pytest.mark.soak
@settings(max_examples=200, deadline=None)
@given(steps, steps, steps, steps)
def test_rows_match_the_model_in_many_cases(
    before: list[Step], rewritten: list[Step], built: list[Step], leased: list[Step]
) -> None:
    _check_rows(before, {"rewrite_group": rewritten, "build_segments": built, "lease": leased})


def _check_rows(before: list[Step], during: dict[str, list[Step]]) -> None:
    with TemporaryDirectory() as folder:
        graph = ConcurrentGraph(parse_location(f"{folder}/graph.omni"))
        init(graph.location.uri, SCHEMA, storage_options={}, actor="tester")
        graph.write([("insert", 0, 9), ("insert", 0, 9), *before])
        names = set(graph.rows)
        row = graph.optimize(lambda stage: graph.write(during.pop(stage, [])))
        assert row.error is None
        expected = graph.rows
        assert read_contents(graph.location)[PERSON] == expected
        table = open_table(graph.location, PERSON)
        for name in names | set(expected):
            assert count_scanned(table, f"id = '{name}'") == table.count_rows(f"id = '{name}'") == (name in expected)
            words = table.native.to_table(full_text_query=name).num_rows if row.indexes_built else (name in expected)
            assert words == (name in expected)
        remaining = identities(graph.location)
        optimize_all_tables(Graph(graph.location), OptimizeOptions(), in_place)
        assert identities(graph.location) == remaining
        assert read_contents(graph.location)[PERSON] == expected


def test_identities_and_versions_of_rows_survive(local_location: Location) -> None:
    """Also for rows that were updated between the rewrite and its commit."""
    init(local_location.uri, SCHEMA, storage_options={}, actor="tester")
    graph = ConcurrentGraph(local_location)
    graph.write([("insert", 0, 9)] * 6 + [("update", 3, 5), ("delete", 20, 4)])
    first = open_table(local_location, PERSON)
    remaining: list[Any] = []
    tables: list[Dataset] = []

    def during(_: str) -> None:
        graph.write([("update", 2, 4), ("delete", 12, 3), ("insert", 0, 2), ("update", 2, 1)])
        remaining[:] = identities(local_location)
        tables[:] = [open_table(local_location, PERSON)]

    row = graph.optimize(during)
    assert (row.committed, row.skipped) == (True, None)
    assert identities(local_location) == remaining
    assert {row["id"]: row["age"] for row in remaining} == graph.rows
    now = open_table(local_location, PERSON)
    assert len(row_changes(tables[0], now).ids()) == 0, "the run itself changed no row"
    changed = [set(row_changes(first, table).ids().to_pylist()) for table in (tables[0], now)]
    assert changed[0] == changed[1] != set()


def test_next_to_a_process_that_updates_continuously(local_location: Location, tmp_path: Path) -> None:
    """One attempt is enough, and the last values of the writer are kept."""
    create(local_location)
    names = [f"p{number}" for number in range(12)]
    for name in names:
        run(local_location, [Change(PERSON, insert=(name, f"{name}x", f"{name}y"))])
    rewrites: list[int] = []

    def version() -> int:
        return read_snapshot(local_location).tables[PERSON].pin.version

    def tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = in_place(function, tasks)
        rewrites.extend([len(tasks)] if function is rewrite_group else [])
        goal = version() + COMMITS
        wait_until(lambda: version() >= goal, "the writer continues")
        return results

    def small_fragments() -> int:
        fragments = describe_fragments(open_table(local_location, PERSON))
        return sum(fragment.rows + fragment.deleted_rows <= 3 for fragment in fragments.values())

    stop = tmp_path / "stop"
    with Actor(update_until, local_location, names, stop) as writer:
        wait_until(lambda: version() > len(names) + COMMITS, "the writer has begun")
        before = small_fragments()
        rows = optimize_all_tables(Graph(local_location), OptimizeOptions(), tasks)
        stop.touch()
        written = writer.answer().value
    (row,) = [row for row in rows if row.table_key == PERSON]
    assert (row.committed, row.skipped, row.error) == (True, None, None)
    assert len(rewrites) == 1
    assert row.fragments_removed > row.fragments_added == 1
    assert before > 1
    contents = read_contents(local_location)[PERSON]
    assert len(contents) == 3 * len(names)
    assert {name: contents[name] for name in written} == written
