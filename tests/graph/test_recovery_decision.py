"""The decision table of recovery, row by row, as in docs/dev/write-path.md."""

from __future__ import annotations

import itertools

import pytest

from omnigraph.graph.recovery.decide import Moved, RecoveryAction, TableFinding, decide_recovery

UNMOVED = TableFinding(moved=Moved.NO, preserving=False)
MOVED = TableFinding(moved=Moved.NEXT, preserving=False)
DISPLACED = TableFinding(moved=Moved.ELSEWHERE, preserving=False)
UNDONE = TableFinding(moved=Moved.NEXT, preserving=False, rollback_begun=True)
OVERTAKEN = TableFinding(moved=Moved.NEXT, preserving=False, overtaken=True)
UNMOVED_PRESERVING = TableFinding(moved=Moved.NO, preserving=True)
MOVED_PRESERVING = TableFinding(moved=Moved.NEXT, preserving=True)
DISPLACED_PRESERVING = TableFinding(moved=Moved.ELSEWHERE, preserving=True)
UNDONE_PRESERVING = TableFinding(moved=Moved.NEXT, preserving=True, rollback_begun=True)
EVERY = (
    UNMOVED,
    MOVED,
    DISPLACED,
    UNDONE,
    OVERTAKEN,
    UNMOVED_PRESERVING,
    MOVED_PRESERVING,
    DISPLACED_PRESERVING,
    UNDONE_PRESERVING,
)


def decide(*tables: TableFinding) -> RecoveryAction:
    return decide_recovery(finished=False, branch_alive=True, tables=tables)


@pytest.mark.parametrize("tables", [(), (MOVED,), (UNMOVED, MOVED), (UNDONE,), (DISPLACED,)])
@pytest.mark.parametrize("branch_alive", [True, False])
def test_finished_has_priority(tables: tuple[TableFinding, ...], branch_alive: bool) -> None:
    action = decide_recovery(finished=True, branch_alive=branch_alive, tables=tables)
    assert action is RecoveryAction.FINISHED


@pytest.mark.parametrize("tables", [(), (MOVED,), (UNMOVED, MOVED), (UNDONE,)])
def test_intent_of_a_deleted_branch_is_discarded(tables: tuple[TableFinding, ...]) -> None:
    action = decide_recovery(finished=False, branch_alive=False, tables=tables)
    assert action is RecoveryAction.BRANCH_GONE


@pytest.mark.parametrize(
    ("tables", "action"),
    [
        ((), RecoveryAction.NOTHING_MOVED),
        ((UNMOVED,), RecoveryAction.NOTHING_MOVED),
        ((UNMOVED, UNMOVED_PRESERVING), RecoveryAction.NOTHING_MOVED),
        ((MOVED,), RecoveryAction.ROLLED_FORWARD),
        ((OVERTAKEN,), RecoveryAction.ROLLED_BACK),
        ((MOVED, OVERTAKEN), RecoveryAction.ROLLED_BACK),
        ((MOVED, MOVED, MOVED), RecoveryAction.ROLLED_FORWARD),
        ((MOVED, MOVED_PRESERVING), RecoveryAction.ROLLED_FORWARD),
        ((MOVED_PRESERVING, UNMOVED_PRESERVING), RecoveryAction.ROLLED_FORWARD),
        ((MOVED_PRESERVING, UNMOVED), RecoveryAction.ROLLED_FORWARD),
        ((MOVED, UNMOVED), RecoveryAction.ROLLED_BACK),
        ((MOVED, UNMOVED_PRESERVING), RecoveryAction.ROLLED_BACK),
        ((MOVED, DISPLACED), RecoveryAction.ROLLED_BACK),
        ((DISPLACED,), RecoveryAction.ROLLED_BACK),
        ((DISPLACED_PRESERVING,), RecoveryAction.ROLLED_BACK),
        ((MOVED_PRESERVING, DISPLACED_PRESERVING), RecoveryAction.ROLLED_BACK),
        ((UNDONE, MOVED), RecoveryAction.ROLLED_BACK),
        ((UNDONE, MOVED, MOVED), RecoveryAction.ROLLED_BACK),
        ((UNDONE_PRESERVING, MOVED_PRESERVING), RecoveryAction.ROLLED_BACK),
    ],
)
def test_action_for_findings(tables: tuple[TableFinding, ...], action: RecoveryAction) -> None:
    assert decide(*tables) is action


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_order_of_tables_does_not_matter(count: int) -> None:
    for tables in itertools.product(EVERY, repeat=count):
        assert len({decide(*order) for order in itertools.permutations(tables)}) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rolling_forward_never_publishes_a_partial_change(count: int) -> None:
    """It needs every table that changes content, directly after its base and not undone."""
    for tables in itertools.product(EVERY, repeat=count):
        if decide(*tables) is RecoveryAction.ROLLED_FORWARD:
            assert any(table.moved is Moved.NEXT for table in tables)
            assert not any(table.rollback_begun or table.moved is Moved.ELSEWHERE for table in tables)
            assert not any(table.overtaken for table in tables)
            partial = any(table.moved is Moved.NO for table in tables)
            assert not (partial and any(t.moved is Moved.NEXT and not t.preserving for t in tables))
