"""Plan what a merge does to one table: rows of theirs to take, rows of ours to remove, and conflicts.

In: the table on our side, the pins of theirs and of the base, and choices of sides. Out: a `TableMerge`. Only rows
that may differ between the base and theirs are compared: rows that they did not change are kept on our side. Rows are
read in ranges, and only their keys are kept. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.manifest.records import Pin, TableRecord
from omnigraph.graph.merge.candidates import TableSides, find_candidates
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, Side
from omnigraph.graph.merge.decide import Verdict, Verdicts, apply_choices, decide
from omnigraph.graph.rows.entity_rows import EntityRows, Mask, RowLocations, differing_columns, row_ranges
from omnigraph.integrity.row_rules import check_rows
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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
    candidates = find_candidates(sides)
    verdicts_of_ranges = [np.array([], np.int8)]
    keys: list[pa.Table] = []
    conflicts: list[Conflict] = []
    for start, rows in row_ranges(sides.entity, len(candidates.ids)):
        ids = candidates.ids.slice(start, rows)
        ours = candidates.rows_at(sides.table.pin, start, rows)
        theirs = candidates.rows_at(sides.theirs, start, rows)
        verdicts = decide(candidates.base_rows(start, rows), ours, theirs)
        if sides.choices:
            chosen = [sides.choices.get(str(name)) for name in ids.to_pylist()]
            has_choice = np.array([side is not None for side in chosen])
            to_theirs = np.array([side is Side.THEIRS for side in chosen])
            verdicts = np.where(has_choice, apply_choices(ours, theirs, to_theirs), verdicts).astype(np.int8)
        taken = theirs.rows.filter(pa.array(verdicts == Verdict.TAKE))
        columns = {name: taken.column(name).combine_chunks() for name in taken.schema.names}
        verdicts_of_ranges.append(verdicts)
        keys.append(taken.select(key_columns(sides.entity)))
        conflicts += _row_conflicts(sides, ids, verdicts, ours, theirs)
        conflicts += value_conflicts(sides.entity, columns, Side.THEIRS)
    verdicts = np.concatenate(verdicts_of_ranges)
    take, remove = verdicts == Verdict.TAKE, verdicts == Verdict.REMOVE
    no_keys = pa.table({name: pa.array([], pa.utf8()) for name in key_columns(sides.entity)})
    our_rows, their_rows = (candidates.locate(pin) for pin in (sides.table.pin, sides.theirs))
    return TableMerge(
        entity=sides.entity,
        table=sides.table,
        theirs=sides.theirs,
        taken=their_rows.only(take),
        replaced=our_rows.only(take),
        removed=our_rows.only(remove),
        keys=pa.concat_tables(keys).combine_chunks() if keys else no_keys,
        conflicts=tuple(conflicts),
    )


def _row_conflicts(
    sides: TableSides, ids: Texts, verdicts: Verdicts, ours: EntityRows, theirs: EntityRows
) -> Iterator[Conflict]:
    is_conflict: Mask = verdicts >= Verdict.DIVERGENT_INSERT
    if not is_conflict.any():
        return
    mask = pa.array(is_conflict)
    differing = differing_columns(ours.rows.filter(mask), theirs.rows.filter(mask))
    names: Any = ids.filter(mask).to_pylist()
    for row, name, columns in zip(np.flatnonzero(is_conflict), names, differing, strict=True):
        entity = EntityName(sides.entity.alias, str(name))
        kind = _KINDS[Verdict(int(verdicts[row]))]
        properties = tuple(columns) if ours.present[row] and theirs.present[row] else ()
        match kind:
            case ConflictKind.DIVERGENT_INSERT:
                message = f"both sides inserted it, with a different {', '.join(properties)}"
            case ConflictKind.DIVERGENT_UPDATE:
                message = f"both sides changed it, and differ in {', '.join(properties)}"
            case _ if ours.present[row]:
                message = "the source deleted it and the target changed it"
            case _:
                message = "the target deleted it and the source changed it"
        yield Conflict(
            kind=kind, entity=entity, message=message, properties=properties, ours=(entity,), theirs=(entity,)
        )


def value_conflicts(entity: Entity, columns: Mapping[str, Any], side: Side) -> Iterator[Conflict]:
    """Yield rows of one side that break a rule on single values; only a rule of the other side can be broken.

    Choosing the other side, which has or keeps another row, resolves it.
    """
    ids = columns["id"].to_pylist()
    rule = ", by a rule of the source" if side is Side.OURS else ""
    for violation in check_rows(entity, columns) if ids else ():
        for row, value in zip(violation.rows.tolist(), violation.shown_values(), strict=True):
            name = EntityName(entity.alias, str(ids[row]))
            message = f"{violation.property}: {violation.message} ({value}){rule}"
            properties = (violation.property,) if violation.property else ()
            ours, theirs = ((), (name,)) if side is Side.OURS else ((name,), ())
            yield Conflict(
                kind=ConflictKind.VALUE_CONSTRAINT_VIOLATION,
                entity=name,
                message=message,
                properties=properties,
                ours=ours,
                theirs=theirs,
            )
