"""What optimize and `ensure_indices` take and return: options, and one row per table or index.

In: nothing. Out: `OptimizeOptions` with its checks, and the rows with their JSON. Nothing here reads or
writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Hint
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.plan import MaintenanceRequest
from omnigraph.maintenance.optimize.rewrite import RewriteBounds
from omnigraph.maintenance.rows import TableStats
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.compaction import LANCE_SUPPORTS_BLOB_COMPACTION

OPTIMIZE_ACTOR: Final = "omnigraph:optimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """One declared index."""

    table_key: str
    """The table, such as `node:Person`."""
    property: str
    """The column."""
    kind: IndexKind
    """The kind of index."""
    status: IndexStatus
    """What happened to it."""
    reason: str = ""
    """Why nothing was built; empty if something was."""
    fragments: int = 0
    """The number of fragments that this run indexed."""
    rows: int = 0
    """The number of rows that this run indexed."""
    segments: int = 0
    """The number of index segments that this run built."""


@dataclass(frozen=True, slots=True, repr=False)
class IndexResult(Displayed):
    """The result of building the declared indexes of a branch."""

    branch: str
    """The branch."""
    indexes: tuple[IndexRow, ...]
    """Every declared index, in the order of the schema."""
    commit: CommitRecord | None
    """The commit; None if nothing was built."""
    runner: str = "local"
    """Where the tasks ran: `local`, or `spark` and its master."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            **{f"{row.table_key} {row.property}": row.status.value for row in self.indexes},
        }

    @property
    def built(self) -> tuple[IndexRow, ...]:
        """The indexes that were built, extended or rebuilt."""
        return tuple(row for row in self.indexes if row.segments)

    @property
    def pending(self) -> tuple[IndexRow, ...]:
        """The indexes that could not be built, each with its reason."""
        return tuple(row for row in self.indexes if row.status is IndexStatus.SKIPPED)


class SkipReason(StrEnum):
    """Why a table, or its compaction, was skipped."""

    DRIFT_NEEDS_REPAIR = "DriftNeedsRepair"
    """An external tool changed the table: run `repair` first."""
    BLOB_COLUMNS_UNSUPPORTED_BY_LANCE = "BlobColumnsUnsupportedByLance"
    """Lance cannot compact a table with blobs; its indexes are built."""
    CONFLICTING_WRITES = "ConflictingWrites"
    """Another compaction, an overwrite or a schema change replaced the rewritten fragments: run `optimize` again."""
    NOT_WRITTEN_ON_BRANCH = "NotWrittenOnBranch"
    """The branch reads another branch's table; name the table to copy and optimize it."""


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that cannot be built yet. This is not an error."""

    property: str
    """The column."""
    reason: str
    """Why it cannot be built, such as a vector column without vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimizeStats(TableStats):
    """What optimize did to one table, or would do in a dry run."""

    table_key: str
    """The table, such as `node:Person`, or `__manifest`, the table of tables."""
    branch: str
    """The branch."""
    fragments_removed: int = 0
    """The number of fragments that were merged or rewritten."""
    fragments_added: int = 0
    """The number of fragments that replace them."""
    bytes_before: int = 0
    """The size of its data files before."""
    bytes_after: int = 0
    """The size of its data files afterwards; an estimate in a dry run."""
    committed: bool = False
    """Whether anything changed."""
    skipped: SkipReason | None = None
    """Why the table, or its compaction, was skipped; None if it was not."""
    manifest_version: int = 0
    """The published Lance version of the table."""
    lance_head_version: int = 0
    """Its newest Lance version. If it is not the published version, the table has drifted."""
    pending_indexes: tuple[PendingIndex, ...] = ()
    """Declared indexes that cannot be built yet."""
    seconds: float = 0.0
    """The time of the work on this table; tasks that ran in parallel are added up."""
    indexes_folded: tuple[str, ...] = ()
    """The columns whose indexes were extended over rows that they did not cover."""
    indexes_built: tuple[str, ...] = ()
    """The columns whose indexes are new."""
    stripped: bool = False
    """Whether Lance settings for automatic cleanup were removed."""
    commit: str | None = None
    """The graph commit that published the change, or None."""
    reason: Hint | None = None
    """The reason of `error`; Python and the command line render the calls in it in their own syntax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeOptions:
    """How to optimize."""

    tables: frozenset[str] | None = None
    """Types by name or alias; None: all."""
    dry_run: bool = False
    """Only plan."""
    partial_progress: bool = False
    """Commit groups of tasks as they finish, so that an interrupted run loses little."""
    rows_per_task: int | None = None
    """The maximum number of rows that one task rewrites; None: about a million."""
    tasks_max: int | None = None
    """The maximum number of tasks of a run; None: all. Repeated runs converge."""
    blobs_compact: bool = LANCE_SUPPORTS_BLOB_COMPACTION
    """Whether Lance compacts tables with blobs; tests inject it."""
    environment: WriteEnvironment = field(default_factory=WriteEnvironment)

    def validate(self) -> None:
        """Raise for a bound below 1."""
        for name, value in (("max_rows_per_task", self.rows_per_task), ("max_tasks", self.tasks_max)):
            if value is not None and value < 1:
                raise UsageError(
                    f"invalid {name}: expected at least 1, got {value}", code="bound_too_small", hint="Pass 1 or more."
                )

    def request(self, skipped: frozenset[str] = frozenset()) -> MaintenanceRequest:
        """Return the request of a run without the skipped tables."""
        return MaintenanceRequest(
            types=self.tables,
            kind=WriteOperation.OPTIMIZE,
            actor=OPTIMIZE_ACTOR,
            rewrite=RewriteBounds(rows=min(limits.COMPACTION_ROWS, self.rows_per_task or limits.COMPACTION_ROWS)),
            tasks_max=self.tasks_max,
            blobs_compact=self.blobs_compact,
            skipped=skipped,
            isolated=True,
            partial_progress=self.partial_progress,
        )
