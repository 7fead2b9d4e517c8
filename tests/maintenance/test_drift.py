"""Classification of drift and decision of repair, for made-up transactions."""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.graph.recovery.history import TableHistory, operation_properties
from omnigraph.maintenance.drift import MAINTENANCE, Classification, Obstacles, classify_drift
from omnigraph.maintenance.repair import RepairAction, RepairOptions, decide_action, explain_action
from omnigraph.storage.lance.transactions import GapReason, Operation, TransactionGap, TransactionRecord, VersionRecord

BASE: Final = 5
GAP: Final = TransactionGap(0, GapReason.UNREADABLE, "truncated")
PREVIEW, CONFIRM = RepairOptions(), RepairOptions(confirm=True)
FORCE, DISCARD = RepairOptions(confirm=True, force=True), RepairOptions(confirm=True, discard=True)


def _external(operation: Operation, restored: int | None = None) -> TransactionRecord:
    return TransactionRecord(
        version=0, operation=operation, uuid="u", read_version=BASE, properties={}, restored_version=restored
    )


def _ours(operation: Operation, restored: int | None = None, op: str = "OP") -> TransactionRecord:
    return TransactionRecord(
        version=0,
        operation=operation,
        uuid="u",
        read_version=BASE,
        properties=operation_properties(op, "C", "load"),
        restored_version=restored,
    )


def _history(*records: VersionRecord) -> TableHistory:
    numbered: list[VersionRecord] = []
    for version, record in enumerate(records, BASE + 1):
        if isinstance(record, TransactionGap):
            numbered.append(TransactionGap(version, record.reason, record.detail))
        else:
            numbered.append(
                TransactionRecord(
                    version=version,
                    operation=record.operation,
                    uuid=record.uuid,
                    read_version=BASE,
                    properties=record.properties,
                    restored_version=record.restored_version,
                )
            )
    return TableHistory(BASE, BASE + len(records), tuple(numbered))


def test_no_version_is_no_drift() -> None:
    assert classify_drift(_history()).classification is Classification.NO_DRIFT


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_of_an_external_tool(operation: Operation) -> None:
    restored = BASE if operation is Operation.RESTORE else None
    drift = classify_drift(_history(_external(operation, restored)))
    expected = Classification.VERIFIED_MAINTENANCE if operation in MAINTENANCE else Classification.SUSPICIOUS
    assert drift.classification is expected
    assert drift.operations == (operation.value,)
    # Neither maintenance before it nor a gap changes the classification for the better.
    combined = classify_drift(_history(_external(Operation.REWRITE), _external(operation, restored)))
    assert combined.classification is expected
    gap = classify_drift(_history(_external(operation, restored), GAP))
    assert gap.classification is Classification.UNVERIFIABLE


def test_only_these_two_are_maintenance() -> None:
    assert {Operation.RESERVE_FRAGMENTS, Operation.REWRITE} == MAINTENANCE


def test_head_below_the_published_version() -> None:
    drift = classify_drift(TableHistory(BASE, BASE - 2, ()))
    assert (drift.classification, drift.is_ours) == (Classification.UNVERIFIABLE, False)


def test_only_operations_of_omnigraph() -> None:
    drift = classify_drift(_history(_ours(Operation.APPEND), _ours(Operation.RESTORE, BASE)))
    assert (drift.classification, drift.is_ours) == (Classification.VERIFIED_MAINTENANCE, True)


def test_fences_do_not_count() -> None:
    fence = _ours(Operation.RESTORE, BASE + 1)
    drift = classify_drift(_history(_external(Operation.REWRITE), fence))
    assert (drift.classification, drift.is_ours) == (Classification.VERIFIED_MAINTENANCE, False)
    back = classify_drift(_history(_external(Operation.REWRITE), _ours(Operation.RESTORE, BASE)))
    assert back.classification is Classification.SUSPICIOUS


def test_partial_write_in_the_head() -> None:
    partial = classify_drift(_history(_ours(Operation.APPEND), _external(Operation.REWRITE)))
    assert (partial.classification, partial.unpublished) == (Classification.SUSPICIOUS, ("OP",))
    undone = classify_drift(
        _history(_ours(Operation.APPEND), _ours(Operation.RESTORE, BASE), _external(Operation.APPEND))
    )
    assert undone.unpublished == ()
    restored = classify_drift(
        _history(_ours(Operation.APPEND), _ours(Operation.RESTORE, BASE), _external(Operation.RESTORE, BASE + 1))
    )
    assert restored.unpublished == ("OP",)
    index = classify_drift(_history(_ours(Operation.CREATE_INDEX), _external(Operation.APPEND)))
    assert index.unpublished == ()


ACTIONS: Final = {
    Classification.NO_DRIFT: "no_op no_op no_op no_op",
    Classification.VERIFIED_MAINTENANCE: "preview healed healed discarded",
    Classification.SUSPICIOUS: "preview refused forced discarded",
    Classification.UNVERIFIABLE: "preview refused forced discarded",
}


@pytest.mark.parametrize("classification", Classification)
def test_decision_table(classification: Classification) -> None:
    actions = [decide_action(classification, options, Obstacles()) for options in (PREVIEW, CONFIRM, FORCE, DISCARD)]
    assert actions == ACTIONS[classification].split()


def test_obstacles() -> None:
    suspicious = Classification.SUSPICIOUS
    cannot = Obstacles("bad rows", "version missing")
    assert decide_action(suspicious, FORCE, cannot) is RepairAction.REFUSED
    assert decide_action(suspicious, DISCARD, cannot) is RepairAction.REFUSED
    assert decide_action(suspicious, DISCARD, Obstacles("bad rows")) is RepairAction.DISCARDED
    assert str(explain_action(RepairAction.REFUSED, FORCE, cannot)) == "bad rows"
    assert str(explain_action(RepairAction.REFUSED, DISCARD, cannot)) == "version missing"
    assert str(explain_action(RepairAction.PREVIEW, PREVIEW, cannot)) == "bad rows"
    assert explain_action(RepairAction.PREVIEW, PREVIEW, Obstacles()) is None
    assert explain_action(RepairAction.FORCED, FORCE, Obstacles()) is None
