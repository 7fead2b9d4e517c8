"""What optimize did, or in a dry run would do, to each table: values with the names of the specification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import Fact


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
