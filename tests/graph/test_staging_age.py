"""A staging is as old as its first file: a write that stages for days fails, also if it is staged again."""

from __future__ import annotations

import pytest

from omnigraph.base import limits
from omnigraph.base.clock import SystemClock
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.write.check import StagingTooOldError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, read_contents, run, stage_changes


class _Ahead(SystemClock):
    """The time of the machine, plus the time that the test lets pass."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


@pytest.mark.parametrize("moved", [False, True], ids=["alone", "staged again"])
def test_write_that_stages_for_too_long_is_an_error(local_location: Location, moved: bool) -> None:
    create(local_location)
    clock = _Ahead()
    changes = stage_changes([Change(PERSON, insert=("late",))])

    def stage(area: StagingArea) -> StagedWrite:
        staged = changes(area)
        clock.passed = limits.STAGING_AGE_SECONDS_MAX + 1
        if moved:
            run(local_location, [Change(PERSON, insert=("other",))])
        return staged

    request = WriteRequest(WriterKind.LOAD, "tester", stage, lambda area, _: changes(area))
    with pytest.raises(StagingTooOldError):
        write(local_location, "main", request, WriteEnvironment(clock=clock))
    assert "late" not in read_contents(local_location)[PERSON]
