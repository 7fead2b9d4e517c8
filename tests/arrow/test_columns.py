"""Conversions between masks and Arrow arrays are exact, for every length and every start of a slice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.arrow.columns import array_with_nulls, bool_array, bool_mask


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 20), st.integers(0, 40))
def test_masks_and_arrays_are_equal(values: list[bool], start: int, length: int) -> None:
    mask = np.array(values, dtype=np.bool_)
    assert bool_array(mask).to_pylist() == values
    part = pa.array(values, pa.bool_()).slice(start, length)
    assert bool_mask(part).tolist() == part.to_pylist()


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=40))
def test_numbers_are_null_where_they_are_missing(values: list[int | None]) -> None:
    missing = np.array([value is None for value in values], dtype=np.bool_)
    for kind in (np.float64, np.int64):
        numbers = np.array([7 if value is None else value for value in values], dtype=kind)
        array = array_with_nulls(numbers, missing)
        array.validate(full=True)
        assert (array.to_pylist(), array.null_count) == (values, int(missing.sum()))
