"""What the entities in conflict are in the base, on our side and on theirs, so that somebody can decide.

In: the sides of a merge and its conflicts. Out: the same conflicts, each with the three states of its entity. They are
read only when there are conflicts, once for each table. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.graph.image_text import digest_of, image_lines
from omnigraph.graph.images import pieces
from omnigraph.graph.merge.candidates import Candidates, TableSides
from omnigraph.graph.merge.conflicts import Conflict, EntityName, EntityStates
from omnigraph.graph.merge.plan import GraphSides


def with_states(sides: GraphSides, conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """The conflicts with what their entities are."""
    wanted: dict[str, dict[str, None]] = defaultdict(dict)
    for conflict in conflicts:
        if conflict.entity is not None:
            wanted[conflict.entity.table][conflict.entity.id] = None
    states: dict[EntityName, EntityStates] = {}
    for table, ids in wanted.items():
        states |= _read_states(sides, table, list(ids))
    return tuple(
        conflict if conflict.entity is None else replace(conflict, states=states[conflict.entity])
        for conflict in conflicts
    )


def _read_states(sides: GraphSides, alias: str, ids: list[str]) -> dict[EntityName, EntityStates]:
    """What they are. A type that only one side has is nowhere on the other."""
    entity = next(one for one in sides.ours.schema.catalog.types if one.alias == alias)
    by_type = {table.type_id: table for table in sides.theirs.values()}
    ours, theirs = sides.ours.tables.get(alias), by_type.get(entity.id)
    table = ours or theirs
    assert table is not None, "one side has it"
    found = Candidates(
        TableSides(sides.ours.root, entity, table, (theirs or table).pin, sides.base),
        pa.array(ids, pa.utf8()),
    )
    states = {}
    for start, rows in pieces(entity, len(ids)):
        images = (
            found.base_image(start, rows),
            found.image(None if ours is None else ours.pin, start, rows),
            found.image(None if theirs is None else theirs.pin, start, rows),
        )
        lines = zip(*(image_lines(entity, image, digest_of) for image in images), strict=True)
        for name, told in zip(ids[start : start + rows], lines, strict=True):
            states[EntityName(alias, name)] = EntityStates(*told)
    return states
