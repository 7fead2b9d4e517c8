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
    require_all,
)

LIVE = TableRecord(
    type_id=TypeId("1"),
    incarnation=Incarnation("a"),
    alias="node:A",
    path="nodes/1-a",
    pin=Pin("g-X", 4),
    owner=BranchId("X"),
    row_count=0,
)
DROPPED = TableRecord(
    type_id=TypeId("2"),
    incarnation=Incarnation("b"),
    alias="node:B",
    path="nodes/2-b",
    pin=Pin(None, 4),
    owner=BranchId("X"),
    row_count=0,
)
STATE = ManifestState(
    head=CommitId("H"),
    schema=SchemaRecord("", "{}", SchemaHash("S")),
    tables={LIVE.id: LIVE, DROPPED.id: DROPPED},
    tombstones=(TombstoneRecord(DROPPED.id, "node:B", 4),),
    branches={
        "x": BranchRecord(name="x", id=BranchId("X"), lance_branch="b-X", parent=None, creator="me", created_us=1)
    },
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
    require_all(STATE, MET)


@pytest.mark.parametrize("name", UNMET)
def test_unmet_requirement_is_a_conflict_with_facts(name: str) -> None:
    requirement, member, expected, actual = UNMET[name]
    with pytest.raises(ReadSetConflictError) as caught:
        require_all(STATE, (*MET, requirement))
    assert caught.value.kind is ErrorKind.CONFLICT
    assert caught.value.code == "read_set_conflict"
    facts = {"member": member, "expected": expected, "actual": actual}
    assert caught.value.facts["read_set_conflict"] == facts
    assert "then retry" in caught.value.hint


def test_other_head_is_a_precondition_failure() -> None:
    with pytest.raises(PreconditionFailedError) as caught:
        require_all(STATE, (HeadIs(CommitId("G")),))
    assert caught.value.kind is ErrorKind.PRECONDITION_FAILED
    assert caught.value.facts["precondition_failure"] == {"expected": "G", "actual": "H"}
