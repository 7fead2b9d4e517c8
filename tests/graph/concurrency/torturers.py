"""The processes of the torture test: writers that log their attempts and results, and readers.

A log line is on disk before the writer continues. `try` is written while staging and names the commit, so that the
commit of a killed writer can be matched with its changes. `ack` is written after the acknowledgement.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import ErrorKind, OmnigraphError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms, acquire_lease
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import KNOWS, PERSON, TABLES, Change, Contents, apply, run_compaction, stage_changes, triple
from tests.waiting import wait_until

ROWS_MAX: Final = 5
LEASE_SECONDS: Final = 10.0


class Line(msgspec.Struct, frozen=True):
    """A line of the log of a writer."""

    what: str
    commit: str
    changes: tuple[Change, ...] = ()
    detail: str = ""


class WriterLogs(msgspec.Struct, frozen=True):
    """The contents of the logs of all writers."""

    tried: dict[str, tuple[Change, ...]]
    acknowledged: set[str]
    errors: list[str]


def write_until(location: Location, log: Path, name: str, deadline: float) -> int:
    """Write at random until the deadline, and at least once; each writer has its own rows in the common tables.

    Return the number of acknowledged writes.
    """
    chance = random.Random(name)
    environment = WriteEnvironment(terms=LeaseTerms(lease_seconds=LEASE_SECONDS))
    mine: list[str] = []
    acknowledged = 0
    with log.open("a", encoding="utf-8") as out:
        while SYSTEM_CLOCK.monotonic() < deadline or not acknowledged:
            changes = _choose(chance, mine, f"{name}-{acknowledged}-{chance.getrandbits(40):x}")
            try:
                commit = _write_logged(location, changes, out, environment)
            except OmnigraphError as error:
                _log(out, Line("error", "", changes, f"{error.code} {error.applied}: {error.message}"))
                if error.kind not in (ErrorKind.CONFLICT, ErrorKind.UNAVAILABLE):
                    raise
                mine.clear()  # the existing rows are unknown after an error
                continue
            _log(out, Line("ack", commit))
            acknowledged += 1
            _remember(mine, changes)
            if chance.random() < 0.04:
                _compact(location, chance, environment)
    return acknowledged


def read_until(location: Location, deadline: float) -> tuple[int, list[str]]:
    """Read snapshots until the deadline, and at least one; return their number, and those with a partial commit."""
    reads, partial_reads = 0, []
    while SYSTEM_CLOCK.monotonic() < deadline or not reads:
        snapshot = read_snapshot(location)
        published_counts = {alias: table.row_count for alias, table in snapshot.tables.items()}
        row_counts = {}
        for alias, table in snapshot.tables.items():
            dataset = open_dataset(location.child(table.path), branch=table.pin.branch, version=table.pin.version)
            row_counts[alias] = dataset.count_rows()
        if len(set(row_counts.values())) != 1 or published_counts != row_counts:
            partial_reads.append(f"version {snapshot.version}: {published_counts} published, {row_counts} read")
        reads += 1
    return reads, partial_reads


def acquire_repeatedly(location: Location, done: Path, processes: int, share: int) -> int:
    """Acquire and release one lease until every process has had it `share` times; return the number of leases."""
    store, count = ObjectStore(location), 0
    (done / f"{os.getpid()}.started").touch()
    wait_until(lambda: len(list(done.glob("*.started"))) == processes, "all have started")
    while len(list(done.glob("*.done"))) < processes:
        lease = acquire_lease(store, None, "contend")
        SYSTEM_CLOCK.sleep(0.002)
        lease.hold()
        lease.release()
        count += 1
        if count == share:
            (done / f"{os.getpid()}.done").touch()
    return count


def read_logs(logs: Iterable[Path]) -> WriterLogs:
    """Read all logs. An incomplete last line of a killed writer is skipped."""
    outcome = WriterLogs({}, set(), [])
    for log in logs:
        for text in log.read_bytes().split(b"\n")[:-1]:
            line = msgspec.json.decode(text, type=Line)
            match line.what:
                case "try":
                    outcome.tried[line.commit] = line.changes
                case "ack":
                    outcome.acknowledged.add(line.commit)
                case _:
                    outcome.errors.append(line.detail)
    return outcome


def replay(history: Sequence[Any], tried: dict[str, tuple[Change, ...]], start: Contents) -> Contents:
    """Return the contents of the model after the commits of a history, newest first, applied to `start`."""
    contents = start
    for commit in reversed(history):
        contents = apply(contents, tried.get(commit.id, ()))
    return contents


def _write_logged(location: Location, changes: tuple[Change, ...], out: TextIO, environment: WriteEnvironment) -> str:
    stage_all = stage_changes(changes)

    def stage(area: StagingArea) -> StagedWrite:
        staged = stage_all(area)
        _log(out, Line("try", area.commit, changes))
        return staged

    request = WriteRequest(
        kind=WriteOperation.LOAD, actor="torturer", stage=stage, restage=lambda again, _: stage(again)
    )
    commit = write(location, MAIN, request, environment)
    assert commit is not None
    return commit.id


def _choose(chance: random.Random, mine: list[str], fresh: str) -> tuple[Change, ...]:
    dice = chance.random()
    if dice < 0.2 and len(mine) > 3:
        deleted_ids = tuple(chance.sample(mine, 2))
        return tuple(Change(alias, delete=deleted_ids) for alias in TABLES)
    if dice < 0.5 and mine:
        chosen = tuple((name, chance.randrange(1000)) for name in chance.sample(mine, 1))
        return (Change(PERSON, upsert=chosen), Change(KNOWS, upsert=chosen))[: chance.randint(1, 2)]
    return triple(f"{fresh}-{index}" for index in range(chance.randint(1, ROWS_MAX)))


def _remember(mine: list[str], changes: tuple[Change, ...]) -> None:
    first = changes[0]
    mine += first.insert
    for name in first.delete:
        mine.remove(name)


def _compact(location: Location, chance: random.Random, environment: WriteEnvironment) -> None:
    try:
        run_compaction(location, chance.sample(TABLES, 2), environment)
    except OmnigraphError as error:
        if error.kind is not ErrorKind.CONFLICT:
            raise


def _log(out: TextIO, line: Line) -> None:
    out.write(msgspec.json.encode(line).decode() + "\n")
    out.flush()
    os.fsync(out.fileno())
