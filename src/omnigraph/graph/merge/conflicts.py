"""Conflicts as values: the kind, the entity and what differs, for people and for programs.

In: what planning a merge found. Out: `Conflict` values and the error that lists all of them. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, Fact
from omnigraph.base.hints import Argument, Hint, OneOf, Placeholder, action, hint

_VALUE_LENGTH_MAX: Final = 40


class ConflictKind(StrEnum):
    """Why a merge needs a decision."""

    DIVERGENT_INSERT = "divergent_insert"
    """Both sides inserted an entity with this id, and they differ."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both sides changed it, and they differ."""
    DELETE_VS_UPDATE = "delete_vs_update"
    """One side deleted what the other changed."""
    ORPHAN_EDGE = "orphan_edge"
    """An edge of one side has an endpoint that the other side deleted."""
    UNIQUE_VIOLATION = "unique_violation"
    """Two entities would have the same `@unique` values."""
    CARDINALITY_VIOLATION = "cardinality_violation"
    """A node would have more or fewer edges than `@card` allows."""
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    """A value breaks a rule of the schema."""
    SCHEMA_DIVERGED = "schema_diverged"
    """Both sides changed the schema, in ways that cannot be combined."""


class Side(StrEnum):
    """The side whose state of an entity is used."""

    OURS = "ours"
    """The target's."""
    THEIRS = "theirs"
    """The source's."""


@dataclass(frozen=True, slots=True)
class EntityName:
    """The name of a node or an edge."""

    table: str
    """Its type, `node:Person` or `edge:Knows`."""
    id: str
    """Its id."""

    def describe(self) -> str:
        """Return text such as `Person ada`."""
        return f"{self.table.partition(':')[2]} {self.id}"


@dataclass(frozen=True, slots=True)
class EntityStates:
    """An entity in three states, each as a line of JSON; None where it does not exist."""

    base: str | None
    """In the common base."""
    ours: str | None
    """In the target."""
    theirs: str | None
    """In the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One entity, or the schema, on which both sides differ."""

    kind: ConflictKind
    """Why it is a conflict."""
    entity: EntityName | None
    """The node or edge; None if it is about the whole graph."""
    message: str
    """What is wrong, as text."""
    properties: tuple[str, ...] = ()
    """The properties that differ."""
    ours: tuple[EntityName, ...] = ()
    """The entities that get the state of the target if `ours` is chosen; empty: that does not resolve it."""
    theirs: tuple[EntityName, ...] = ()
    """The entities that get the state of the source if `theirs` is chosen; empty: that does not resolve it."""
    states: EntityStates | None = None
    """The entity on both sides; None if the conflict is about the schema."""
    plans: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What the target and the source did to the schema, each as sentences."""

    def describe(self) -> str:
        """Return one line of text."""
        where = "" if self.entity is None else f"{self.entity.describe()}: "
        values = "" if self.states is None else describe_states(self.states)
        shown = f" ({values})" if values else ""
        return f"{self.kind}: {where}{self.message}{shown}{_describe_plans(self.plans)}"

    def to_json(self) -> dict[str, Fact]:
        """Return the conflict as in `merge_conflicts` of `omnigraph branch merge --json`."""
        entity = self.entity
        entity_kind, _, type_name = (None,) * 3 if entity is None else entity.table.partition(":")
        return {
            "entity_kind": entity_kind,
            "type_name": type_name,
            "entity_id": None if entity is None else entity.id,
            "kind": self.kind.value,
            "message": self.message,
            "text": self.describe(),
            "properties": list(self.properties),
            **_states_json(self.states or EntityStates(None, None, None)),
            **(
                {"plans": {"ours": list(self.plans[0]), "theirs": list(self.plans[1])}}
                if self.kind is ConflictKind.SCHEMA_DIVERGED
                else {}
            ),
        }


class MergeConflictError(ConflictError):
    """Both sides changed the same entities; nothing was written."""

    applied = Applied.NO

    def __init__(self, operation: str, conflicts: tuple[Conflict, ...]) -> None:
        counts = Counter(conflict.kind.value for conflict in conflicts)
        summary = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
        super().__init__(
            f"{operation} has conflicts: {summary}",
            code="merge_conflicts",
            hint=hint("Nothing was written.") + _advice(conflicts),
            facts={"merge_conflicts": [conflict.to_json() for conflict in conflicts], "total": len(conflicts)},
        )
        self.conflicts = conflicts

    def render(self) -> str:
        """Return the first conflicts, one per line."""
        shown = [f"  {conflict.describe()}" for conflict in self.conflicts[: limits.CONFLICTS_SHOWN_MAX]]
        more = len(self.conflicts) - len(shown)
        tail = [f"  and {more:,} more; `conflicts` of the error and the JSON output have all of them"] if more else []
        return "\n".join([self.message, *shown, *tail])


def _advice(conflicts: tuple[Conflict, ...]) -> Hint:
    """Return what the caller can do. A strategy is offered only if that side resolves every conflict."""
    if any(conflict.kind is ConflictKind.SCHEMA_DIVERGED for conflict in conflicts):
        return hint("Change the schema of one side with {}. No strategy resolves it.", action("schema apply"))
    resolve = Argument("resolve", Placeholder("FILE"))
    ours = all(conflict.ours for conflict in conflicts)
    theirs = all(conflict.theirs for conflict in conflicts)
    if ours and theirs:
        strategy = Argument("strategy", OneOf((Side.OURS.value, Side.THEIRS.value)))
        return hint("Pass {} or {}, or change one side.", strategy, resolve)
    if ours or theirs:
        strategy = Argument("strategy", (Side.OURS if ours else Side.THEIRS).value)
        rows, rule = ("source", "target") if ours else ("target", "source")
        text = f"Rows of the {rows} break a rule of the {rule}: pass {{}} or {{}}, or change one side."
        return hint(text, strategy, resolve)
    if all(conflict.ours or conflict.theirs for conflict in conflicts):
        return hint("Choose a side for each conflict with {}, or change one side.", resolve)
    return hint("Change one side. No strategy resolves all conflicts.")


def _describe_plans(plans: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    if not any(plans):
        return ""
    sides = zip(("the target", "the source"), plans, strict=True)
    return "".join(f"\n    {side}: {'; '.join(steps) or 'no change'}" for side, steps in sides)


def describe_states(states: EntityStates) -> str:
    """Return the values that differ, as `age 36, ours 41, theirs 42`; for an edge of one side, its endpoints.

    The base is first and has no label. A state without the entity is omitted.
    """
    sides = (("", states.base), ("ours ", states.ours), ("theirs ", states.theirs))
    present = [(label, _values(state)) for label, state in sides if state is not None]
    if len(present) == 1:
        ((_, values),) = present
        return f"{_short_json(values['from'])} → {_short_json(values['to'])}" if "from" in values else ""
    parts = []
    for name in {name: None for _, values in present for name in values}:
        named_values = [(label, values.get(name)) for label, values in present]
        if any(value != named_values[0][1] for _, value in named_values):
            parts.append(f"{name} {', '.join(label + _short_json(value) for label, value in named_values)}")
    return "; ".join(parts)


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}…"


def _values(state: str) -> dict[str, Any]:
    line = json.loads(state)
    ends = {name: line[name] for name in ("from", "to") if name in line}
    return {**ends, **line["data"]}


def _states_json(states: EntityStates) -> dict[str, Fact]:
    sides = {"base": states.base, "ours": states.ours, "theirs": states.theirs}
    return {name: None if state is None else json.loads(state) for name, state in sides.items()}
