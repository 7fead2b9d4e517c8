"""The classification, from transactions that were made up."""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.graph.recovery.history import TableHistory, operation_properties
from omnigraph.maintenance.drift import MAINTENANCE, Classification, Obstacles, classify_drift
from omnigraph.maintenance.repair import RepairAction, RepairOptions, decide_action, explain_action
from omnigraph.storage.lance.transactions import (
    GapReason,
    Operation,
    TransactionGap,
    TransactionRecord,
    VersionRecord,
)

BASE: Final = 5
GAP: Final = TransactionGap(0, GapReason.UNREADABLE, "cut off")
PREVIEW, CONFIRM = RepairOptions(), RepairOptions(confirm=True)
FORCE, DISCARD = RepairOptions(confirm=True, force=True), RepairOptions(confirm=True, discard=True)


def _foreign(operation: Operation, restored: int | None = None) -> TransactionRecord:
    return TransactionRecord(0, operation, "u", BASE, {}, restored)


def _ours(operation: Operation, restored: int | None = None, op: str = "OP") -> TransactionRecord:
    return TransactionRecord(0, operation, "u", BASE, operation_properties(op, "C", "load"), restored)


def _history(*records: VersionRecord) -> TableHistory:
    numbered: list[VersionRecord] = []
    for version, record in enumerate(records, BASE + 1):
        if isinstance(record, TransactionGap):
            numbered.append(TransactionGap(version, record.reason, record.detail))
        else:
            numbered.append(
                TransactionRecord(
                    version, record.operation, record.uuid, BASE, record.properties, record.restored_version
                )
            )
    return TableHistory(BASE, BASE + len(records), tuple(numbered))


def test_no_version_is_no_drift() -> None:
    assert classify_drift(_history()).classification is Classification.NO_DRIFT


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_of_a_foreign_tool(operation: Operation) -> None:
    restored = BASE if operation is Operation.RESTORE else None
    found = classify_drift(_history(_foreign(operation, restored)))
    expected = Classification.VERIFIED_MAINTENANCE if operation in MAINTENANCE else Classification.SUSPICIOUS
    assert found.classification is expected
    assert found.operations == (operation.value,)
    # Maintenance beside it does not make it better, nor a gap.
    beside = classify_drift(_history(_foreign(Operation.REWRITE), _foreign(operation, restored)))
    assert beside.classification is expected
    gap = classify_drift(_history(_foreign(operation, restored), GAP))
    assert gap.classification is Classification.UNVERIFIABLE


def test_only_these_two_are_maintenance() -> None:
    assert {Operation.RESERVE_FRAGMENTS, Operation.REWRITE} == MAINTENANCE


def test_a_head_below_the_published_version() -> None:
    found = classify_drift(TableHistory(BASE, BASE - 2, ()))
    assert (found.classification, found.ours) == (Classification.UNVERIFIABLE, False)


def test_what_is_only_ours() -> None:
    found = classify_drift(_history(_ours(Operation.APPEND), _ours(Operation.RESTORE, BASE)))
    assert (found.classification, found.ours) == (Classification.VERIFIED_MAINTENANCE, True)


def test_fences_do_not_count() -> None:
    fence = _ours(Operation.RESTORE, BASE + 1)
    found = classify_drift(_history(_foreign(Operation.REWRITE), fence))
    assert (found.classification, found.ours) == (Classification.VERIFIED_MAINTENANCE, False)
    back = classify_drift(_history(_foreign(Operation.REWRITE), _ours(Operation.RESTORE, BASE)))
    assert back.classification is Classification.SUSPICIOUS


def test_half_a_write_in_the_head() -> None:
    half = classify_drift(_history(_ours(Operation.APPEND), _foreign(Operation.REWRITE)))
    assert (half.classification, half.unpublished) == (Classification.SUSPICIOUS, ("OP",))
    undone = classify_drift(
        _history(_ours(Operation.APPEND), _ours(Operation.RESTORE, BASE), _foreign(Operation.APPEND))
    )
    assert undone.unpublished == ()
    brought_back = classify_drift(
        _history(
            _ours(Operation.APPEND),
            _ours(Operation.RESTORE, BASE),
            _foreign(Operation.RESTORE, BASE + 1),
        )
    )
    assert brought_back.unpublished == ("OP",)
    index = classify_drift(_history(_ours(Operation.CREATE_INDEX), _foreign(Operation.APPEND)))
    assert index.unpublished == ()


ACTIONS: Final = {
    Classification.NO_DRIFT: "no_op no_op no_op no_op",
    Classification.VERIFIED_MAINTENANCE: "preview healed healed discarded",
    Classification.SUSPICIOUS: "preview refused forced discarded",
    Classification.UNVERIFIABLE: "preview refused forced discarded",
}


@pytest.mark.parametrize("classification", Classification)
def test_the_table_of_actions(classification: Classification) -> None:
    found = [
        decide_action(classification, options, Obstacles()) for options in (PREVIEW, CONFIRM, FORCE, DISCARD)
    ]
    assert found == ACTIONS[classification].split()


def test_obstacles() -> None:
    suspicious = Classification.SUSPICIOUS
    cannot = Obstacles("bad rows", "it is gone")
    assert decide_action(suspicious, FORCE, cannot) is RepairAction.REFUSED
    assert decide_action(suspicious, DISCARD, cannot) is RepairAction.REFUSED
    assert decide_action(suspicious, DISCARD, Obstacles("bad rows")) is RepairAction.DISCARDED
    assert str(explain_action(RepairAction.REFUSED, FORCE, cannot)) == "bad rows"
    assert str(explain_action(RepairAction.REFUSED, DISCARD, cannot)) == "it is gone"
    assert str(explain_action(RepairAction.PREVIEW, PREVIEW, cannot)) == "bad rows"
    assert explain_action(RepairAction.PREVIEW, PREVIEW, Obstacles()) is None
    assert explain_action(RepairAction.FORCED, FORCE, Obstacles()) is None
