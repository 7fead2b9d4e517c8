"""Conflicts as data: what kind, which entity, what differs; all of them, for people and for programs.

In: what planning a merge found. Out: `Conflict` values and the one error that lists them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, Fact

_SHOWN_MAX: Final = 40


class ConflictKind(StrEnum):
    """Why a merge cannot go on by itself."""

    DIVERGENT_INSERT = "divergent_insert"
    """Both sides inserted an entity with this id, and they differ."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both sides changed it, and they differ."""
    DELETE_VS_UPDATE = "delete_vs_update"
    """One side deleted what the other changed."""
    ORPHAN_EDGE = "orphan_edge"
    """An edge of one side ends at a node that the other deleted."""
    UNIQUE_VIOLATION = "unique_violation"
    """Two entities would have the same `@unique` values."""
    CARDINALITY_VIOLATION = "cardinality_violation"
    """A node would have more or fewer edges than `@card` allows."""
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    """A value breaks a rule of the schema."""
    SCHEMA_DIVERGED = "schema_diverged"
    """Both sides changed the schema, in ways that do not go together."""


class Side(StrEnum):
    """Whose state of an entity is the right one."""

    OURS = "ours"
    """The target's."""
    THEIRS = "theirs"
    """The source's."""


@dataclass(frozen=True, slots=True)
class EntityName:
    """A node or an edge by name."""

    table: str
    """Its type, `node:Person` or `edge:Knows`."""
    id: str
    """Its id."""

    def describe(self) -> str:
        """`Person ada`."""
        return f"{self.table.partition(':')[2]} {self.id}"


@dataclass(frozen=True, slots=True)
class EntityStates:
    """What an entity is in three states, each a line of JSON; None where it is not there."""

    base: str | None
    """When the sides parted."""
    ours: str | None
    """In the target."""
    theirs: str | None
    """In the source."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that both sides disagree on."""

    kind: ConflictKind
    """Why it is one."""
    entity: EntityName | None
    """The node or edge; None when it is about the whole graph."""
    message: str
    """What is wrong, in words."""
    properties: tuple[str, ...] = ()
    """The properties that differ."""
    ours: tuple[EntityName, ...] = ()
    """The entities that become the target's when somebody chooses `ours`; none: that settles nothing."""
    theirs: tuple[EntityName, ...] = ()
    """The entities that become the source's when somebody chooses `theirs`; none: that settles nothing."""
    states: EntityStates | None = None
    """What the entity is on both sides; None when it is about the schema."""
    plans: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What the target and the source did to the schema, each as sentences."""

    def describe(self) -> str:
        """One line for people."""
        where = "" if self.entity is None else f"{self.entity.describe()}: "
        values = "" if self.states is None else describe_states(self.states)
        shown = f" ({values})" if values else ""
        return f"{self.kind}: {where}{self.message}{shown}{_describe_plans(self.plans)}"

    def to_json(self) -> dict[str, Fact]:
        """As in `merge_conflicts` of `omnigraph branch merge --json`."""
        entity = self.entity
        entity_kind, _, type_name = (None,) * 3 if entity is None else entity.table.partition(":")
        return {
            "entity_kind": entity_kind,
            "type_name": type_name,
            "entity_id": None if entity is None else entity.id,
            "kind": self.kind.value,
            "message": self.message,
            "properties": list(self.properties),
            **({} if self.states is None else _objects(self.states)),
            **(
                {"plans": {"ours": list(self.plans[0]), "theirs": list(self.plans[1])}}
                if self.kind is ConflictKind.SCHEMA_DIVERGED
                else {}
            ),
        }


class MergeConflictError(ConflictError):
    """Both sides changed the same; nothing was written."""

    applied = Applied.NO

    def __init__(self, what: str, conflicts: tuple[Conflict, ...]) -> None:
        counts = Counter(conflict.kind.value for conflict in conflicts)
        told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
        super().__init__(
            f"{what} has conflicts: {told}",
            code="merge_conflicts",
            hint=f"nothing was written; {_way_out(conflicts)}",
            facts={
                "merge_conflicts": [conflict.to_json() for conflict in conflicts],
                "total": len(conflicts),
            },
        )
        self.conflicts = conflicts

    def render(self) -> str:
        """The conflicts, each on a line of its own, as many as people read."""
        shown = [f"  {conflict.describe()}" for conflict in self.conflicts[: limits.CONFLICTS_SHOWN_MAX]]
        more = len(self.conflicts) - len(shown)
        tail = (
            [f"  and {more} more; --json lists all of them, and so does `conflicts` in Python"]
            if more
            else []
        )
        return "\n".join([self.message, *shown, *tail])


def _way_out(conflicts: tuple[Conflict, ...]) -> str:
    """What whoever merges can do: only a side that settles every conflict is worth choosing for all of them."""
    if any(conflict.kind is ConflictKind.SCHEMA_DIVERGED for conflict in conflicts):
        return "no choice of a side settles a schema: change that of one side with `omnigraph schema apply`"
    ours = all(conflict.ours for conflict in conflicts)
    theirs = all(conflict.theirs for conflict in conflicts)
    if ours and theirs:
        return "choose with --strategy ours|theirs or --resolve FILE, or change one side"
    if ours or theirs:
        side = Side.OURS if ours else Side.THEIRS
        rows, rule = ("source", "target") if ours else ("target", "source")
        why = f"the rows of the {rows} break a rule of the {rule}"
        return f"{why}: choose with --strategy {side} or --resolve FILE, or change one side"
    if all(conflict.ours or conflict.theirs for conflict in conflicts):
        return "no side settles all of it: choose for each with --resolve FILE, or change one side"
    return "no choice of a side settles all of it: change one side"


def _describe_plans(plans: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    if not any(plans):
        return ""
    sides = zip(("the target", "the source"), plans, strict=True)
    return "".join(f"\n    {side}: {'; '.join(steps) or 'no change'}" for side, steps in sides)


def describe_states(states: EntityStates) -> str:
    """The values in which the states differ, as `age 36, ours 41, theirs 42`; of an edge of one side, its ends.

    The base comes first and without a word; a state that has not got the entity says nothing.
    """
    sides = (("", states.base), ("ours ", states.ours), ("theirs ", states.theirs))
    there = [(word, _values(state)) for word, state in sides if state is not None]
    if len(there) == 1:
        ((_, values),) = there
        return f"{_shown(values['from'])} → {_shown(values['to'])}" if "from" in values else ""
    told = []
    for name in {name: None for _, values in there for name in values}:
        found = [(word, values.get(name)) for word, values in there]
        if any(value != found[0][1] for _, value in found):
            told.append(f"{name} {', '.join(word + _shown(value) for word, value in found)}")
    return "; ".join(told)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _values(state: str) -> dict[str, Any]:
    line = json.loads(state)
    ends = {name: line[name] for name in ("from", "to") if name in line}
    return {**ends, **line["data"]}


def _objects(states: EntityStates) -> dict[str, Fact]:
    sides = {"base": states.base, "ours": states.ours, "theirs": states.theirs}
    return {name: None if state is None else json.loads(state) for name, state in sides.items()}
