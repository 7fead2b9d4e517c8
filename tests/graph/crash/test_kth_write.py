"""Kill a writer at the k-th durable call of a three-table commit, for every k, without failpoints.

It is killed before each call, shortly after the call began (while Lance or the store works), and after the last call.
The files after call k and before call k + 1 are identical, so "after k" is "before k + 1".
"""

from __future__ import annotations

import pytest

from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import observe
from tests.graph.crash.scenarios import SCENARIOS
from tests.graph.crash.verdict import Expected, violations

# The durable calls of `load` in order: stage three tables, acquire the lease (delete two objects of the last epoch),
# arm, commit three tables, publish, disarm, release.
EFFECTS = (
    *["dataset.stage"] * 3,
    "object.create",
    *["object.delete"] * 2,
    "object.create",
    *["dataset.commit"] * 3,
    "dataset.stage",
    "dataset.commit",
    "object.delete",
    "object.create",
)
LAST_TABLE = 10
LATE_MS = (0.3, 1.0, 3.0)


def test_durable_calls_of_a_load(killer: Killer) -> None:
    _, effects = killer.trace("load", killer.prepare_graph("load"))
    assert effects == EFFECTS


@pytest.mark.parametrize("k", range(1, len(EFFECTS) + 2))
def test_kill_before_the_kth_call(k: int, killer: Killer) -> None:
    scenario = SCENARIOS["load"]
    location = killer.prepare_graph("load")
    before = observe(location, scenario.environment)
    killer.kill_at_effect("load", location, k)
    state = scenario.after(before) if k > LAST_TABLE else before
    assert violations(location, Expected((state,), scenario.environment)) == []


@pytest.mark.parametrize("late_ms", LATE_MS)
@pytest.mark.parametrize("k", range(1, len(EFFECTS) + 1))
def test_kill_during_the_kth_call(k: int, late_ms: float, killer: Killer) -> None:
    """The exact time is not fixed, so the state is the one before or after the write, never one between."""
    scenario = SCENARIOS["load"]
    location = killer.prepare_graph("load")
    before = observe(location, scenario.environment)
    killer.kill_at_effect("load", location, k, late_ms, may_live=True)
    states = (before, scenario.after(before))
    assert violations(location, Expected(states, scenario.environment)) == []
