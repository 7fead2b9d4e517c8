"""Frames: a compact copy does not keep the batch that its rows are a part of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame

LARGE: pa.Array[pa.StringScalar] = pa.array(["text"] * 100_000)


@pytest.mark.parametrize(
    "column",
    [
        LARGE.slice(5, 2),
        pa.array(np.arange(100_000)).slice(5, 2),
        DictionaryColumn(np.array([0, 1]), ValueDictionary(LARGE.slice(5, 2), is_per_query=True)),
        DictionaryColumn(np.array([5, 6]), ValueDictionary(LARGE, is_per_query=True)),
    ],
)
def test_a_compact_frame_holds_only_its_rows(column: Column) -> None:
    frame = Frame(2, {"c": column})
    copied = frame.compact().columns["c"]
    assert isinstance(copied, pa.Array)
    assert copied.equals(frame.array("c"))
    assert copied.get_total_buffer_size() < 1_024


def test_a_compact_frame_shares_cached_and_small_dictionaries() -> None:
    cached = DictionaryColumn(np.array([5, 6]), ValueDictionary(LARGE))
    repeated = DictionaryColumn(np.zeros(9, dtype=np.int64), ValueDictionary(LARGE.slice(0, 1), is_per_query=True))
    assert Frame(2, {"c": cached}).compact().columns["c"] is cached
    assert Frame(9, {"c": repeated}).compact().columns["c"] is repeated
