"""A disk that fails: the k-th write or sync of every writer kind, for every k.

An acknowledged write can be read, a failed write is not visible, the graph opens, and the next write works. Lance
reports success when the last write of a file fails; without the checks of Omnigraph most of these cases publish a
truncated file. Without a C compiler, a limit of the file size is used instead. `make test` runs cases chosen by a hash
of their name, `make soak` all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import pytest

from omnigraph.storage.location import Location
from tests.file_faults import built_library
from tests.graph.crash.child import Faults, Request, WriteOutcome
from tests.graph.crash.killer import Killer, start_killer
from tests.graph.crash.observe import GraphState, observe
from tests.graph.crash.scenarios import SCENARIOS
from tests.graph.crash.verdict import Expected, violations

SAMPLE = 40
"""`make test` runs one of this number of cases."""
WRITERS = tuple(name for name in SCENARIOS if name not in ("cleanup", "renew"))
FILE_BYTES = (1, 64, 400, 600, 900, 1_200, 2_000, 3_000, 5_000)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    with start_killer(tmp_path_factory.mktemp("failing"), built_library()) as made:
        yield made


@dataclass(frozen=True, slots=True)
class PreparedGraph:
    """A prepared graph that can be restored at the same location, because branches have absolute paths."""

    killer: Killer
    scenario: str
    location: Location
    copy: Path
    before: GraphState

    @classmethod
    def prepare(cls, killer: Killer, scenario: str) -> PreparedGraph:
        location = killer.prepare_graph(scenario)
        copy = Path(f"{location.uri}.copy")
        if Path(location.uri).exists():
            shutil.copytree(location.uri, copy)
        return cls(killer, scenario, location, copy, observe(location, SCENARIOS[scenario].environment))

    def run(self, faults: Faults) -> WriteOutcome:
        """Restore the graph, and run the writer with these faults in another process."""
        shutil.rmtree(self.location.uri, ignore_errors=True)
        if self.copy.exists():
            shutil.copytree(self.copy, self.location.uri)
        outcome = self.copy.with_suffix(".outcome")
        request = Request(self.scenario, self.location.uri, {}, faults=faults, outcome=str(outcome), durability="sync")
        assert self.killer.run(request) == 0, "the writer raises only errors of Omnigraph"
        return msgspec.json.decode(outcome.read_bytes(), type=WriteOutcome)

    def violations(self, faults: Faults, outcome: WriteOutcome) -> list[str]:
        """Return the problems of the graph after the writer ended with `outcome`."""
        scenario = SCENARIOS[self.scenario]
        before, after = self.before, scenario.after(self.before)
        if scenario.decided_at is None:
            # The next open recovers the rest; a roll forward that cannot be synced is undone.
            states = [before, after] if faults.sync else [after]
        elif scenario.is_multi_commit or outcome.applied == "unknown":
            states = [before, after]  # a table that fails is reported, and the others are published
        else:
            states = [before] if outcome.code else [after]
        if scenario.concurrent_write is not None:  # the other writer has the same disk
            with_other = scenario.concurrent_write(before)
            states = [*states, with_other, scenario.after(with_other)]
        expected = Expected(tuple(states), scenario.environment, scenario.heads_ahead)
        if scenario.redo is not None:
            expected = replace(expected, redo=scenario.redo.act, redone=scenario.redo.after(before))
        problems = violations(self.location, expected)
        return [f"{faults} ended as {outcome}: {sentence}" for sentence in problems]


KINDS: Final[Mapping[str, Callable[[int], Faults]]] = {
    "one write fails": lambda number: Faults(write=number),
    "the disk stays full": lambda number: Faults(write=number, is_permanent=True),
    "one sync fails": lambda number: Faults(sync=number),
}


def _is_in_sample(scenario: str, kind: str, number: int) -> bool:
    return crc32(f"{scenario}, {kind}, {number}".encode()) % SAMPLE == 0


@pytest.mark.skipif(built_library() is None, reason="a C compiler is required")
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize("scenario", WRITERS)
def test_failing_disk(scenario: str, every: bool, failing: Killer) -> None:
    case = PreparedGraph.prepare(failing, scenario)
    clean = case.run(Faults())
    assert not clean.code, clean
    problems: list[str] = []
    for kind, faults_of in KINDS.items():
        last = clean.syncs if kind == "one sync fails" else clean.writes
        assert last, "the library counts the writes and syncs"
        for number in range(1, last + 1):
            if every or _is_in_sample(scenario, kind, number):
                faults = faults_of(number)
                problems += case.violations(faults, case.run(faults))
    assert problems == []


@pytest.mark.parametrize("scenario", [pytest.param(name, marks=pytest.mark.soak) for name in WRITERS])
def test_file_size_limit(scenario: str, failing: Killer) -> None:
    """A size limit has the effect of a quota and needs no compiler."""
    case = PreparedGraph.prepare(failing, scenario)
    problems: list[str] = []
    for size in FILE_BYTES:
        faults = Faults(file_bytes=size)
        problems += case.violations(faults, case.run(faults))
    assert problems == []
