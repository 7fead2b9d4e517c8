"""What it takes to bring a branch to another schema: the steps, what each costs, and what is refused.

In: a snapshot and the text of the desired schema. Out: a `SchemaPlan`. Row counts come from the snapshot, so only the
manifest is read, whatever the number of types and rows, and the columns whose nulls get a default, to count the nulls.
Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from omnigraph.base.errors import Fact, RefusedError, fact_rows, list_all
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
    RequiredRule,
    Step,
    Unsupported,
    UpdateInterfaces,
    UpdateText,
    cost_of,
    kind_of,
    text_of,
)
from omnigraph.schema.evolution.type_diff import null_filled
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.lance.dataset import Dataset

NullCounts = Mapping[TypeId, Mapping[str, int]]
"""The number of nulls by type and by the new name of the property."""

_EACH: Final = "; `schema plan`, in Python `plan_schema`, tells what to do about each"


class UnsupportedSchemaChangeError(RefusedError):
    """The desired schema needs a change that is not supported; all such changes are listed."""

    def render(self) -> str:
        lines = [f"{found['code']} {found['text']}" for found in fact_rows(self.facts, "unsupported")]
        return list_all(f"{len(lines)} changes are refused", lines) if len(lines) > 1 else self.message


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step on the way to a schema. What it does is told by `to_json()`."""

    step: Step
    cost: Cost
    """How its time grows with the rows."""
    rows: int
    """How many rows its type has."""
    filled_rows: int = 0
    """How many of them get a default: all if the property is new, those with null if it becomes required."""

    def to_json(self) -> dict[str, Fact]:
        """`step` is its kind, `table_key` the type, `text` a sentence, the others as here."""
        table = None if isinstance(self.step, UpdateInterfaces | UpdateText) else self.step.alias
        return {
            "step": kind_of(self.step),
            "table_key": table,
            "text": text_of(self.step),
            "cost": self.cost.value,
            "rows": self.rows,
            "filled_rows": self.filled_rows,
        }


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """The way of a branch to a schema."""

    branch: str
    """The branch that it is for."""
    commit: CommitId
    """The newest commit of the branch when it was made."""
    source: str
    """The `.pg` text of the desired schema."""
    catalog: Catalog
    """The accepted schema after the steps."""
    steps: tuple[PlannedStep, ...]
    """What would be done, in this order; none when the branch has the schema already."""
    unsupported: tuple[Unsupported, ...]
    """What is refused; one is enough for nothing to be done."""
    counted: Catalog | None
    """The one before them, from whose counters they give ids; None when nothing gets an id."""
    null_counts: Mapping[TypeId, Mapping[str, int]] = field(default_factory=dict)
    """For each type the number of nulls in the properties that become required with a default."""

    @property
    def can_apply(self) -> bool:
        """Whether nothing is refused."""
        return not self.unsupported

    def refuse_unsupported(self) -> None:
        """Raise `UnsupportedSchemaChangeError` unless every change is supported."""
        if self.can_apply:
            return
        first, more = self.unsupported[0], len(self.unsupported) - 1
        raise UnsupportedSchemaChangeError(
            f"{first.code.code} {refusal_text(first)}{f' (and {more} more)' if more else ''}",
            code=first.code.code,
            hint=f"{first.code.advice}{_EACH if more else ''}",
            facts={"unsupported": [refusal_to_json(found) for found in self.unsupported]},
        )

    def to_json(self) -> dict[str, Fact]:
        """As `omnigraph schema plan --json` prints it."""
        return {
            "graph_branch": self.branch,
            "graph_commit_id": self.commit,
            "can_apply": self.can_apply,
            "steps": [step.to_json() for step in self.steps],
            "unsupported": [refusal_to_json(found) for found in self.unsupported],
        }


def plan_schema(
    snapshot: Snapshot,
    source: str,
    *,
    source_name: str = "<schema>",
    hard: bool = False,
    others: Iterable[Catalog] = (),
) -> SchemaPlan:
    """The plan from the snapshot's schema to the one of the text; raise `SchemaTextError` when it is none.

    `hard`: what is dropped shall not be read again. `others`: catalogs whose ids are not given a second time.
    """
    desired = build_catalog(parse_schema(source, source_name))
    accepted = raise_counters(snapshot.schema.catalog, others)
    rows = {TypeId(table.type_id): table.row_count for table in snapshot.tables.values()}
    found = find_steps(accepted, desired, rows, hard=hard)
    catalog = next_catalog(accepted, found.steps) if not found.unsupported else accepted
    nulls = read_null_counts(snapshot, catalog)
    steps = tuple(planned_step(step, rows, nulls) for step in found.steps)
    if not steps and not found.unsupported and source != snapshot.schema.source:
        steps = (planned_step(UpdateText(), rows),)
    adds = any(isinstance(step, AddType | AddProperty) for step in found.steps)
    counted = accepted if adds else None
    head = snapshot.head
    return SchemaPlan(
        snapshot.branch.name, head, source, catalog, steps, found.unsupported, counted, null_counts=nulls
    )


def read_null_counts(before: Snapshot, after: Catalog) -> NullCounts:
    """Count the nulls that get a value on the way to a later catalog. Reads only the columns concerned."""
    counts: dict[TypeId, dict[str, int]] = {}
    for old in before.schema.catalog.types:
        new = after.type_with_id(old.id)
        table = before.tables[old.alias]
        if new is None or new.incarnation != old.incarnation or not (names := null_filled(old, new)):
            continue
        is_empty = not table.row_count
        counts[old.id] = (
            dict.fromkeys(names, 0) if is_empty else count_nulls(open_table(before.root, table), old, new)
        )
    return counts


def count_nulls(dataset: Dataset, old: Entity, new: Entity) -> dict[str, int]:
    """Count the rows of a table that get a value for null, by property."""
    return {
        name: dataset.count_rows(f"`{before}` IS NULL") for name, (before, _) in null_filled(old, new).items()
    }


def planned_step(
    step: Step, rows: Mapping[TypeId, int], nulls: NullCounts = MappingProxyType({})
) -> PlannedStep:
    """A step with what it costs on types that have so many rows, and so many nulls that get a default."""
    if isinstance(step, AddType | UpdateInterfaces | UpdateText):
        return PlannedStep(step, cost_of(step, 0), 0)
    size, filled = rows.get(step.type_id, 0), 0
    match step:
        case AddProperty(property=added) if added.fill is not None:
            filled = size
        case AddConstraint(constraint=RequiredRule(name, fill)) if fill is not None:
            filled = nulls.get(step.type_id, {}).get(name, 0)
    return PlannedStep(step, cost_of(step, size, filled), size, filled)


def refusal_text(found: Unsupported) -> str:
    """One refused change in a sentence."""
    place = found.alias if found.property is None else f"{found.alias}.{found.property}"
    return f"{place}: {found.detail}"


def refusal_to_json(found: Unsupported) -> dict[str, Fact]:
    """One refused change for programs."""
    return {
        "code": found.code.code,
        "table_key": found.alias,
        "property": found.property,
        "text": refusal_text(found),
        "meaning": found.code.meaning,
        "hint": found.code.advice,
    }
