"""Decide about entities in a three-way merge. Pure, over whole columns of entities.

In: the rows of entities in the base, on our side and on theirs. Out: a verdict for each. An entity that only one side
changed gets the state of that side. An entity that both sides changed in the same way is kept. Anything else is a
conflict, never a guess. Only the states count: an entity that was deleted and inserted again is compared as it is
now.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.rows.entity_rows import EntityRows, Mask, same_states


class Verdict(IntEnum):
    """The first three change or keep our side; the others are conflicts."""

    KEEP = 0  # ours is kept, present or not
    TAKE = 1  # theirs replaces ours, or is new here
    REMOVE = 2  # theirs deleted it
    DIVERGENT_INSERT = 3
    DIVERGENT_UPDATE = 4
    DELETE_VS_UPDATE = 5


Verdicts = np.ndarray[Any, np.dtype[np.int8]]


def decide(base: EntityRows, ours: EntityRows, theirs: EntityRows) -> Verdicts:
    """Return the verdict on each entity."""
    are_equal = same_states(ours, theirs)
    we_changed = ~same_states(base, ours)
    they_changed = ~same_states(base, theirs)
    return np.select(
        [
            are_equal | ~they_changed,
            ~we_changed & theirs.present,
            ~we_changed,
            ours.present & theirs.present & ~base.present & ~base.undecided,
            ours.present & theirs.present,
        ],
        [Verdict.KEEP, Verdict.TAKE, Verdict.REMOVE, Verdict.DIVERGENT_INSERT, Verdict.DIVERGENT_UPDATE],
        Verdict.DELETE_VS_UPDATE,
    ).astype(np.int8)


def apply_choices(ours: EntityRows, theirs: EntityRows, to_theirs: Mask) -> Verdicts:
    """Return the verdicts that follow from a choice of a side."""
    take = to_theirs & theirs.present
    remove = to_theirs & ~theirs.present & ours.present
    return np.select([take, remove], [Verdict.TAKE, Verdict.REMOVE], Verdict.KEEP).astype(np.int8)


def join_bases(base: EntityRows, left: EntityRows, right: EntityRows) -> EntityRows:
    """Return the merge of two bases as one. Where they conflict, the row is undecided."""
    verdicts = decide(base, left, right)
    take = np.isin(verdicts, [Verdict.TAKE, Verdict.REMOVE])
    undecided = (verdicts >= Verdict.DIVERGENT_INSERT) | (left.undecided & ~take)
    indexes = np.where(take, np.arange(len(take)) + len(take), np.arange(len(take)))
    rows = pa.concat_tables([left.rows, right.rows]).take(pa.array(indexes))
    return EntityRows(rows, np.where(take, right.present, left.present), undecided)
