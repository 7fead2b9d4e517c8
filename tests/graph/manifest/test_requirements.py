"""The requirements of a publish, as a pure function."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import ErrorKind
from omnigraph.base.ids import BranchId, CommitId, Incarnation, SchemaHash, TypeId
from omnigraph.graph.manifest.reader import ManifestState
from omnigraph.graph.manifest.records import BranchRecord, Pin, SchemaRecord, TableId, TableRecord, TombstoneRecord
from omnigraph.graph.manifest.requirements import (
    BranchIs,
    HeadIs,
    PinIs,
    PreconditionFailedError,
    ReadSetConflictError,
    Requirement,
    SchemaIs,
    require_met,
)

LIVE = TableRecord(TypeId("1"), Incarnation("a"), "node:A", "nodes/1-a", Pin("g-X", 4), BranchId("X"), 0)
DROPPED = TableRecord(TypeId("2"), Incarnation("b"), "node:B", "nodes/2-b", Pin(None, 4), BranchId("X"), 0)
STATE = ManifestState(
    head=CommitId("H"),
    schema=SchemaRecord("", "{}", SchemaHash("S")),
    tables={LIVE.id: LIVE, DROPPED.id: DROPPED},
    tombstones=(TombstoneRecord(DROPPED.id, "node:B", 4),),
    branches={"x": BranchRecord("x", BranchId("X"), "b-X", None, "me", 1)},
)
MET: tuple[Requirement, ...] = (
    HeadIs(CommitId("H")),
    SchemaIs(SchemaHash("S")),
    PinIs(LIVE.id, Pin("g-X", 4)),
    PinIs(DROPPED.id, None),
    PinIs(TableId("9:9"), None),
    BranchIs("x", BranchId("X")),
    BranchIs("y", None),
)
UNMET: dict[str, tuple[Requirement, str, str | None, str | None]] = {
    "schema": (SchemaIs(SchemaHash("T")), "schema", "T", "S"),
    "version": (PinIs(LIVE.id, Pin("g-X", 3)), "node:A", "g-X@3", "g-X@4"),
    "lance branch": (PinIs(LIVE.id, Pin(None, 4)), "node:A", "main@4", "g-X@4"),
    "exists already": (PinIs(LIVE.id, None), "node:A", None, "g-X@4"),
    "dropped": (PinIs(DROPPED.id, Pin(None, 4)), "2:b", "main@4", None),
    "branch": (BranchIs("x", BranchId("Y")), "branch:x", "Y", "X"),
    "branch exists already": (BranchIs("x", None), "branch:x", None, "X"),
    "branch deleted": (BranchIs("y", BranchId("Y")), "branch:y", "Y", None),
}


def test_met_requirements_pass() -> None:
    require_met(STATE, MET)


@pytest.mark.parametrize("name", UNMET)
def test_unmet_requirement_is_a_conflict_with_facts(name: str) -> None:
    requirement, member, expected, actual = UNMET[name]
    with pytest.raises(ReadSetConflictError) as caught:
        require_met(STATE, (*MET, requirement))
    assert caught.value.kind is ErrorKind.CONFLICT
    assert caught.value.code == "read_set_conflict"
    facts = {"member": member, "expected": expected, "actual": actual}
    assert caught.value.facts["read_set_conflict"] == facts
    assert "then retry" in caught.value.hint


def test_other_head_is_a_precondition_failure() -> None:
    with pytest.raises(PreconditionFailedError) as caught:
        require_met(STATE, (HeadIs(CommitId("G")),))
    assert caught.value.kind is ErrorKind.PRECONDITION_FAILED
    assert caught.value.facts["precondition_failure"] == {"expected": "G", "actual": "H"}
