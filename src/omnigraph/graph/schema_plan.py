"""Plan a change of the schema of a branch: the steps, their cost, and what is not supported.

In: a snapshot and the text of the desired schema. Out: a `SchemaPlan`. Row counts come from the snapshot, so only the
manifest is read, and the columns whose nulls get a default, to count the nulls. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from omnigraph.base.display import Displayed
from omnigraph.base.errors import Fact, RefusedError, fact_rows, list_all
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import CommitId, TypeId
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.schema.evolution.apply import next_catalog, raise_counters
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    Cost,
    EvolutionStep,
    RequiredRule,
    TypeStep,
    Unsupported,
    UpdateText,
)
from omnigraph.schema.evolution.type_diff import find_null_replacements
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.lance.dataset import Dataset

NullCounts = Mapping[TypeId, Mapping[str, int]]
"""The number of nulls by type and by the new name of the property."""


class UnsupportedSchemaChangeError(RefusedError):
    """The desired schema needs changes that are not supported; all of them are listed."""

    def render(self) -> str:
        lines = [f"{change['code']} {change['text']}" for change in fact_rows(self.facts, "unsupported")]
        return list_all(f"{len(lines)} changes are not supported", lines) if len(lines) > 1 else self.message


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a schema plan."""

    step: EvolutionStep
    cost: Cost
    """How its time grows with the rows."""
    rows: int
    """The number of rows of its type."""
    filled_rows: int = 0
    """The number of rows that get a default: all if the property is new, those with null if it becomes required."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SchemaPlan(Displayed):
    """The steps from the schema of a branch to another schema."""

    branch: str
    """Its branch."""
    commit: CommitId
    """The newest commit of the branch when the plan was made."""
    source: str
    """The `.pg` text of the desired schema."""
    catalog: Catalog
    """The accepted schema after the steps."""
    steps: tuple[PlannedStep, ...]
    """The steps, in order; empty if the branch has the schema already."""
    unsupported: tuple[Unsupported, ...]
    """The changes that are not supported; if there is one, nothing is done."""
    counter_catalog: Catalog | None
    """The catalog before the steps, from whose counters they assign ids; None if nothing gets an id."""
    null_counts: Mapping[TypeId, Mapping[str, int]] = field(default_factory=dict)
    """For each type, the number of nulls in the properties that become required with a default."""

    @property
    def can_apply(self) -> bool:
        """Whether every change is supported."""
        return not self.unsupported

    def _summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch,
            "can_apply": self.can_apply,
            **{f"step {number}": planned.step.describe() for number, planned in enumerate(self.steps, 1)},
            **{f"unsupported {number}": change.describe() for number, change in enumerate(self.unsupported, 1)},
        }

    def require_supported(self) -> None:
        """Raise `UnsupportedSchemaChangeError` unless every change is supported."""
        if self.can_apply:
            return
        first, more = self.unsupported[0], len(self.unsupported) - 1
        raise UnsupportedSchemaChangeError(
            f"{first.code.code} {first.describe()}{f' (and {more} more)' if more else ''}",
            code=first.code.code,
            hint=hint(f"{first.code.advice.rstrip('.')}. Run {{}} for advice on each change.", action("schema plan"))
            if more
            else first.code.advice,
            facts={"unsupported": [refusal_to_json(change) for change in self.unsupported]},
        )


def plan_schema(
    snapshot: Snapshot,
    source: str,
    *,
    source_name: str = "<schema>",
    hard: bool = False,
    others: Iterable[Catalog] = (),
) -> SchemaPlan:
    """Return the plan from the schema of the snapshot to that of the text; raise `SchemaTextError` if it is invalid.

    `hard`: dropped values must not be readable again. `others`: catalogs whose ids are not assigned again.
    """
    desired = build_catalog(parse_schema(source, source_name))
    accepted = raise_counters(snapshot.schema.catalog, others)
    rows = {TypeId(table.type_id): table.row_count for table in snapshot.tables.values()}
    difference = find_steps(accepted, desired, rows, hard=hard)
    catalog = next_catalog(accepted, difference.steps) if not difference.unsupported else accepted
    nulls = read_null_counts(snapshot, catalog)
    steps = tuple(planned_step(step, rows, nulls) for step in difference.steps)
    if not steps and not difference.unsupported and source != snapshot.schema.source:
        steps = (planned_step(UpdateText(), rows),)
    adds = any(isinstance(step, AddType | AddProperty) for step in difference.steps)
    counter_catalog = accepted if adds else None
    head = snapshot.head
    return SchemaPlan(
        branch=snapshot.branch.name,
        commit=head,
        source=source,
        catalog=catalog,
        steps=steps,
        unsupported=difference.unsupported,
        counter_catalog=counter_catalog,
        null_counts=nulls,
    )


def read_null_counts(before: Snapshot, after: Catalog) -> NullCounts:
    """Count the nulls that get a value on the way to a later catalog. Only the columns concerned are read."""
    counts: dict[TypeId, dict[str, int]] = {}
    for old in before.schema.catalog.types:
        new = after.same_type(old)
        table = before.tables[old.alias]
        if new is None or not (names := find_null_replacements(old, new)):
            continue
        is_empty = not table.row_count
        counts[old.id] = dict.fromkeys(names, 0) if is_empty else count_nulls(open_table(before.root, table), old, new)
    return counts


def count_nulls(dataset: Dataset, old: Entity, new: Entity) -> dict[str, int]:
    """Count the rows of a table that get a value for null, by property."""
    return {
        name: dataset.count_rows(f"`{before}` IS NULL")
        for name, (before, _) in find_null_replacements(old, new).items()
    }


def planned_step(
    step: EvolutionStep, rows: Mapping[TypeId, int], nulls: NullCounts = MappingProxyType({})
) -> PlannedStep:
    """Return a step with its cost, from the rows of each type and the nulls that get a default."""
    if isinstance(step, AddType) or not isinstance(step, TypeStep):
        return PlannedStep(step, step.cost(0), 0)
    size, filled = rows.get(step.type_id, 0), 0
    match step:
        case AddProperty(property=added) if added.value_of_older_rows is not None:
            filled = size
        case AddConstraint(constraint=RequiredRule(name, fill)) if fill is not None:
            filled = nulls.get(step.type_id, {}).get(name, 0)
    return PlannedStep(step, step.cost(size, filled), size, filled)


def refusal_to_json(change: Unsupported) -> dict[str, Fact]:
    """Return one unsupported change for programs."""
    return {
        "code": change.code.code,
        "table_key": change.alias,
        "property": change.property,
        "text": change.describe(),
        "meaning": change.code.meaning,
        "hint": change.code.advice,
    }
