"""The model of merging: whole graphs as dicts, a commit graph, and the three-way rule for each entity.

A graph maps a table to its entities, an entity to its value. An edge `Knows` named x joins the Person x to itself, as
in `tests/graph/writers`. A conflict is its kind, its table and its id. `schemas` adds schemas that change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from omnigraph.graph.merge.conflicts import Conflict
from tests.graph.writers import KNOWS, PERSON, Contents

ConflictSet = set[tuple[str, str, str]]


class Undecided:
    """The value of an entity in two conflicting bases. It equals nothing, not even itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


UNDECIDED: Final = Undecided()
ABSENT: Final = "absent"


def merge_states(base: Contents, ours: Contents, theirs: Contents) -> tuple[Contents, ConflictSet]:
    """Return ours after the merge, unchanged where there are conflicts, and the conflicts."""
    merged: Contents = {table: dict(rows) for table, rows in ours.items()}
    conflicts: ConflictSet = set()
    for table in ours:
        for name in ours[table].keys() | theirs[table].keys() | base[table].keys():
            b, o, t = (side[table].get(name, ABSENT) for side in (base, ours, theirs))
            if t in (o, b):
                continue
            if b == o:
                if t == ABSENT:
                    del merged[table][name]
                else:
                    merged[table][name] = t
            elif ABSENT in (o, t):
                conflicts.add(("delete_vs_update", table, name))
            else:
                kind = "divergent_insert" if b == ABSENT else "divergent_update"
                conflicts.add((kind, table, name))
    orphans = {("orphan_edge", KNOWS, name) for name in merged[KNOWS] if name not in merged[PERSON]}
    return merged, conflicts | orphans


def conflict_set(conflicts: tuple[Conflict, ...]) -> ConflictSet:
    """Return the conflicts that a merge reports in the form of the model."""
    result = set()
    for conflict in conflicts:
        table, name = ("", "") if conflict.entity is None else (conflict.entity.table, conflict.entity.id)
        result.add((conflict.kind.value, table, name))
    return result


Merge = Callable[[Contents, Contents, Contents], tuple[Contents, ConflictSet]]


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """One commit: its contents and its parents."""

    parents: tuple[str, ...]
    state: Contents


@dataclass(slots=True)
class History:
    """The commit graph."""

    commits: dict[str, ModelCommit] = field(default_factory=dict)
    merge: Merge = merge_states

    def ancestors(self, *tips: str) -> set[str]:
        reached = set(tips)
        for tip in tips:
            for parent in self.commits[tip].parents:
                reached |= self.ancestors(parent)
        return reached

    def base(self, ours: set[str], theirs: set[str]) -> Contents:
        """Return the state that both sides come from; in criss-cross histories, the merge of several such states."""
        common = self.ancestors(*ours) & self.ancestors(*theirs)
        best = sorted(c for c in common if not any(c in self.ancestors(o) - {o} for o in common))
        state = self.commits[best[0]].state
        for index, other in enumerate(best[1:], start=1):
            below = self.base(set(best[:index]), {other})
            state = self.join(below, state, self.commits[other].state)
        return state

    def join(self, base: Contents, left: Contents, right: Contents) -> Contents:
        joined, conflicts = self.merge(base, left, right)
        for kind, table, name in conflicts:
            if kind != "orphan_edge":
                joined[table][name] = UNDECIDED
        return joined
