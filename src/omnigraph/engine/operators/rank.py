"""Ranks entities by their scores, and fuses two rankings.

In: the ids and the scores of rows, frame by frame. Out: the best entities in order, and the fused scores of rows. An
entity has one rank however many rows have it; ties are broken by id. The memory is bounded by the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns.dictionary import Codes
from omnigraph.engine.columns.frame import Column, array_of
from omnigraph.engine.columns.scores import Scores


class BestEntities:
    """The entities with the best scores so far."""

    def __init__(self, count_max: int, *, descending: bool) -> None:
        self._count_max = count_max
        self._sign = -1.0 if descending else 1.0
        self._ids: list[str] = []
        self._keys: Scores = np.zeros(0)

    def add(self, ids: Column, scores: Scores) -> None:
        """Add rows; rows without a score are ignored."""
        keys = scores * self._sign
        rows = np.flatnonzero(~np.isnan(keys))
        worst = self._keys[-1] if len(self._keys) == self._count_max else np.inf
        rows = rows[keys[rows] <= worst]
        while len(rows):
            # Rows of one entity have one score, so the best rows can have fewer entities than rows: take more of them.
            part = rows
            if len(rows) > 4 * self._count_max:
                bound = np.partition(keys[rows], 4 * self._count_max)[4 * self._count_max]
                part = rows[keys[rows] <= bound]
            self._merge(array_of(ids).take(pa.array(part)), keys[part])
            worst = self._keys[-1] if len(self._keys) == self._count_max else np.inf
            rows = rows[(keys[rows] > keys[part].max()) & (keys[rows] <= worst)]

    def _merge(self, ids: Any, keys: Scores) -> None:
        names = pa.concat_arrays([pa.array(self._ids, pa.utf8()), ids])
        numbers = np.concatenate([self._keys, keys])
        table = pa.table({"key": pa.array(numbers), "id": names})
        order: Any = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("id", "ascending")])
        best: dict[str, float] = {}
        for name, key in zip(names.take(order).to_pylist(), numbers[order.to_numpy()].tolist(), strict=True):
            if len(best) == self._count_max:
                break
            best.setdefault(str(name), key)
        self._ids, self._keys = list(best), np.array(list(best.values()))

    def ranks(self, ids: Column) -> Codes:
        """Return the rank of the entity of each row, from 1; 0 if it is not among the best."""
        positions: Any = pc.index_in(array_of(ids), value_set=pa.array(self._ids, pa.utf8()), skip_nulls=True)
        ranks: Codes = positions.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        return ranks


def fuse_ranks(rankings: Sequence[Codes], k: int) -> Scores:
    """Return the sum of 1 / (k + rank) of each row; NaN for a row without a rank."""
    total = np.zeros(len(rankings[0]))
    for ranks in rankings:
        has_rank = ranks > 0
        total[has_rank] += 1.0 / (k + ranks[has_rank])
    total[total == 0] = np.nan
    return total
