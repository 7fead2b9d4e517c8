"""What one side wrote since the base into properties that the other side dropped.

In: the merged schema, one side and the base. Out: those properties, each with the number of rows whose value would go
without notice. Only rows that the side may have changed are read, and of them only these columns. Nothing here writes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from omnigraph.graph.equality import same_values
from omnigraph.graph.images import pieces
from omnigraph.graph.merge.bases import Base
from omnigraph.graph.merge.candidates import TableSides, find_candidates
from omnigraph.graph.snapshot import Snapshot
from omnigraph.schema import Catalog, Entity


def written_into_dropped(merged: Catalog, side: Snapshot, base: Base) -> str | None:
    """The properties that the merged schema lacks and into which this side wrote, as `node:P.age (2 rows)`."""
    told: list[str] = []
    for entity in side.schema.catalog.types:
        kept = merged.type_with_id(entity.id)
        if kept is None or kept.incarnation != entity.incarnation:
            continue  # the whole type goes
        gone = tuple(one for one in entity.properties if kept.property_with_id(one.id) is None)
        counts = _written_rows(replace(entity, properties=gone), entity.alias, side, base) if gone else {}
        told += [
            f"{entity.alias}.{name} ({count:,} row{'' if count == 1 else 's'})"
            for name, count in counts.items()
            if count
        ]
    return ", ".join(told) or None


def _written_rows(entity: Entity, alias: str, side: Snapshot, base: Base) -> Counter[str]:
    """For each property how many rows have another value than in the base; a new row counts if it has any."""
    table = side.tables[alias]
    found = find_candidates(TableSides(side.root, entity, table, table.pin, base))
    counts: Counter[str] = Counter()
    for start, rows in pieces(entity, len(found.ids)):
        before, now = found.base_image(start, rows), found.image(table.pin, start, rows)
        for one in entity.properties:
            was, column = (image.rows.column(one.name).combine_chunks() for image in (before, now))
            differs = now.present & (before.undecided | ~same_values(was, column))
            counts[one.name] += int(np.count_nonzero(differs))
    return counts
