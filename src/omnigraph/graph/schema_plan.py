"""What it takes to bring a branch to another schema: the steps, what each costs, and what is refused.

In: a snapshot and the text of the desired schema. Out: a `SchemaPlan`. Row counts come from the snapshot, so nothing
but the manifest was read, whatever the number of types and rows. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base.errors import Fact, RefusedError, fact_rows, list_all
from omnigraph.base.ids import CommitId, TypeId
from omnigraph.graph.snapshot import Snapshot
from omnigraph.schema import Catalog, build_catalog, parse_schema
from omnigraph.schema.evolution import (
    AddProperty,
    AddType,
    Cost,
    Step,
    Unsupported,
    UpdateInterfaces,
    UpdateText,
    cost_of,
    find_steps,
    kind_of,
    next_catalog,
    raise_counters,
    text_of,
)

_EACH: Final = "; `schema plan`, in Python `plan_schema`, tells what to do about each"


class SchemaRefusedError(RefusedError):
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

    def to_json(self) -> dict[str, Fact]:
        """`step` is its kind, `table_key` the type, `text` a sentence, and `cost` and `rows` as here."""
        table = None if isinstance(self.step, UpdateInterfaces | UpdateText) else self.step.alias
        return {
            "step": kind_of(self.step),
            "table_key": table,
            "text": text_of(self.step),
            "cost": self.cost.value,
            "rows": self.rows,
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

    @property
    def can_apply(self) -> bool:
        """Whether nothing is refused."""
        return not self.unsupported

    def refuse_unsupported(self) -> None:
        """Raise `SchemaRefusedError` unless every change is supported."""
        if self.can_apply:
            return
        first, more = self.unsupported[0], len(self.unsupported) - 1
        raise SchemaRefusedError(
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
    steps = tuple(planned_step(step, rows) for step in found.steps)
    if not steps and not found.unsupported and source != snapshot.schema.source:
        steps = (planned_step(UpdateText(), rows),)
    catalog = next_catalog(accepted, found.steps) if not found.unsupported else accepted
    adds = any(isinstance(step, AddType | AddProperty) for step in found.steps)
    counted = accepted if adds else None
    return SchemaPlan(snapshot.branch.name, snapshot.head, source, catalog, steps, found.unsupported, counted)


def planned_step(step: Step, rows: Mapping[TypeId, int]) -> PlannedStep:
    """A step with what it costs on types that have so many rows."""
    size = 0 if isinstance(step, AddType | UpdateInterfaces | UpdateText) else rows.get(step.type_id, 0)
    return PlannedStep(step, cost_of(step, size), size)


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
