"""Forks of a write that fails before it is armed are deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseBusyError, LeaseTerms, hold_lease
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import PERSON, Change, create, stage_changes


@pytest.mark.parametrize("is_graph_lease", [True, False])
def test_no_fork_is_left_if_a_lease_is_busy(is_graph_lease: bool, local_location: Location) -> None:
    create(local_location)
    branch = create_branch(local_location, "dev", "tester", read_snapshot(local_location))
    forks: list[str] = []

    def stage(area: StagingArea) -> StagedWrite:
        staged = stage_changes([Change(PERSON, insert=("a",))])(area)
        forks.extend(path.name for path in _lance_branches(local_location))
        return replace(staged, counter_catalog=area.snapshot.schema.catalog)

    request = WriteRequest(kind=WriteOperation.MUTATE, actor="tester", stage=stage)
    environment = WriteEnvironment(terms=LeaseTerms(wait_seconds=0))
    with (
        hold_lease(ObjectStore(local_location), None if is_graph_lease else branch.id, "other"),
        pytest.raises(LeaseBusyError),
    ):
        write(local_location, "dev", request, environment)
    assert len(forks) == 1
    assert _lance_branches(local_location) == []


def _lance_branches(location: Location) -> list[Path]:
    return list(Path(location.uri).glob("nodes/*/tree/*"))
