"""What optimize does to a table: the pure decisions, one case a row."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omnigraph.maintenance.index_plan import DeclaredIndex, IndexStatus, IndexWork, NoWork
from omnigraph.maintenance.optimize_plan import (
    OptimizeStep,
    PendingIndex,
    SkipReason,
    TableOptimizeStats,
    TablePlan,
    TableState,
    plan_table,
)
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.indexes import IndexSpec

KEY = "node:Person"
SPEC = IndexSpec("face", IndexKind.VECTOR)
COMPLETE = NoWork(KEY, SPEC, IndexStatus.COMPLETE)
WAITING = NoWork(KEY, SPEC, IndexStatus.SKIPPED, "the column has no vectors")
STEADY = TableState(KEY, 7, 7, False, False, False, (), (COMPLETE,))
BLOBS = SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE
STRIP, COMPACT, FOLD, BUILD = OptimizeStep


def _work(status: IndexStatus) -> IndexWork:
    return IndexWork(KEY, DeclaredIndex(SPEC), status, (0,))


def _plan(
    *steps: OptimizeStep,
    groups: tuple[int, ...] = (),
    skipped: SkipReason | None = None,
    pending: tuple[PendingIndex, ...] = (),
) -> TablePlan:
    return TablePlan(KEY, steps, groups, skipped, pending)


CASES: dict[str, tuple[TableState, TablePlan]] = {
    "steady": (STEADY, _plan()),
    "small fragments": (replace(STEADY, group_rows=(5, 9)), _plan(COMPACT, groups=(0, 1))),
    "settings to strip": (replace(STEADY, has_auto_cleanup=True), _plan(STRIP)),
    "stale coverage": (replace(STEADY, indexes=(_work(IndexStatus.EXTENDED),)), _plan(FOLD)),
    "scattered index": (replace(STEADY, indexes=(_work(IndexStatus.REBUILT),)), _plan(FOLD)),
    "missing index": (replace(STEADY, indexes=(_work(IndexStatus.BUILT),)), _plan(BUILD)),
    "an index that waits": (
        replace(STEADY, indexes=(WAITING,)),
        _plan(pending=(PendingIndex("face", "the column has no vectors"),)),
    ),
    "everything, in order": (
        replace(
            STEADY,
            has_auto_cleanup=True,
            group_rows=(5,),
            indexes=(_work(IndexStatus.BUILT), _work(IndexStatus.EXTENDED)),
        ),
        _plan(STRIP, COMPACT, FOLD, BUILD, groups=(0,)),
    ),
    "drift": (
        replace(STEADY, lance_head_version=8, has_auto_cleanup=True, group_rows=(5,)),
        _plan(skipped=SkipReason.DRIFT_NEEDS_REPAIR),
    ),
    "a head that a writer explains": (
        replace(STEADY, lance_head_version=8, explained=True, group_rows=(5,)),
        _plan(COMPACT, groups=(0,)),
    ),
    "blobs": (
        replace(STEADY, has_blobs=True, group_rows=(5,), indexes=(_work(IndexStatus.EXTENDED),)),
        _plan(FOLD, skipped=BLOBS),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_decision(name: str) -> None:
    table, expected = CASES[name]
    assert plan_table(table, tasks_max=None, blobs_compact=False) == expected


def test_blobs_are_compacted_when_lance_can() -> None:
    table = replace(STEADY, has_blobs=True, group_rows=(5,))
    assert plan_table(table, tasks_max=None, blobs_compact=True) == _plan(COMPACT, groups=(0,))


@pytest.mark.parametrize(
    ("tasks_max", "groups"), [(None, (0, 1, 2, 3)), (9, (0, 1, 2, 3)), (2, (1, 3)), (3, (0, 1, 3)), (0, ())]
)
def test_one_run_takes_on_the_largest_groups(tasks_max: int | None, groups: tuple[int, ...]) -> None:
    table = replace(STEADY, group_rows=(5, 9, 5, 7))
    assert plan_table(table, tasks_max=tasks_max, blobs_compact=False).groups == groups


def test_the_statistics_have_the_names_of_the_specification() -> None:
    pending = (PendingIndex("face", "the column has no vectors"),)
    stats = TableOptimizeStats(KEY, "main", 9, 1, 90, 80, True, BLOBS, 7, 9, pending, 0.5)
    assert list(json.loads(json.dumps(stats.to_json()))) == [
        "table_key",
        "branch",
        "fragments_removed",
        "fragments_added",
        "bytes_before",
        "bytes_after",
        "committed",
        "skipped",
        "manifest_version",
        "lance_head_version",
        "pending_indexes",
        "seconds",
    ]
    assert stats.to_json()["skipped"] == "BlobColumnsUnsupportedByLance"
    assert stats.to_json()["pending_indexes"] == [{"property": "face", "reason": "the column has no vectors"}]
