"""Methods and commands first recover interrupted writes: a crash on any branch does not make them fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.errors import OmnigraphError, RefusedError
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.maintenance.doctor.findings import Check
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.acts import DEV, EVOLVED
from tests.graph.crash.killer import Killer
from tests.graph.writers import read_contents


def _optimize(graph: Graph) -> None:
    """Run optimize up to its first error after recovery, because a rewrite would start Spark."""
    with pytest.raises(OmnigraphError) as refused:
        graph.optimize(types=("Unknown",))
    assert refused.value.code == "type_missing"


EVERY_BRANCH: Final[dict[str, Callable[[Graph], object]]] = {
    "optimize": _optimize,
    "repair": lambda graph: graph.repair(dry_run=False),
    "cleanup": lambda graph: graph.cleanup(keep=1, dry_run=False),
}
ITS_BRANCH: Final[dict[str, Callable[[Graph], object]]] = {
    "merge": lambda graph: graph.merge("dev"),
    "revert": lambda graph: graph.revert("HEAD"),
    "apply_schema": lambda graph: graph.apply_schema(EVOLVED),
}
PREVIEWS: Final[dict[str, Callable[[Graph], object]]] = {
    "optimize": lambda graph: graph.optimize(dry_run=True),
    "repair": lambda graph: graph.repair(),
    "cleanup": lambda graph: graph.cleanup(keep=1),
}


def _intents(location: Location) -> int:
    return len(ObjectStore(location).list(RECOVERY))


@pytest.mark.parametrize("method", EVERY_BRANCH)
def test_crash_on_another_branch(killer: Killer, method: str) -> None:
    location = killer.prepare_graph("fork")
    before = read_contents(location, DEV)
    killer.kill("fork", location, "commit.before", 2)
    assert _intents(location) == 1
    with pytest.raises(RefusedError) as refused:
        PREVIEWS[method](Graph(location, read_only=True))
    assert refused.value.code == "recovery_pending"
    EVERY_BRANCH[method](Graph(location))
    assert _intents(location) == 0
    assert read_contents(location, DEV) == before


@pytest.mark.parametrize("method", ITS_BRANCH)
def test_crash_on_the_same_branch(killer: Killer, method: str) -> None:
    """All its tables had moved, so recovery finishes the write, and the method reads its rows."""
    location = killer.prepare_graph("fork")
    killer.kill("load", location, "publish.before")
    assert _intents(location) == 1
    ITS_BRANCH[method](Graph(location))
    assert _intents(location) == 0


def test_maintain_recovers_every_branch_and_reports_it(killer: Killer) -> None:
    location = killer.prepare_graph("fork")
    before = read_contents(location, DEV)
    killer.kill("fork", location, "commit.before", 2)
    (pending,) = Graph(location, read_only=True).pending_writes()
    assert pending.intent is not None
    first, second = Graph(location).maintain(), Graph(location).maintain()
    assert Check.RECOVERY in {finding.check for finding in first.problems}
    assert (first.recovered, second.recovered) == ((str(pending.intent.op_id),), ())
    assert Check.RECOVERY not in {finding.check for finding in first.left}
    assert _intents(location) == 0
    assert read_contents(location, DEV) == before
