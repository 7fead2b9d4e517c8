"""Optimize in a loop next to processes that append, update and delete: contents always match the model."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions, SkipReason
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.storage.lance.indexes import read_indexes
from omnigraph.storage.location import Location
from tests.graph.concurrency.actors import Actor
from tests.graph.concurrency.checks import EMPTY, linear_history, pending, read_drifted_tables
from tests.graph.concurrency.torturers import read_logs, replay, write_until
from tests.graph.writers import PERSON, create, snapshot_contents
from tests.maintenance.graphs import count_scanned, in_place, open_table

WRITERS: Final = 4


def test_contents_match_the_model_while_writers_run(local_location: Location, tmp_path: Path) -> None:
    _run(local_location, tmp_path, 6.0)


@pytest.mark.soak
def test_contents_match_the_model_while_writers_run_for_a_minute(local_location: Location, tmp_path: Path) -> None:
    _run(local_location, tmp_path, 60.0)


def _run(location: Location, folder: Path, seconds: float) -> None:
    create(location)
    logs = [folder / f"w{number}.log" for number in range(WRITERS)]
    with Actor(os.getpid) as first:
        first.answer()  # the server of all actors has imported everything, so later actors start fast
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    commits, conflicts, checkpoints = 0, 0, 0
    with ExitStack() as stack:
        writers = [stack.enter_context(Actor(write_until, location, log, log.stem, deadline)) for log in logs]
        while SYSTEM_CLOCK.monotonic() < deadline or not commits:
            rows = optimize_all_tables(Graph(location), OptimizeOptions(), in_place)
            assert [row.error for row in rows if row.error is not None] == []
            assert {row.skipped for row in rows} <= {None, SkipReason.CONFLICTING_WRITES}
            conflicts += any(row.skipped for row in rows)
            commits += any(row.committed for row in rows)
            _check(read_snapshot(location), logs)
            checkpoints += 1
        shares = [writer.answer().value for writer in writers]
    print(  # noqa: T201
        f"\n{checkpoints} runs of optimize, {commits} with a commit, {conflicts} with a conflict; writers {shares}"
    )
    assert commits > 0
    assert min(shares) > 0, "every writer commits"
    assert read_logs(logs).acknowledged <= {commit.id for commit in linear_history(location)}
    _check(read_snapshot(location), logs)
    optimize_all_tables(Graph(location), OptimizeOptions(), in_place)
    _check(read_snapshot(location), logs)
    assert read_indexes(open_table(location, PERSON))
    assert pending(location) == ()
    assert read_drifted_tables(location) == set()


def _check(snapshot: Snapshot, logs: list[Path]) -> None:
    """Check that the rows are those of the commits so far, and that indexes find them."""
    history = tuple(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    model = replay(history, read_logs(log for log in logs if log.exists()).tried, EMPTY)
    assert snapshot_contents(snapshot) == model
    dataset = open_table(snapshot.root, PERSON)
    for name in list(dataset.read(["id"])["id"].to_pylist())[::50]:
        assert dataset.count_rows(f"id = '{name}'") == count_scanned(dataset, f"id = '{name}'") == 1
