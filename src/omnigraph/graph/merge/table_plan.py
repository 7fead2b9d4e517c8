"""What a merge does to one table: which rows of theirs come in, which of ours go, and which are in conflict.

In: the table on our side, the pins of theirs and of the base, and choices that somebody made. Out: a `TableMerge`. Only
rows that may differ between the base and theirs are looked at: what they did not change stays as it is on our side.
Rows are read a piece at a time and only their keys are kept. Nothing here writes.
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
from omnigraph.graph.merge.decide import Verdict, Verdicts, decide, forced
from omnigraph.graph.rows.entity_rows import EntityRows, Located, Mask, differing_columns, pieces
from omnigraph.integrity.row_rules import check_rows
from omnigraph.integrity.rules import RuleViolations
from omnigraph.integrity.set_rules import key_columns
from omnigraph.schema.catalog import Entity
from omnigraph.storage.lance.dataset import Texts

Choices = Mapping[EntityName, Side]
"""For some entities, whose state they get, whatever the sides did."""

_KINDS = {
    Verdict.DIVERGENT_INSERT: ConflictKind.DIVERGENT_INSERT,
    Verdict.DIVERGENT_UPDATE: ConflictKind.DIVERGENT_UPDATE,
    Verdict.DELETE_VS_UPDATE: ConflictKind.DELETE_VS_UPDATE,
}


@dataclass(frozen=True, slots=True, eq=False)
class TableMerge:
    """One table of a merge. `taken` is where the rows lie on their side, `replaced` the same ids on ours.

    `keys` are the columns of the taken rows that rules over several rows look at.
    """

    entity: Entity
    table: TableRecord
    theirs: Pin
    taken: Located
    replaced: Located
    removed: Located
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
    running = _TableDecision(sides, find_candidates(sides))
    for start, rows in pieces(sides.entity, len(running.found.ids)):
        running.add(start, rows)
    return running.plan()


@dataclass(slots=True)
class _TableDecision:
    """A table while its pieces are decided."""

    sides: TableSides
    found: Candidates
    verdicts: list[Verdicts] = field(default_factory=list)
    keys: list[pa.Table] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    def add(self, start: int, rows: int) -> None:
        entity = self.sides.entity
        ids = self.found.ids.slice(start, rows)
        ours = self.found.image(self.sides.table.pin, start, rows)
        theirs = self.found.image(self.sides.theirs, start, rows)
        base = self.found.base_image(start, rows)
        verdicts = decide(base, ours, theirs)
        if self.sides.choices:
            chosen = [self.sides.choices.get(str(name)) for name in ids.to_pylist()]
            fixed = np.array([one is not None for one in chosen])
            to_theirs = np.array([one is Side.THEIRS for one in chosen])
            verdicts = np.where(fixed, forced(ours, theirs, to_theirs), verdicts).astype(np.int8)
        taken = theirs.rows.filter(pa.array(verdicts == Verdict.TAKE))
        self.verdicts.append(verdicts)
        self.keys.append(taken.select(key_columns(entity)))
        self.conflicts += _row_conflicts(self.sides, ids, verdicts, (base, ours, theirs))
        self.conflicts += _value_conflicts(self.sides, taken)

    def plan(self) -> TableMerge:
        sides = self.sides
        verdicts = np.concatenate([*self.verdicts, np.array([], np.int8)])
        take, remove = verdicts == Verdict.TAKE, verdicts == Verdict.REMOVE
        ours, theirs = (self.found.located(pin) for pin in (sides.table.pin, sides.theirs))
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
    """The conflicts over single entities."""
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
        yield Conflict(
            kind, entity, _message(kind, properties, images, int(row)), properties, (entity,), (entity,)
        )


def _message(
    kind: ConflictKind,
    properties: tuple[str, ...],
    images: tuple[EntityRows, EntityRows, EntityRows],
    row: int,
) -> str:
    _, ours, _ = images
    told = ", ".join(properties)
    if kind is ConflictKind.DIVERGENT_INSERT:
        return f"both sides inserted it, with another {told}"
    if kind is ConflictKind.DIVERGENT_UPDATE:
        return f"both sides changed it, and now differ in {told}"
    if ours.present[row]:
        return "the source deleted it and the target changed it"
    return "the target deleted it and the source changed it"


def _value_conflicts(sides: TableSides, taken: pa.Table) -> Iterator[Conflict]:
    """Rows of theirs that break a rule on single values; possible only if they were checked by another schema."""
    columns: dict[str, Any] = {name: taken.column(name).combine_chunks() for name in taken.schema.names}
    breaches: list[RuleViolations] = list(check_rows(sides.entity, columns)) if taken.num_rows else []
    ids = taken.column("id").to_pylist()
    for breach in breaches:
        for row, value in zip(breach.rows.tolist(), breach.shown_values(), strict=True):
            entity = EntityName(sides.entity.alias, str(ids[row]))
            message = f"{breach.property}: {breach.message} ({value})"
            properties = (breach.property,) if breach.property else ()
            kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
            yield Conflict(kind, entity, message, properties, (entity,))
