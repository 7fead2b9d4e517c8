"""What optimize does to one table, in which order, and the row it reports. Pure; nothing runs it yet.

In: what is known of a table under the plan's snapshot. Out: the steps it needs, or why it is left alone, and the
statistics with the names of the specification. A table without steps is not committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

from omnigraph.base.errors import Fact
from omnigraph.maintenance.index_plan import IndexStatus, IndexWork, NoWork


class SkipReason(StrEnum):
    """Why a table, or its compaction, was left alone."""

    DRIFT_NEEDS_REPAIR = "DriftNeedsRepair"
    BLOB_COLUMNS_UNSUPPORTED_BY_LANCE = "BlobColumnsUnsupportedByLance"
    CONFLICTING_WRITES = "ConflictingWrites"


class OptimizeStep(Enum):
    """The steps on one table. The order here is the order in which they are done."""

    STRIP_AUTO_CLEANUP = "strip_auto_cleanup"
    COMPACT = "compact"
    FOLD_INDEXES = "fold_indexes"
    BUILD_INDEXES = "build_indexes"


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that cannot be built, and why. Not an error."""

    property: str
    reason: str

    def to_json(self) -> dict[str, Fact]:
        return {"property": self.property, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as optimize finds it. `group_rows` are the rows of each group of fragments worth rewriting."""

    table_key: str
    manifest_version: int
    lance_head_version: int
    explained: bool
    has_auto_cleanup: bool
    has_blobs: bool
    group_rows: tuple[int, ...]
    indexes: tuple[IndexWork | NoWork, ...]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What to do with a table. Groups are named by their place in `group_rows`."""

    table_key: str
    steps: tuple[OptimizeStep, ...]
    groups: tuple[int, ...]
    skipped: SkipReason | None
    pending_indexes: tuple[PendingIndex, ...]


@dataclass(frozen=True, slots=True)
class TableOptimizeStats:
    """What optimize did to one table."""

    table_key: str
    branch: str
    fragments_removed: int
    fragments_added: int
    bytes_before: int
    bytes_after: int
    committed: bool
    skipped: SkipReason | None
    manifest_version: int
    lance_head_version: int
    pending_indexes: tuple[PendingIndex, ...]
    seconds: float

    def to_json(self) -> dict[str, Fact]:
        return {
            "table_key": self.table_key,
            "branch": self.branch,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "committed": self.committed,
            "skipped": None if self.skipped is None else self.skipped.value,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "pending_indexes": [pending.to_json() for pending in self.pending_indexes],
            "seconds": self.seconds,
        }


def plan_table(table: TableState, *, tasks_max: int | None, blobs_compact: bool) -> TablePlan:
    """The steps of one table. `blobs_compact`: whether Lance compacts tables with blobs."""
    pending = tuple(
        PendingIndex(planned.spec.column, planned.reason)
        for planned in table.indexes
        if isinstance(planned, NoWork) and planned.status is IndexStatus.SKIPPED
    )
    if table.lance_head_version != table.manifest_version and not table.explained:
        return TablePlan(table.table_key, (), (), SkipReason.DRIFT_NEEDS_REPAIR, pending)
    gated = table.has_blobs and not blobs_compact
    groups = () if gated else _largest_first(table.group_rows, tasks_max)
    built = {planned.status for planned in table.indexes if isinstance(planned, IndexWork)}
    needed = {
        OptimizeStep.STRIP_AUTO_CLEANUP: table.has_auto_cleanup,
        OptimizeStep.COMPACT: bool(groups),
        OptimizeStep.FOLD_INDEXES: bool(built & {IndexStatus.EXTENDED, IndexStatus.REBUILT}),
        OptimizeStep.BUILD_INDEXES: IndexStatus.BUILT in built,
    }
    steps = tuple(step for step in OptimizeStep if needed[step])
    skipped = SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE if gated else None
    return TablePlan(table.table_key, steps, groups, skipped, pending)


def _largest_first(group_rows: Sequence[int], tasks_max: int | None) -> tuple[int, ...]:
    """As many groups as one run takes on; the largest, in their order, so that runs in a row finish the table."""
    by_size = sorted(range(len(group_rows)), key=lambda place: (-group_rows[place], place))
    return tuple(sorted(by_size[:tasks_max]))
