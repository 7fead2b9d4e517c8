"""Check's comparison of what was staged with the branch as it is now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.ids import CommitId, OperationId, SchemaHash, new_ulid
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.write.check import StagingTooOldError, find_stale, require_recent_staging
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.writers import COMPANY, KNOWS, PERSON, Change, create, stage_changes


@pytest.fixture
def snapshot(local_location: Location) -> Snapshot:
    create(local_location)
    return read_snapshot(local_location)


def staged_on(snapshot: Snapshot) -> StagedWrite:
    """A write of `Person` that was also validated against `Company`."""
    ids = OperationId(new_ulid()), CommitId(new_ulid())
    stage = StagingArea(snapshot, WriterKind.MUTATE, "tester", *ids, SYSTEM_CLOCK)
    staged = stage_changes([Change(PERSON, insert=("a",))])(stage)
    return replace(staged, reads=staged.reads | {snapshot.tables[COMPANY].id})


def moved(snapshot: Snapshot, alias: str) -> Snapshot:
    table = replace(snapshot.tables[alias], pin=Pin(None, 9))
    return replace(snapshot, tables={**snapshot.tables, alias: table})


def test_nothing_moved(snapshot: Snapshot) -> None:
    assert find_stale(staged_on(snapshot), snapshot) is None


@pytest.mark.parametrize(("alias", "stale"), [(PERSON, True), (COMPANY, True), (KNOWS, False)])
def test_only_what_was_read_matters(snapshot: Snapshot, alias: str, stale: bool) -> None:
    found = find_stale(staged_on(snapshot), moved(snapshot, alias))
    assert (found is not None) == stale
    if found is not None:
        assert (found.member, found.expected, found.actual) == (alias, "main@1", "main@9")
        assert found.conflict().code == "read_set_conflict"


def test_the_same_version_on_another_lance_branch_is_stale(snapshot: Snapshot) -> None:
    table = replace(snapshot.tables[PERSON], pin=Pin("g-other", 1))
    forked = replace(snapshot, tables={**snapshot.tables, PERSON: table})
    found = find_stale(staged_on(snapshot), forked)
    assert found is not None
    assert found.actual == "g-other@1"


def test_a_table_that_is_gone_is_stale(snapshot: Snapshot) -> None:
    fewer = {alias: table for alias, table in snapshot.tables.items() if alias != COMPANY}
    found = find_stale(staged_on(snapshot), replace(snapshot, tables=fewer))
    assert found is not None
    assert (found.member, found.actual) == (COMPANY, None)


def test_another_schema_is_stale_whatever_was_read(snapshot: Snapshot) -> None:
    schema = replace(snapshot.schema, hash=SchemaHash("other"))
    found = find_stale(staged_on(snapshot), replace(snapshot, schema=schema))
    assert found is not None
    assert found.member == "schema"


def test_a_rename_is_not_a_move(snapshot: Snapshot) -> None:
    tables = {**snapshot.tables, "node:Human": replace(snapshot.tables[PERSON], alias="node:Human")}
    del tables[PERSON]
    assert find_stale(staged_on(snapshot), replace(snapshot, tables=tables)) is None


def test_staging_that_is_too_old_is_refused(snapshot: Snapshot) -> None:
    staged = staged_on(snapshot)
    require_recent_staging(staged, SYSTEM_CLOCK)
    old = replace(staged, began=staged.began - limits.STAGING_AGE_SECONDS_MAX - 1)
    with pytest.raises(StagingTooOldError):
        require_recent_staging(old, SYSTEM_CLOCK)
