"""Counts of rows that differ between two versions, compared with a model, for every type of column."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.arrow.hashing import digest_rows
from omnigraph.maintenance.row_counts import RowCounts, compare_rows
from omnigraph.storage.lance.dataset import create_dataset, open_dataset
from omnigraph.storage.location import parse_location

Row = tuple[Any, ...]
_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("id", pa.utf8(), nullable=False),
    pa.field("text", pa.utf8()),
    pa.field("small", pa.int32()),
    pa.field("large", pa.uint64()),
    pa.field("real", pa.float32()),
    pa.field("flag", pa.bool_()),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("ms", "UTC")),
    pa.field("names", pa.list_(pa.field("item", pa.utf8(), nullable=False))),
    pa.field("face", pa.list_(pa.float32(), 2)),
]
COLUMNS: Final = pa.schema(_FIELDS)
_VALUES: Final = (
    st.none() | st.text("ab", max_size=2),
    st.none() | st.integers(-2, 2),
    st.none() | st.sampled_from([0, 1, 2**64 - 1]),
    st.none() | st.sampled_from([0.0, 1.0, -1.0]),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.integers(-5, 5),
    st.none() | st.lists(st.sampled_from(["", "a", "b"]), max_size=3),
    st.none() | st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])),
)
_ROWS: Final = st.tuples(*_VALUES)
_IDS: Final = st.sampled_from([f"n{number}" for number in range(12)])
_TABLES: Final = st.dictionaries(_IDS, _ROWS, max_size=8)


def _table(rows: dict[str, Row]) -> pa.Table:
    columns = [list(rows), *(list(column) for column in zip(*rows.values(), strict=True))]
    if not rows:
        return COLUMNS.empty_table()
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


@given(_ROWS, _ROWS)
def test_digests_are_equal_for_equal_rows_only(first: Row, second: Row) -> None:
    rows = {"a": first, "b": second, "c": first}
    # Also in a slice, where Arrow arrays have an offset, and with another order of columns.
    batch = _table(rows).to_batches()[0]
    digests = digest_rows(batch, without="id")
    assert digests[0] == digests[2]
    assert (digests[0] == digests[1]) == (first == second)
    assert list(digest_rows(batch.slice(1), without="id")) == list(digests[1:])
    reversed_columns = batch.select(batch.schema.names[::-1])
    assert list(digest_rows(reversed_columns, without="id")) == list(digests)


def test_column_of_nulls_equals_a_missing_column() -> None:
    batch = _table({"a": ("x", *[None] * 8), "b": ("y", *[None] * 8)}).to_batches()[0]
    assert list(digest_rows(batch.select(["id", "text"]), without="id")) == list(digest_rows(batch, without="id"))


def test_digests_of_other_types_differ() -> None:
    """An external tool may add columns of these types."""
    batch = pa.record_batch(
        {
            "id": ["a", "b", "c"],
            "large": pa.array(["x", None, "y"], pa.large_utf8()),
            "bytes": pa.array([b"x", b"x", None]),
            "both": pa.array([{"p": 1}, {"p": 1}, {"p": 2}]),
            "many": pa.array([[1], [1], [1, 2]], pa.large_list(pa.int8())),
            "exact": pa.array([None, None, None], pa.decimal128(5, 2)),
            "when": pa.array([1, 2, 3], pa.duration("ms")),
        }
    )
    assert len(set(digest_rows(batch, without="id"))) == 3


@given(before=_TABLES, after=_TABLES, passes=st.integers(1, 3))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changes(before: dict[str, Row], after: dict[str, Row], passes: int, tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / f"{uuid.uuid4().hex}.lance"))
    first = create_dataset(location, _table(before))
    first.native_copy().delete("true")
    second = open_dataset(location)
    native = second.native_copy()
    native.insert(_table(after))
    updated = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    rows = max(1, (len(before) + len(after)) // passes)
    assert compare_rows(first, open_dataset(location), rows) == RowCounts(
        len(after.keys() - before.keys()), len(updated), len(before.keys() - after.keys())
    )


def test_ids_of_shared_fragments_are_read(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "t.lance"))
    blank: Row = (None,) * 9
    first = create_dataset(location, _table({"a": blank, "b": blank}))
    native = first.native_copy()
    native.insert(_table({"c": blank}))
    native.insert(_table({"a": blank, "c": blank}))
    for rows_per_pass in (1, 2, 100):
        counts = compare_rows(first, open_dataset(location), rows_per_pass)
        assert counts == RowCounts(added=3, updated=0, deleted=0, duplicates=2)
    assert compare_rows(None, open_dataset(location)).duplicates == 2
