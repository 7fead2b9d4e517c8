"""What becomes of one entity when two sides meet. Pure, over whole columns of entities at once.

In: what an entity is in the base, on our side and on theirs. Out: a verdict for each. An entity that only one side
changed goes that side's way; one that both changed alike is fine; anything else is a conflict, never a guess. That an
entity was deleted and inserted again does not matter: it is what it is now.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.rows.entity_rows import EntityRows, Mask, same_states


class Verdict(IntEnum):
    """The first three change or keep our side; the others are conflicts."""

    KEEP = 0  # ours stays as it is, present or not
    TAKE = 1  # theirs replaces ours, or is new here
    REMOVE = 2  # theirs deleted it
    DIVERGENT_INSERT = 3
    DIVERGENT_UPDATE = 4
    DELETE_VS_UPDATE = 5


Verdicts = np.ndarray[Any, np.dtype[np.int8]]


def decide(base: EntityRows, ours: EntityRows, theirs: EntityRows) -> Verdicts:
    """The verdict on each entity."""
    alike = same_states(ours, theirs)
    we_changed = ~same_states(base, ours)
    they_changed = ~same_states(base, theirs)
    return np.select(
        [
            alike | ~they_changed,
            ~we_changed & theirs.present,
            ~we_changed,
            ours.present & theirs.present & ~base.present & ~base.undecided,
            ours.present & theirs.present,
        ],
        [Verdict.KEEP, Verdict.TAKE, Verdict.REMOVE, Verdict.DIVERGENT_INSERT, Verdict.DIVERGENT_UPDATE],
        Verdict.DELETE_VS_UPDATE,
    ).astype(np.int8)


def forced(ours: EntityRows, theirs: EntityRows, to_theirs: Mask) -> Verdicts:
    """The verdicts that a choice of a side makes."""
    take = to_theirs & theirs.present
    remove = to_theirs & ~theirs.present & ours.present
    return np.select([take, remove], [Verdict.TAKE, Verdict.REMOVE], Verdict.KEEP).astype(np.int8)


def join_bases(base: EntityRows, left: EntityRows, right: EntityRows) -> EntityRows:
    """Two bases as one: their merge. Where they contradict each other neither is right, and it is undecided."""
    verdicts = decide(base, left, right)
    take = np.isin(verdicts, [Verdict.TAKE, Verdict.REMOVE])
    undecided = (verdicts >= Verdict.DIVERGENT_INSERT) | (left.undecided & ~take)
    places = np.where(take, np.arange(len(take)) + len(take), np.arange(len(take)))
    rows = pa.concat_tables([left.rows, right.rows]).take(pa.array(places))
    return EntityRows(rows, np.where(take, right.present, left.present), undecided)
