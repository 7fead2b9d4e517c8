"""Plan what a merge does to one table: rows of theirs to take, rows of ours to remove, and conflicts.

In: the table on our side, the pins of theirs and of the base, and choices of sides. Out: a `TableMerge`. Only rows
that may differ between the base and theirs are compared: rows that they did not change are kept on our side. Rows are
read in ranges, and only their keys are kept. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.manifest.records import Pin, TableRecord
from omnigraph.graph.merge.candidates import Candidates, TableSides, find_candidates
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, Side
from omnigraph.graph.merge.decide import Verdict, Verdicts, apply_choices, decide
from omnigraph.graph.rows.entity_rows import EntityRows, Mask, RowLocations, differing_columns, row_ranges
from omnigraph.integrity.row_rules import check_rows
from omnigraph.integrity.rules import RuleViolations
from omnigraph.integrity.set_rules import key_columns
from omnigraph.schema.catalog import Entity
from omnigraph.storage.lance.dataset import Texts

Choices = Mapping[EntityName, Side]
"""For some entities, the side whose state they get, whatever the sides did."""

_KINDS = {
    Verdict.DIVERGENT_INSERT: ConflictKind.DIVERGENT_INSERT,
    Verdict.DIVERGENT_UPDATE: ConflictKind.DIVERGENT_UPDATE,
    Verdict.DELETE_VS_UPDATE: ConflictKind.DELETE_VS_UPDATE,
}


@dataclass(frozen=True, slots=True, eq=False)
class TableMerge:
    """One table of a merge. `taken` are locations of rows on their side, `replaced` those of the same ids on ours.

    `keys` are the columns of the taken rows that rules over several rows read.
    """

    entity: Entity
    table: TableRecord
    theirs: Pin
    taken: RowLocations
    replaced: RowLocations
    removed: RowLocations
    keys: pa.Table
    conflicts: tuple[Conflict, ...]

    @property
    def inserted_rows(self) -> int:
        return int((~self.replaced.present).sum())

    @property
    def updated_rows(self) -> int:
        return int(self.replaced.present.sum())

    @property
    def removed_rows(self) -> int:
        return len(self.removed.ids)

    @property
    def is_empty(self) -> bool:
        return not (len(self.taken.ids) or len(self.removed.ids) or self.conflicts)


def plan_table(sides: TableSides) -> TableMerge:
    """Decide about every row that they may have changed."""
    decision = _TableDecision(sides, find_candidates(sides))
    for start, rows in row_ranges(sides.entity, len(decision.candidates.ids)):
        decision.add(start, rows)
    return decision.plan()


@dataclass(slots=True)
class _TableDecision:
    """A table while its ranges are decided."""

    sides: TableSides
    candidates: Candidates
    verdicts: list[Verdicts] = field(default_factory=list)
    keys: list[pa.Table] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    def add(self, start: int, rows: int) -> None:
        entity = self.sides.entity
        ids = self.candidates.ids.slice(start, rows)
        ours = self.candidates.rows_at(self.sides.table.pin, start, rows)
        theirs = self.candidates.rows_at(self.sides.theirs, start, rows)
        base = self.candidates.base_rows(start, rows)
        verdicts = decide(base, ours, theirs)
        if self.sides.choices:
            chosen = [self.sides.choices.get(str(name)) for name in ids.to_pylist()]
            fixed = np.array([side is not None for side in chosen])
            to_theirs = np.array([side is Side.THEIRS for side in chosen])
            verdicts = np.where(fixed, apply_choices(ours, theirs, to_theirs), verdicts).astype(np.int8)
        taken = theirs.rows.filter(pa.array(verdicts == Verdict.TAKE))
        self.verdicts.append(verdicts)
        self.keys.append(taken.select(key_columns(entity)))
        self.conflicts += _row_conflicts(self.sides, ids, verdicts, (base, ours, theirs))
        self.conflicts += _value_conflicts(self.sides, taken)

    def plan(self) -> TableMerge:
        sides = self.sides
        verdicts = np.concatenate([*self.verdicts, np.array([], np.int8)])
        take, remove = verdicts == Verdict.TAKE, verdicts == Verdict.REMOVE
        ours, theirs = (self.candidates.locate(pin) for pin in (sides.table.pin, sides.theirs))
        empty = pa.table({name: pa.array([], pa.utf8()) for name in key_columns(sides.entity)})
        return TableMerge(
            sides.entity,
            sides.table,
            sides.theirs,
            theirs.only(take),
            ours.only(take),
            ours.only(remove),
            pa.concat_tables(self.keys).combine_chunks() if self.keys else empty,
            tuple(self.conflicts),
        )


def _row_conflicts(
    sides: TableSides, ids: Texts, verdicts: Verdicts, images: tuple[EntityRows, EntityRows, EntityRows]
) -> Iterator[Conflict]:
    """Yield the conflicts about single entities."""
    _, ours, theirs = images
    which: Mask = verdicts >= Verdict.DIVERGENT_INSERT
    if not which.any():
        return
    mask = pa.array(which)
    differing = differing_columns(ours.rows.filter(mask), theirs.rows.filter(mask))
    rows = np.flatnonzero(which)
    names: Any = ids.filter(mask).to_pylist()
    for row, name, columns in zip(rows, names, differing, strict=True):
        entity = EntityName(sides.entity.alias, str(name))
        kind = _KINDS[Verdict(int(verdicts[row]))]
        both = bool(ours.present[row] and theirs.present[row])
        properties = tuple(columns) if both else ()
        yield Conflict(kind, entity, _message(kind, properties, images, int(row)), properties, (entity,), (entity,))


def _message(
    kind: ConflictKind, properties: tuple[str, ...], images: tuple[EntityRows, EntityRows, EntityRows], row: int
) -> str:
    _, ours, _ = images
    differing = ", ".join(properties)
    if kind is ConflictKind.DIVERGENT_INSERT:
        return f"both sides inserted it, with a different {differing}"
    if kind is ConflictKind.DIVERGENT_UPDATE:
        return f"both sides changed it, and differ in {differing}"
    if ours.present[row]:
        return "the source deleted it and the target changed it"
    return "the target deleted it and the source changed it"


def _value_conflicts(sides: TableSides, taken: pa.Table) -> Iterator[Conflict]:
    """Yield rows of theirs that break a rule on values; possible only if another schema validated them."""
    columns: dict[str, Any] = {name: taken.column(name).combine_chunks() for name in taken.schema.names}
    violations: list[RuleViolations] = list(check_rows(sides.entity, columns)) if taken.num_rows else []
    ids = taken.column("id").to_pylist()
    for violation in violations:
        for row, value in zip(violation.rows.tolist(), violation.shown_values(), strict=True):
            entity = EntityName(sides.entity.alias, str(ids[row]))
            message = f"{violation.property}: {violation.message} ({value})"
            properties = (violation.property,) if violation.property else ()
            kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
            yield Conflict(kind, entity, message, properties, (entity,))
