"""Choices in a merge: somebody says whose state an entity gets, for one entity or for a kind of conflict.

In: a merge with conflicts, a side per entity, a side per kind of conflict. Out: a plan in which the chosen entities
have the state of the chosen side, whole; it is planned and checked again, because a choice can bring up what it
touches. Both sides are sound by themselves, so choosing one side for everything ends. What is left is still a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, Side
from omnigraph.graph.merge.plan import GraphSides, MergePlan, plan_merge


@dataclass(frozen=True, slots=True)
class Resolution:
    """What to do about conflicts: a side for single entities, and one for each kind of conflict."""

    entities: Mapping[EntityName, Side] = field(default_factory=dict)
    kinds: Mapping[ConflictKind, Side] = field(default_factory=dict)


def plan_resolved(sides: GraphSides, resolution: Resolution) -> MergePlan:
    """Plan a merge with choices. What a single entity was given is never overruled by a kind.

    A choice for an entity also settles what else it is in conflict about: whoever takes an edge takes its nodes.
    """
    choices: dict[EntityName, Side] = dict(resolution.entities)
    if not isinstance(sides.schema, Conflict):
        _check_tables(choices, {*sides.ours.tables, *(table.alias for table in sides.schema.added)})
    plan = plan_merge(replace(sides, choices=choices))
    for _ in range(limits.MERGE_ROUNDS_MAX):
        added: dict[EntityName, Side] = {}
        for conflict in plan.conflicts:
            chosen = None if conflict.entity is None else resolution.entities.get(conflict.entity)
            side = chosen or resolution.kinds.get(conflict.kind)
            names = () if side is None else conflict.ours if side is Side.OURS else conflict.theirs
            added.update({name: side for name in names if side is not None and name not in choices})
        if not added:
            break
        choices |= added
        plan = plan_merge(replace(sides, choices=choices))
    return plan


def _check_tables(choices: Mapping[EntityName, Side], known: set[str]) -> None:
    for name in choices:
        if name.table not in known:
            raise UsageError(
                f"there is no table '{name.table}' to decide about",
                code="merge_decisions",
                hint=f"the tables are: {', '.join(sorted(known))}",
                facts={"table": name.table},
            )
