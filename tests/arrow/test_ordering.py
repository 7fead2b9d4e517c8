"""The order of ids is that of Python strings, also if their first bytes are equal."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.arrow.ordering import count_below, sort_ids

_any = st.text(st.characters(codec="utf-8"), max_size=12)
# With a common prefix, shorter or longer than the bytes that are compared as a number.
_tied = st.builds(
    lambda shared, length, end: (shared * 12)[:length] + end,
    st.sampled_from(("a", "é", "ab")),
    st.integers(0, 12),
    st.text(st.sampled_from("\0ab\x7fé🜁"), max_size=3),
)
_many = st.lists(_any | _tied, max_size=60, unique=True)


@given(_many, st.integers(0, 3), _any | _tied)
@settings(max_examples=300)
def test_order_and_bounds_of_any_ids(ids: list[str], skipped: int, bound: str) -> None:
    column = pa.array([*("x" for _ in range(skipped)), *ids], pa.utf8()).slice(skipped)
    order = sort_ids(column)
    ordered = column if order is None else column.take(order)
    assert ordered.to_pylist() == sorted(ids)
    assert (order is None) == (ids == sorted(ids))
    assert count_below(ordered, bound) == sum(text < bound for text in ids)


def test_a_few_ids_with_equal_prefixes() -> None:
    ids = [f"{number * 7919 % 10_007:08d}" for number in range(10_000)]
    ids += [f"{ids[9]}-tied-{end}" for end in "cab"]
    order = sort_ids(pa.array(ids))
    assert order is not None
    assert pa.array(ids).take(order).to_pylist() == sorted(ids)
