"""Rankings: the best entities of all frames, each once, ties by id; fused ranks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.operators.rank import BestEntities, fuse_ranks

SCORES = {f"e{number:02d}": float(number % 7) if number % 5 else float("nan") for number in range(40)}
NAMES = st.sampled_from([None, *SCORES])


@pytest.mark.parametrize("descending", [False, True])
@given(frames=st.lists(st.lists(NAMES, max_size=60), max_size=4), count=st.integers(1, 5))
def test_best_entities_equal_sorting_all(frames: list[list[str | None]], count: int, descending: bool) -> None:
    best = BestEntities(count, descending=descending)
    for names in frames:
        scores = np.array([np.nan if name is None else SCORES[name] for name in names])
        best.add(pa.array(names, pa.utf8()), scores)
    present = {name for names in frames for name in names if name is not None and not np.isnan(SCORES[name])}
    ordered = sorted(present, key=lambda name: (-SCORES[name] if descending else SCORES[name], name))[:count]
    asked = [*SCORES, None]
    expected = [ordered.index(name) + 1 if name in ordered else 0 for name in asked]
    assert best.ranks(pa.array(asked, pa.utf8())).tolist() == expected


def test_fused_ranks() -> None:
    fused = fuse_ranks([np.array([1, 0, 0, 2]), np.array([3, 1, 0, 0])], k=60)
    assert fused[[0, 1, 3]].tolist() == [1 / 61 + 1 / 63, 1 / 61, 1 / 62]
    assert np.isnan(fused[2])
