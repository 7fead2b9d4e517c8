"""An intent whose version another commit has published is not published again."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.recovery.decide import RecoveryAction
from omnigraph.storage.location import Location
from tests.graph.crash.death import Death, PatientClock, short_lease_environment
from tests.graph.publishing import publish_next
from tests.graph.writers import COMPANY, PERSON, Change, create, run


def test_published_version_is_not_published_again(local_location: Location) -> None:
    create(local_location)
    environment = short_lease_environment(PatientClock())
    targets: list[str] = []

    def die_at_the_publish(_: str, target: str) -> None:
        targets.append(target)
        if any(MANIFEST in path for path in targets):
            raise Death

    with observed(die_at_the_publish), pytest.raises(Death):
        run(local_location, [Change(PERSON, upsert=(("late", 1),))], environment=environment)
    publish_next(local_location, PERSON)
    before = read_snapshot(local_location)
    run(local_location, [Change(COMPANY, upsert=(("next", 1),))], environment=environment)
    after = read_snapshot(local_location)
    assert after.tables[PERSON].pin == before.tables[PERSON].pin
    (audit,) = omnigraph.open(local_location.uri).recoveries()
    assert audit.action == RecoveryAction.ROLLED_BACK
