"""A power cut keeps every acknowledged write, and every other write completely or not at all.

The first test cuts the power directly after the acknowledgement of every writer kind, so it proves that each of them
syncs all required files before. The second test cuts it after every sync of a load, a mutation and a few others, on
both kinds of disk of `power_cut.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from omnigraph.storage.location import Location
from tests.graph.crash.child import Request
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import GraphState, observe
from tests.graph.crash.power_cut import SyncRecording
from tests.graph.crash.scenarios import SCENARIOS
from tests.graph.crash.verdict import Expected, violations

SAMPLE = 6
"""`make test` runs one of this number of power cuts."""
WRITERS = tuple(name for name, definition in SCENARIOS.items() if definition.decided_at is not None and name != "renew")
REPLAYED = ("load", "mutate", "init", "branch_create", "compact", "fork", "merge")


def _record(killer: Killer, scenario: str) -> tuple[Location, GraphState, SyncRecording]:
    location = killer.prepare_graph(scenario)
    before = observe(location, SCENARIOS[scenario].environment)
    target = Path(f"{location.uri}.syncs")
    request = Request(scenario, location.uri, {}, syncs=str(target), durability="sync")
    assert killer.run(request) == 0
    recording = msgspec.msgpack.decode(target.read_bytes(), type=SyncRecording)
    assert recording.syncs
    return location, before, recording


def _violations(scenario: str, location: Location, before: GraphState, *states: GraphState) -> list[str]:
    definition = SCENARIOS[scenario]
    expected = Expected(states, definition.environment, definition.heads_ahead)
    if definition.redo is not None:
        expected = replace(expected, redo=definition.redo.act, redone=definition.redo.after(before))
    return violations(location, expected)


@pytest.mark.parametrize("scenario", WRITERS)
def test_acknowledged_write_survives_a_power_cut(scenario: str, killer: Killer) -> None:
    location, before, recording = _record(killer, scenario)
    definition = SCENARIOS[scenario]
    if definition.concurrent_write is not None:
        before = definition.concurrent_write(before)
    recording.restore(len(recording.syncs), early_names=False)
    assert _violations(scenario, location, before, definition.after(before)) == []


def _cuts(scenario: str, syncs: int, *, every: bool) -> Iterator[tuple[int, bool]]:
    for count in range(syncs):
        for early_names in (False, True):
            name = f"{scenario}-{count}-{early_names}"
            if every or crc32(name.encode()) % SAMPLE == 0:
                yield count, early_names


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize("scenario", REPLAYED)
def test_power_cut_after_every_sync(scenario: str, every: bool, killer: Killer) -> None:
    location, before, recording = _record(killer, scenario)
    after = SCENARIOS[scenario].after(before)
    problems: list[str] = []
    for count, early_names in _cuts(scenario, len(recording.syncs), every=every):
        recording.restore(count, early_names=early_names)
        sentences = _violations(scenario, location, before, before, after)
        problems += [f"after {count} syncs, early names {early_names}: {sentence}" for sentence in sentences]
    assert problems == []
