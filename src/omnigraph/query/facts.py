"""What is known about the tables when a query is planned: sizes and index coverage.

A small value that whoever has the snapshot fills in. Nothing in it changes what a query means; without it plans are
only made with less knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from omnigraph.schema.indexable import IndexKind


@dataclass(frozen=True, slots=True)
class IndexFact:
    """An index that exists, and what it leaves out."""

    column: str
    kind: IndexKind
    uncovered_fragments: int = 0
    uncovered_rows: int = 0


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table: how many rows it has, if that is known, and its indexes."""

    rows: int | None = None
    indexes: tuple[IndexFact, ...] = ()

    def index(self, column: str, kind: IndexKind) -> IndexFact | None:
        """The index of this kind on a column."""
        return next((found for found in self.indexes if (found.column, found.kind) == (column, kind)), None)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The tables by alias (`node:Person`)."""

    tables: Mapping[str, TableFacts] = field(default_factory=dict)

    def table(self, alias: str) -> TableFacts:
        return self.tables.get(alias, _UNKNOWN)


_UNKNOWN: Final = TableFacts()
NO_FACTS: Final = PlanFacts()
