"""What ensuring indexes did, one row per declared index, as values that print and turn into JSON."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.errors import Fact
from omnigraph.graph.records import CommitRecord
from omnigraph.maintenance.index_plan import IndexStatus
from omnigraph.schema.indexable import IndexKind


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One declared index. `fragments`, `rows` and `segments` are what was built now; `reason` says why nothing was."""

    table_key: str
    property: str
    kind: IndexKind
    status: IndexStatus
    reason: str = ""
    fragments: int = 0
    rows: int = 0
    segments: int = 0

    def to_json(self) -> dict[str, Fact]:
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


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """The rows in the order of the schema, and the one commit, or None when nothing was built."""

    branch: str
    indexes: tuple[IndexRow, ...]
    commit: CommitRecord | None

    @property
    def built(self) -> tuple[IndexRow, ...]:
        """What was built, extended or rebuilt."""
        return tuple(row for row in self.indexes if row.segments)

    @property
    def pending(self) -> tuple[IndexRow, ...]:
        """What could not be built, each with its reason."""
        return tuple(row for row in self.indexes if row.status is IndexStatus.SKIPPED)

    def to_json(self) -> dict[str, Fact]:
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            "indexes": [row.to_json() for row in self.indexes],
        }
