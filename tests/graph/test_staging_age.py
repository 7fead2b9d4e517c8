"""The age of a staged write counts from its first file, also if the write is staged again."""

from __future__ import annotations

import pytest

from omnigraph.base import limits
from omnigraph.base.clock import SystemClock
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.write.check import StagingTooOldError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, read_contents, run, stage_changes


class _AdvancingClock(SystemClock):
    """The time of the machine, plus the seconds that the test adds."""

    advanced_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.advanced_seconds


@pytest.mark.parametrize("with_concurrent_commit", [False, True], ids=["alone", "staged again"])
def test_write_that_stages_for_too_long_is_an_error(local_location: Location, with_concurrent_commit: bool) -> None:
    create(local_location)
    clock = _AdvancingClock()
    changes = stage_changes([Change(PERSON, insert=("late",))])

    def stage(area: StagingArea) -> StagedWrite:
        staged = changes(area)
        clock.advanced_seconds = limits.STAGING_AGE_SECONDS_MAX + 1
        if with_concurrent_commit:
            run(local_location, [Change(PERSON, insert=("other",))])
        return staged

    request = WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage, restage=lambda area, _: changes(area))
    with pytest.raises(StagingTooOldError):
        write(local_location, "main", request, WriteEnvironment(clock=clock))
    assert "late" not in read_contents(local_location)[PERSON]
