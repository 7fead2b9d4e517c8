"""Conflicts as data: what kind, which entity, what differs; all of them, for people and for programs.

In: what planning a merge found. Out: `Conflict` values and the one error that lists them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import Applied, ConflictError, Fact
from omnigraph.base.limits import CONFLICTS_SHOWN_MAX


class ConflictKind(StrEnum):
    """Why a merge cannot go on by itself."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    SCHEMA_DIVERGED = "schema_diverged"


class Side(StrEnum):
    """Whose state of an entity is the right one: the target's or the source's."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class EntityName:
    """An entity: its table, `node:T` or `edge:E`, and its id."""

    table: str
    id: str

    def describe(self) -> str:
        return f"{self.table.partition(':')[2]} {self.id}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that both sides disagree on.

    `entity` is None when it is about the whole graph. `ours` and `theirs` are the entities that take the side's state
    when somebody chooses that side.
    """

    kind: ConflictKind
    entity: EntityName | None
    message: str
    properties: tuple[str, ...] = ()
    ours: tuple[EntityName, ...] = ()
    theirs: tuple[EntityName, ...] = ()

    def describe(self) -> str:
        """One line for people."""
        where = "" if self.entity is None else f"{self.entity.describe()}: "
        return f"{self.kind}: {where}{self.message}"

    def to_json(self) -> dict[str, Fact]:
        entity = self.entity
        table = None if entity is None else entity.table
        return {
            "kind": self.kind.value,
            "table_key": table,
            "type_name": None if table is None else table.partition(":")[2],
            "id": None if entity is None else entity.id,
            "properties": list(self.properties),
            "message": self.message,
        }


class MergeConflictError(ConflictError):
    """Both sides changed the same; nothing was written."""

    applied = Applied.NO

    def __init__(self, what: str, conflicts: tuple[Conflict, ...]) -> None:
        counts = Counter(conflict.kind.value for conflict in conflicts)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        super().__init__(
            f"{what} has conflicts: {told}",
            code="merge_conflicts",
            hint="nothing was written; choose with --strategy ours|theirs or --resolve FILE, or change one side",
            facts={
                "merge_conflicts": [conflict.to_json() for conflict in conflicts],
                "total": len(conflicts),
            },
        )
        self.conflicts = conflicts

    def render(self) -> str:
        """The conflicts, each on a line of its own, as many as people read."""
        shown = [f"  {conflict.describe()}" for conflict in self.conflicts[:CONFLICTS_SHOWN_MAX]]
        more = len(self.conflicts) - len(shown)
        tail = [f"  and {more} more; --json lists all of them"] if more else []
        return "\n".join([self.message, *shown, *tail])
