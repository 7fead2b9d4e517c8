"""Graphs whose files get old quickly, and cleanups of them, for the tests of cleanup.

The store reports the age of a file. So a test moves its own clock and gives every new file the time of that clock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.base.clock import SystemClock
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.layout import LOCKS
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.snapshot import make_snapshot, read_snapshot
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.files import list_files
from omnigraph.storage.location import Location
from tests.graph.writers import Contents, snapshot_contents

SECOND_US: Final = 1_000_000
MINUTE: Final = 60.0
DAY: Final = 24 * 3600.0
START: Final = 1_700_000_000.0


@dataclass(slots=True)
class Calendar:
    """A clock that moves only when a test or `sleep` moves it."""

    seconds: float = START

    def now_us(self) -> int:
        return int(self.seconds * SECOND_US)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(slots=True)
class LeaseClock:
    """A clock whose `sleep` returns immediately and moves it far ahead, so that no renewal runs during a test."""

    seconds: float = 0.0

    def now_us(self) -> int:
        return int(self.seconds * SECOND_US)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += 1_000 * seconds


class TomorrowClock(SystemClock):
    """The system clock, a day ahead: every existing file is old."""

    def now_us(self) -> int:
        return super().now_us() + int(DAY * SECOND_US)


@dataclass(frozen=True, slots=True)
class Place:
    """A graph to clean up."""

    location: Location


@dataclass(slots=True)
class Aging:
    """A local graph whose files have the times of a calendar."""

    location: Location
    clock: Calendar = field(default_factory=Calendar)
    leases: LeaseClock = field(default_factory=LeaseClock)

    @property
    def environment(self) -> WriteEnvironment:
        terms = LeaseTerms(lease_seconds=60.0, wait_seconds=600.0, clock=self.leases, jitter=lambda: 0.5)
        return WriteEnvironment(clock=self.clock, jitter=lambda: 0.5, terms=terms)

    def later(self, seconds: float) -> None:
        """Give new files the time of the clock, then move the clock."""
        now = self.clock.seconds
        for file in list_files(self.location):
            if file.modified_us > self.clock.now_us():  # a time of the system clock, years ahead
                os.utime(Path(self.location.uri, file.path), (now, now))
        self.clock.seconds += seconds

    def preview(self, options: CleanupPolicyOptions) -> list[TableCleanupStats]:
        self.later(0)
        return cleanup_all_tables(Place(self.location), options, environment=self.environment)

    def files(self, *, locks: bool = False) -> set[str]:
        return {file.path for file in list_files(self.location) if locks or not file.path.startswith(f"{LOCKS}/")}


def files_of(rows: list[TableCleanupStats]) -> list[str]:
    """Return every file of the rows."""
    return [file for row in rows for file in row.files]


def errors_of(rows: list[TableCleanupStats]) -> dict[str, str]:
    return {row.table_key: row.error for row in rows if row.error is not None}


def every_snapshot(location: Location) -> dict[tuple[str, int], Contents]:
    """Return the contents of every manifest version of every live branch, by branch and version."""
    contents = {}
    main = read_snapshot(location)
    for name, record in main.state.branches.items():
        for version in open_manifest(location, lance_branch=record.lance_branch).dataset.versions():
            manifest = open_manifest(location, lance_branch=record.lance_branch, version=version)
            snapshot = make_snapshot(location, record, manifest, manifest.read_state(), main.identities)
            contents[name, version] = snapshot_contents(snapshot)
    return contents
