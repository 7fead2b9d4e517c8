"""Optimize: keeps a branch's tables healthy without changing a row. Never destructive.

In: a graph, options, whoever runs tasks. Out: one `TableOptimizeStats` per table and one for `__manifest`. Refused
while a write waits for recovery. A table that a foreign tool changed is left to repair. The rest is `upkeep`: strip
automatic cleanup, compact, fold and build indexes, one commit by `omnigraph:optimize`, or none. Then the manifest is
compacted and the adjacency of edge tables persisted. A crash leaves orphans, or what recovery publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import Fact, UsageError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.rewrite import RewriteBounds
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.compaction import LANCE_SUPPORTS_BLOB_COMPACTION


@dataclass(frozen=True, slots=True)
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
    """Why nothing was built, or empty."""
    fragments: int = 0
    """How many fragments were indexed now."""
    rows: int = 0
    """How many rows were indexed now."""
    segments: int = 0
    """How many segments of the index were built now; 0 when nothing was."""

    def to_json(self) -> dict[str, Fact]:
        """The same as a dictionary."""
        return {
            "table_key": self.table_key,
            "property": self.property,
            "kind": self.kind.value,
            "status": self.status.value,
            "reason": self.reason or None,
            "fragments": self.fragments,
            "rows": self.rows,
            "segments": self.segments,
        }


@dataclass(frozen=True, slots=True, repr=False)
class IndexResult(Displayed):
    """What ensuring indexes did."""

    branch: str
    """The branch."""
    indexes: tuple[IndexRow, ...]
    """Every declared index, in the order of the schema."""
    commit: CommitRecord | None
    """The one commit, or None when nothing was built."""

    def summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            **{f"{row.table_key} {row.property}": row.status.value for row in self.indexes},
        }

    @property
    def built(self) -> tuple[IndexRow, ...]:
        """What was built, extended or rebuilt."""
        return tuple(row for row in self.indexes if row.segments)

    @property
    def pending(self) -> tuple[IndexRow, ...]:
        """What could not be built, each with its reason."""
        return tuple(row for row in self.indexes if row.status is IndexStatus.SKIPPED)

    def to_json(self) -> dict[str, Fact]:
        """The same as a dictionary, with the commit's id."""
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            "indexes": [row.to_json() for row in self.indexes],
        }


class SkipReason(StrEnum):
    """Why a table, or its compaction, was left alone."""

    DRIFT_NEEDS_REPAIR = "DriftNeedsRepair"
    """Another tool changed the table: `repair` comes first."""
    BLOB_COLUMNS_UNSUPPORTED_BY_LANCE = "BlobColumnsUnsupportedByLance"
    """Lance cannot compact a table with blobs; its indexes are done."""
    CONFLICTING_WRITES = "ConflictingWrites"
    """A compaction, an overwrite or a schema change by others replaced what was rewritten: run it again."""
    NOT_WRITTEN_ON_BRANCH = "NotWrittenOnBranch"
    """The branch reads another branch's table; name the table to copy and optimize it."""


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that cannot be built, and why. Not an error."""

    property: str
    """The column."""
    reason: str
    """Why not, such as a vector column without vectors."""

    def to_json(self) -> dict[str, Fact]:
        """The same as a dictionary."""
        return {"property": self.property, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TableOptimizeStats:
    """What optimize did to one table, or in a dry run would do."""

    table_key: str
    """The table, `node:Person`, or `__manifest`, the table of tables."""
    branch: str
    """The branch."""
    manifest_version: int
    """The published Lance version of the table."""
    lance_head_version: int
    """Its newest Lance version; another one than the published is drift."""
    fragments_removed: int = 0
    """How many fragments were merged or rewritten."""
    fragments_added: int = 0
    """How many took their place."""
    bytes_before: int = 0
    """The size of its data files before."""
    bytes_after: int = 0
    """The size of its data files afterwards; an estimate in a dry run."""
    committed: bool = False
    """Whether anything changed."""
    skipped: SkipReason | None = None
    """Why it, or its compaction, was left alone; None when it was not."""
    pending_indexes: tuple[PendingIndex, ...] = ()
    """Declared indexes that cannot be built yet."""
    seconds: float = 0.0
    """The work on this table, its tasks added up."""
    indexes_folded: tuple[str, ...] = ()
    """The columns whose indexes took in the rows that they did not cover."""
    indexes_built: tuple[str, ...] = ()
    """The columns whose indexes are new."""
    stripped: bool = False
    """Whether settings of Lance for automatic cleanup were removed."""
    commit: str | None = None
    """The graph commit that published it, or None."""
    error: str | None = None
    """Why it failed while the others went on, or None."""

    def to_json(self) -> dict[str, Fact]:
        """As a table of `omnigraph optimize --json`."""
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
            "seconds": round(self.seconds, 3),
            "indexes_folded": list(self.indexes_folded),
            "indexes_built": list(self.indexes_built),
            "stripped": self.stripped,
            "commit": self.commit,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """How to optimize."""

    tables: frozenset[str] | None = None
    """Types by name or alias; None: all."""
    dry_run: bool = False
    """Only plan."""
    partial_progress: bool = False
    """Commit groups of tasks as they finish, so that an interrupted run loses little."""
    rows_per_task: int | None = None
    """How many rows one task rewrites at most; None: about a million."""
    tasks_max: int | None = None
    """How many tasks a run takes on at most; None: all. Several runs converge."""
    blobs_compact: bool = LANCE_SUPPORTS_BLOB_COMPACTION
    """Whether Lance compacts tables with blobs; tests inject it."""
    world: WriteEnvironment = field(default_factory=WriteEnvironment)

    def validate(self) -> None:
        """Raise for a bound that lets nothing be done."""
        for name, value in (("rows of a task", self.rows_per_task), ("tasks", self.tasks_max)):
            if value is not None and value < 1:
                raise UsageError(
                    f"the number of {name} at most is {value}, and nothing can be done within it",
                    code="bound_too_small",
                    hint="pass a whole number from 1 on",
                )

    @property
    def bounds(self) -> RewriteBounds:
        """How large a rewritten fragment gets."""
        return RewriteBounds(rows=min(limits.COMPACTION_ROWS, self.rows_per_task or limits.COMPACTION_ROWS))
