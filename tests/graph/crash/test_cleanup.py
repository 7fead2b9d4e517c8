"""The next cleanup finishes a cleanup that was killed at any step: it deletes all deletable files."""

from __future__ import annotations

import pytest

from omnigraph.base import limits
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.files import list_files
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.graph.crash.killer import Killer
from tests.graph.crash.scenarios import SCENARIOS
from tests.graph.crash.traces import read_traces
from tests.graph.writers import read_contents
from tests.maintenance.cleaning import Place, TomorrowClock, errors_of, every_snapshot, files_of

CELLS = [cell for cell in read_traces()["cleanup"] if cell.startswith("cleanup.delete")]
EXAMPLES = CELLS[:: len(CELLS) // 4]
FENCE_CELLS = [cell for cell in read_traces()["cleanup"] if cell.startswith("cleanup.fence")]


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=() if cell in EXAMPLES else (pytest.mark.soak,)) for cell in CELLS]
)
def test_next_cleanup_finishes_a_killed_cleanup(cell: str, killer: Killer) -> None:
    _check_next_cleanup(cell, killer, killer.prepare_graph("cleanup"))


@pytest.mark.soak
@pytest.mark.parametrize("cell", [*EXAMPLES, *FENCE_CELLS])
def test_next_cleanup_finishes_a_killed_cleanup_on_s3(cell: str, killer: Killer, s3_server: S3Server) -> None:
    location = s3_server.location(f"crash/cleanup/{cell.replace('@', '-')}.omni")
    SCENARIOS["cleanup"].prepare(location, killer.kill)
    _check_next_cleanup(cell, killer, location)


def _check_next_cleanup(cell: str, killer: Killer, location: Location) -> None:
    expected = read_contents(location)
    point, _, hit = cell.partition("@")
    killer.kill("cleanup", location, point, int(hit))
    assert set(map(str, every_snapshot(location).values())), "the remaining snapshots are readable"
    environment = WriteEnvironment(clock=TomorrowClock())
    assert limits.CLEANUP_AGE_SECONDS_MIN < 24 * 3600
    for _ in range(2):  # the fence is a version too, and only the second run may delete it
        rows = cleanup_all_tables(Place(location), CleanupPolicyOptions(1, confirm=True), environment=environment)
        assert errors_of(rows) == {}
    assert files_of(cleanup_all_tables(Place(location), CleanupPolicyOptions(1), environment=environment)) == []
    assert read_contents(location) == expected
    assert not [file.path for file in list_files(location) if "/tree/" in file.path]
