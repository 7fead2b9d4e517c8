"""Conflicts as data: what kind, which entity, what differs; all of them, for people and for programs.

In: what planning a merge found. Out: `Conflict` values and the one error that lists them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from omnigraph.base.errors import Applied, ConflictError, Fact
from omnigraph.base.limits import CONFLICTS_SHOWN_MAX

_SHOWN_MAX: Final = 40


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
class EntityStates:
    """What an entity is in the base and on both sides, as lines of graph data; None where it is not there."""

    base: str | None
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that both sides disagree on.

    `entity` is None when it is about the whole graph. `ours` and `theirs` are the entities that take the side's state
    when somebody chooses that side. `states` are what the entity is; they are read last, for those who decide. `plans`
    are the ways that the schema went on both sides.
    """

    kind: ConflictKind
    entity: EntityName | None
    message: str
    properties: tuple[str, ...] = ()
    ours: tuple[EntityName, ...] = ()
    theirs: tuple[EntityName, ...] = ()
    states: EntityStates | None = None
    plans: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def describe(self) -> str:
        """One line for people."""
        where = "" if self.entity is None else f"{self.entity.describe()}: "
        values = "" if self.states is None else describe_states(self.states)
        shown = f" ({values})" if values else ""
        return f"{self.kind}: {where}{self.message}{shown}{_describe_plans(self.plans)}"

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
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
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
        shown = [f"  {conflict.describe()}" for conflict in self.conflicts[:CONFLICTS_SHOWN_MAX]]
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
