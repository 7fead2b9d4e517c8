"""Check compares a staged write with the current branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import Fact
from omnigraph.base.ids import SchemaHash
from omnigraph.graph.manifest.records import Pin, WriteOperation
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.write.check import StagingTooOldError, find_read_set_conflict, require_recent_staging
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.writers import COMPANY, KNOWS, PERSON, Change, create, stage_changes


@pytest.fixture
def snapshot(local_location: Location) -> Snapshot:
    create(local_location)
    return read_snapshot(local_location)


def staged_on(snapshot: Snapshot) -> StagedWrite:
    """Stage a write of `Person` that was also validated against `Company`."""
    area = StagingArea(
        snapshot=snapshot,
        kind=WriteOperation.MUTATE,
        actor="tester",
        clock=SYSTEM_CLOCK,
        began=SYSTEM_CLOCK.monotonic(),
    )
    staged = stage_changes([Change(PERSON, insert=("a",))])(area)
    return replace(staged, reads=staged.reads | {snapshot.tables[COMPANY].id})


def moved(snapshot: Snapshot, alias: str) -> Snapshot:
    table = replace(snapshot.tables[alias], pin=Pin(None, 9))
    return replace(snapshot, tables={**snapshot.tables, alias: table})


def facts_of(conflict: ReadSetConflictError | None) -> dict[str, Fact]:
    assert conflict is not None
    facts = conflict.facts["read_set_conflict"]
    assert isinstance(facts, dict)
    return facts


def test_nothing_moved(snapshot: Snapshot) -> None:
    assert find_read_set_conflict(staged_on(snapshot), snapshot) is None


@pytest.mark.parametrize(("alias", "stale"), [(PERSON, True), (COMPANY, True), (KNOWS, False)])
def test_only_tables_that_were_read_are_stale(snapshot: Snapshot, alias: str, stale: bool) -> None:
    conflict = find_read_set_conflict(staged_on(snapshot), moved(snapshot, alias))
    assert (conflict is not None) == stale
    if conflict is not None:
        assert conflict.code == "read_set_conflict"
        assert facts_of(conflict) == {"member": alias, "expected": "main@1", "actual": "main@9"}


def test_same_version_on_another_lance_branch_is_stale(snapshot: Snapshot) -> None:
    table = replace(snapshot.tables[PERSON], pin=Pin("g-other", 1))
    forked = replace(snapshot, tables={**snapshot.tables, PERSON: table})
    assert facts_of(find_read_set_conflict(staged_on(snapshot), forked))["actual"] == "g-other@1"


def test_dropped_table_is_stale(snapshot: Snapshot) -> None:
    fewer = {alias: table for alias, table in snapshot.tables.items() if alias != COMPANY}
    conflict = find_read_set_conflict(staged_on(snapshot), replace(snapshot, tables=fewer))
    assert facts_of(conflict) == {"member": COMPANY, "expected": "main@1", "actual": None}


def test_changed_schema_is_stale(snapshot: Snapshot) -> None:
    schema = replace(snapshot.schema, hash=SchemaHash("other"))
    conflict = find_read_set_conflict(staged_on(snapshot), replace(snapshot, schema=schema))
    assert facts_of(conflict)["member"] == "schema"


def test_renamed_table_is_not_stale(snapshot: Snapshot) -> None:
    tables = {**snapshot.tables, "node:Human": replace(snapshot.tables[PERSON], alias="node:Human")}
    del tables[PERSON]
    assert find_read_set_conflict(staged_on(snapshot), replace(snapshot, tables=tables)) is None


def test_old_staging_is_an_error(snapshot: Snapshot) -> None:
    staged = staged_on(snapshot)
    require_recent_staging(staged, SYSTEM_CLOCK)
    old = replace(staged, began=staged.began - limits.STAGING_AGE_SECONDS_MAX - 1)
    with pytest.raises(StagingTooOldError):
        require_recent_staging(old, SYSTEM_CLOCK)
