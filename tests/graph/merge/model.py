"""The model of merging: whole graphs as dicts, a commit graph by hand, and the three-way rule entity by entity.

A graph maps a table to its entities, an entity to its value. An edge `Knows` named x joins the Person x to itself, as
in `tests/graph/writers`. A conflict is its kind, its table and its id. `schemas` adds schemas that change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from omnigraph.graph.merge.conflicts import Conflict
from tests.graph.writers import KNOWS, PERSON, Contents

Found = set[tuple[str, str, str]]


class Undecided:
    """The value of an entity over which two bases contradict each other: like nothing else, not even itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


UNDECIDED: Final = Undecided()
ABSENT: Final = "absent"


def merge_states(base: Contents, ours: Contents, theirs: Contents) -> tuple[Contents, Found]:
    """What the merge makes of ours, where conflicts leave it as it is, and the conflicts."""
    merged: Contents = {table: dict(rows) for table, rows in ours.items()}
    found: Found = set()
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
                found.add(("delete_vs_update", table, name))
            else:
                kind = "divergent_insert" if b == ABSENT else "divergent_update"
                found.add((kind, table, name))
    lonely = {("orphan_edge", KNOWS, name) for name in merged[KNOWS] if name not in merged[PERSON]}
    return merged, found | lonely


def found_conflicts(conflicts: tuple[Conflict, ...]) -> Found:
    """The same of what the merge reports."""
    found = set()
    for conflict in conflicts:
        table, name = ("", "") if conflict.entity is None else (conflict.entity.table, conflict.entity.id)
        found.add((conflict.kind.value, table, name))
    return found


Merge = Callable[[Contents, Contents, Contents], tuple[Contents, Found]]


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """One commit: what it contained, and where it comes from."""

    parents: tuple[str, ...]
    state: Contents


@dataclass(slots=True)
class History:
    """The commit graph."""

    commits: dict[str, ModelCommit] = field(default_factory=dict)
    merge: Merge = merge_states

    def ancestors(self, *tips: str) -> set[str]:
        found = set(tips)
        for tip in tips:
            for parent in self.commits[tip].parents:
                found |= self.ancestors(parent)
        return found

    def base(self, ours: set[str], theirs: set[str]) -> Contents:
        """The state that both sides come from; where histories criss-cross, the merge of several such states."""
        common = self.ancestors(*ours) & self.ancestors(*theirs)
        best = sorted(c for c in common if not any(c in self.ancestors(o) - {o} for o in common))
        state = self.commits[best[0]].state
        for at, other in enumerate(best[1:], start=1):
            below = self.base(set(best[:at]), {other})
            state = self.joined(below, state, self.commits[other].state)
        return state

    def joined(self, base: Contents, left: Contents, right: Contents) -> Contents:
        joined, conflicts = self.merge(base, left, right)
        for kind, table, name in conflicts:
            if kind != "orphan_edge":
                joined[table][name] = UNDECIDED
        return joined
