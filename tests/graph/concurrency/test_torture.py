"""Eight processes write overlapping tables, two of them are killed and restarted at random, and others read."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.recovery.run import RECOVERY_ACTOR, recover_on_open
from omnigraph.storage.location import Location
from tests.graph.concurrency.actors import Actor
from tests.graph.concurrency.checks import EMPTY, linear_history, pending, read_drifted_tables
from tests.graph.concurrency.torturers import WriterLogs, read_logs, read_until, replay, write_until
from tests.graph.writers import create, read_contents, run, triple
from tests.waiting import SECONDS_MAX

WRITERS: Final = 8
VICTIMS: Final = 2
READERS: Final = 2
DEATHS: Final = ("arm.after", "commit.before", "commit.after", "publish.before", "publish.after", "disarm.before")
OTHER_ACTORS: Final = (RECOVERY_ACTOR, "omnigraph:optimize")


@dataclass(slots=True)
class _Processes:
    """The processes of one run."""

    location: Location
    folder: Path
    deadline: float
    stack: ExitStack
    kills: int = 0
    logs: list[Path] = field(default_factory=list)

    def writer(self, name: str, points: str = "") -> Actor:
        log = self.folder / f"{name}.log"
        log.touch()
        self.logs.append(log)
        actor = Actor(write_until, self.location, log, name, self.deadline, points=points)
        return self.stack.enter_context(actor)

    def reader(self) -> Actor:
        return self.stack.enter_context(Actor(read_until, self.location, self.deadline))


def test_eight_writers_of_which_two_are_killed(local_location: Location, tmp_path: Path) -> None:
    _torture(local_location, tmp_path, 8.0)


@pytest.mark.soak
def test_eight_writers_of_which_two_are_killed_for_long(local_location: Location, tmp_path: Path) -> None:
    _torture(local_location, tmp_path, 600.0)


def _torture(location: Location, folder: Path, seconds: float) -> None:
    create(location)
    with ExitStack() as stack:
        processes = _Processes(location, folder, SYSTEM_CLOCK.monotonic() + seconds, stack)
        readers = [processes.reader() for _ in range(READERS)]
        writers = [processes.writer(f"w{index}") for index in range(WRITERS - VICTIMS)]
        _kill_at_random(processes)
        shares = [writer.answer().value for writer in writers]
        seen = [reader.answer().value for reader in readers]
    outcome = read_logs(processes.logs)
    print(  # noqa: T201
        f"\n{processes.kills} kills, {len(outcome.acknowledged)} commits acknowledged of {len(outcome.tried)} tried, "
        f"{len(outcome.errors)} errors, shares of the writers {sorted(shares)}, reads {[n for n, _ in seen]}"
    )
    for reads, partial_reads in seen:
        assert partial_reads == []
        assert reads > 0
    assert processes.kills > 0
    _check(location, outcome)


def _kill_at_random(processes: _Processes) -> None:
    """Kill writers at random times, and half of them at a failpoint of their n-th write, because most only wait."""
    chance = random.Random(7)
    victims: list[Actor] = []
    while SYSTEM_CLOCK.monotonic() < processes.deadline - 2 or not processes.kills:
        while len(victims) < VICTIMS:
            point = chance.choice(DEATHS) if chance.random() < 0.5 else ""
            points = f"{point}@{chance.randint(1, 4)}=kill" if point else ""
            victims.append(processes.writer(f"v{len(processes.logs)}", points))
        SYSTEM_CLOCK.sleep(chance.uniform(0.2, 1.5))
        victims.pop(chance.randrange(VICTIMS)).kill()
        processes.kills += 1
    for victim in victims:
        victim.kill()


def _check(location: Location, outcome: WriterLogs) -> None:
    recover_on_open(location, MAIN, WriteEnvironment(terms=LeaseTerms(wait_seconds=SECONDS_MAX)))
    assert pending(location) == ()
    history = linear_history(location)
    ids = {commit.id for commit in history}
    assert outcome.acknowledged - ids == set(), "acknowledged but missing"
    unexpected_ids = {c.id for c in history[:-1] if c.actor not in OTHER_ACTORS} - set(outcome.tried)
    assert unexpected_ids == set(), "existing but never tried"
    model = replay(history, outcome.tried, EMPTY)
    assert read_contents(location) == model
    run(location, triple(["last"]), environment=WriteEnvironment(terms=LeaseTerms(wait_seconds=0.0)))  # no lock is left
    assert read_drifted_tables(location) == set()
    assert pending(location) == ()
