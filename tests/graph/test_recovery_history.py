"""What the transactions of a table show: who committed them, and whose content HEAD has."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from omnigraph.base.ids import OperationId
from omnigraph.graph.recovery.fence import can_publish
from omnigraph.graph.recovery.history import OPERATION_PROPERTY, TableHistory, operation_properties
from omnigraph.storage.lance.transactions import GapReason, Operation, TransactionGap, TransactionRecord, VersionRecord

OURS = OperationId("OURS")
MULTI_COMMIT = frozenset({Operation.RESERVE_FRAGMENTS, Operation.REWRITE})
BASE = 10


def record(
    version: int, operation: Operation = Operation.APPEND, by: str | None = None, restored: int | None = None
) -> TransactionRecord:
    properties = {} if by is None else {OPERATION_PROPERTY: by}
    return TransactionRecord(
        version=version,
        operation=operation,
        uuid=f"uuid-{version}",
        read_version=version - 1,
        properties=MappingProxyType(properties),
        restored_version=restored,
    )


def restore(version: int, restored: int, by: str | None = OURS) -> TransactionRecord:
    return record(version, Operation.RESTORE, by, restored)


def history(*records: VersionRecord) -> TableHistory:
    return TableHistory(BASE, BASE + len(records), records)


def test_operation_properties() -> None:
    assert operation_properties("op", "commit", "load") == {
        "omnigraph:op": "op",
        "omnigraph:commit": "commit",
        "omnigraph:kind": "load",
    }


def test_find_uuid() -> None:
    versions = history(record(11), record(12))
    assert versions.find_uuid("uuid-12") == 12
    assert versions.find_uuid("uuid-13") is None


def test_version_without_our_property_or_unreadable_is_external() -> None:
    assert not history(record(11, by="A"), restore(12, 11, "B")).has_external_above(BASE)
    assert history(record(11, by="A"), record(12)).has_external_above(BASE)
    assert not history(record(11), record(12, by="A")).has_external_above(11)
    assert history(TransactionGap(11, GapReason.MISSING, "missing")).has_external_above(BASE)


def test_rollback_is_recognized_by_its_restore() -> None:
    assert history(record(11, by=OURS), restore(12, 10)).has_restore_by(OURS, above=11)
    assert not history(record(11, by=OURS), restore(12, 10, "OTHER")).has_restore_by(OURS, above=11)
    assert not history(restore(11, 10), record(12, by=OURS)).has_restore_by(OURS, above=12)
    assert not history(record(11, by=OURS), record(12, by=OURS)).has_restore_by(OURS, above=11)


def test_multi_commit_write_allows_its_operations_and_its_own_fence() -> None:
    done = (record(11, Operation.RESERVE_FRAGMENTS), record(12, Operation.REWRITE))
    assert history(*done).has_only(MULTI_COMMIT, OURS)
    assert history(*done, restore(13, 12)).has_only(MULTI_COMMIT, OURS)
    assert not history(*done, restore(13, 12, "OTHER")).has_only(MULTI_COMMIT, OURS)
    assert not history(*done, record(13)).has_only(MULTI_COMMIT, OURS)
    assert not history(*done, TransactionGap(13, GapReason.MISSING, "missing")).has_only(MULTI_COMMIT, OURS)


def test_last_version_has_no_property_or_is_of_this_write() -> None:
    assert history(record(11, Operation.REWRITE, by=OURS), restore(12, 11)).last_version_by(MULTI_COMMIT, OURS) == 11
    assert history(record(11, Operation.REWRITE), restore(12, 11)).last_version_by(MULTI_COMMIT, OURS) == 11
    assert history(record(11, Operation.REWRITE, by="OTHER")).last_version_by(MULTI_COMMIT, OURS) is None
    assert history(restore(11, 10)).last_version_by(MULTI_COMMIT, OURS) is None


@pytest.mark.parametrize(
    ("records", "content"),
    [
        ((), 10),
        ((record(11, by=OURS),), 11),
        ((restore(11, 10),), 10),
        ((restore(11, 7),), 7),
        ((record(11, by=OURS), restore(12, 10)), 10),
        ((record(11, by=OURS), restore(12, 11), restore(13, 12)), 11),
        ((record(11, by=OURS), restore(12, 10), restore(13, 12), restore(14, 11)), 11),
    ],
)
def test_content_version_follows_restores(records: tuple[VersionRecord, ...], content: int) -> None:
    assert history(*records).content_version(BASE + len(records)) == content


def test_restore_of_itself_does_not_loop() -> None:
    assert history(restore(11, 11)).content_version(11) == 11
    assert history(restore(11, 12), restore(12, 11)).content_version(12) in (11, 12)


def test_only_pinned_content_without_external_commits_is_published() -> None:
    assert can_publish(history(restore(11, 10)))
    assert can_publish(history(record(11, by=OURS), restore(12, 10)))
    assert not can_publish(history(record(11, by=OURS)))
    assert not can_publish(history(record(11), restore(12, 10)))
    assert not can_publish(history(restore(11, 10), record(12)))
