"""What optimize did, or in a dry run would do, to each table: values with the names of the specification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import Fact


class SkipReason(StrEnum):
    """Why a table, or its compaction, was left alone."""

    DRIFT_NEEDS_REPAIR = "DriftNeedsRepair"
    BLOB_COLUMNS_UNSUPPORTED_BY_LANCE = "BlobColumnsUnsupportedByLance"
    CONFLICTING_WRITES = "ConflictingWrites"
    NOT_WRITTEN_ON_BRANCH = "NotWrittenOnBranch"


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that cannot be built, and why. Not an error."""

    property: str
    reason: str

    def to_json(self) -> dict[str, Fact]:
        return {"property": self.property, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TableOptimizeStats:
    """One table. `bytes_…` are those of its data files; `indexes_…` name the columns.

    `stripped`: settings for automatic cleanup were removed. `commit`: the graph commit that published the last change
    of the table. `error`: why it was left as it was while the others went on.
    """

    table_key: str
    branch: str
    manifest_version: int
    lance_head_version: int
    fragments_removed: int = 0
    fragments_added: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    committed: bool = False
    skipped: SkipReason | None = None
    pending_indexes: tuple[PendingIndex, ...] = ()
    seconds: float = 0.0
    indexes_folded: tuple[str, ...] = ()
    indexes_built: tuple[str, ...] = ()
    stripped: bool = False
    commit: str | None = None
    error: str | None = None

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
            "seconds": round(self.seconds, 3),
            "indexes_folded": list(self.indexes_folded),
            "indexes_built": list(self.indexes_built),
            "stripped": self.stripped,
            "commit": self.commit,
            "error": self.error,
        }
