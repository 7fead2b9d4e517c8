"""What ensuring indexes did, one row per declared index, as values that print and turn into JSON."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.errors import Fact
from omnigraph.graph.records import CommitRecord
from omnigraph.maintenance.index_plan import IndexStatus
from omnigraph.schema.indexable import IndexKind


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


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """What ensuring indexes did."""

    branch: str
    """The branch."""
    indexes: tuple[IndexRow, ...]
    """Every declared index, in the order of the schema."""
    commit: CommitRecord | None
    """The one commit, or None when nothing was built."""

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
