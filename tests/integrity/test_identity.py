"""The canonical text in ids, and ULIDs in bulk."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ulid import ULID

from omnigraph.arrow.ulids import new_ulids
from omnigraph.integrity.check import check_batch
from omnigraph.integrity.identity import array_text, canonical_text, key_text
from omnigraph.integrity.raw import RawBatch
from omnigraph.schema.property_types import Scalar, ScalarType
from tests.integrity.reference import array_of, text_of
from tests.integrity.samples import node, texts

_MOMENT = pa.timestamp("ms", "UTC")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (texts(["é\x00", "", "e\u0301"]), ["é\x00", "", "e\u0301"]),
        (pa.array([-(2**63), 2**63 - 1]), [str(-(2**63)), str(2**63 - 1)]),
        (pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([date(1, 1, 1), date(9999, 12, 31)]), ["0001-01-01", "9999-12-31"]),
        (pa.array([0, -1], pa.int64()).view(_MOMENT), ["1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z"]),
        (pa.array([-62_135_596_800_000], pa.int64()).view(_MOMENT), ["0001-01-01T00:00:00.000Z"]),
        (pa.array([0.0, -0.0, 0.1, 1e16, 5e-324]), ["0.0", "0.0", "0.1", "1e+16", "5e-324"]),
        (pa.array([0.1, -0.0, 16777216.0, 1e-45], pa.float32()), ["0.1", "0.0", "16777216.0", "1e-45"]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_canonical_texts(column: pa.Array[Any], expected: list[str]) -> None:
    assert canonical_text(column).to_pylist() == expected
    padded = pa.concat_arrays([pa.nulls(1, column.type), column])
    assert canonical_text(padded[1:]).to_pylist() == expected
    assert canonical_text(padded).to_pylist() == [None, *expected]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=20))
@settings(max_examples=150)
def test_texts_of_32_bit_floats_are_the_shortest(values: list[float]) -> None:
    """Two texts of the same length can be equally near, so only the length is compared."""
    result = [str(text) for text in canonical_text(pa.array(values, pa.float32())).to_pylist()]
    assert [len(text) for text in result] == [len(text_of(value, ScalarType(Scalar.F32))) for value in values]
    assert [float(np.float32(text)) for text in result] == values


def test_texts_of_the_powers_of_two_are_the_shortest() -> None:
    """At a power of two, the next lower float is nearer than the next higher one."""
    powers = [float(np.float32(2.0**power)) for power in range(-149, 128)]
    expected = [text_of(value, ScalarType(Scalar.F32)) for value in powers]
    assert canonical_text(pa.array(powers, pa.float32())).to_pylist() == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_texts_of_64_bit_floats_are_those_of_python(values: list[float]) -> None:
    assert canonical_text(pa.array(values, pa.float64())).to_pylist() == [repr(value + 0.0) for value in values]


_members = st.none() | st.text('aé🜁"\\\n\x00\x1f\x7f,[]', max_size=4)


@given(st.lists(st.tuples(_members, _members), max_size=8), st.integers(0, 2))
@settings(max_examples=200)
def test_composite_texts_are_compact_json(rows: list[tuple[str | None, str | None]], skipped: int) -> None:
    columns = [texts([row[index] for row in rows])[skipped:] for index in (0, 1)]
    expected = [None if left is None or right is None else array_of([left, right]) for left, right in rows[skipped:]]
    assert array_text(columns).to_pylist() == expected
    assert key_text(columns).to_pylist() == expected


@pytest.mark.parametrize("character", ['"', "\\", "\n", "\x00", "\x1f", "\x7f", "/", "é", "\u2028"])
def test_each_character_is_escaped_as_json_does(character: str) -> None:
    assert array_text([texts([character]), texts(["b"])]).to_pylist() == [array_of([character, "b"])]


def test_a_composite_key_of_every_kind() -> None:
    record = {"at": "2024-01-01T00:00:00.5+01:00", "sensor": "ü", "value": 0.1, "ok": True, "n": str(2**64 - 1)}
    checked = check_batch(node("Reading"), RawBatch.from_records([record]))
    expected = '["2023-12-31T23:00:00.500Z","ü","0.1","true","18446744073709551615"]'
    assert checked.rows.column("id").to_pylist() == [expected]


class _StoppedClock:
    def now_us(self) -> int:
        return 1_700_000_000_123_456

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits")


def test_ulids_are_what_the_library_reads() -> None:
    ulids = new_ulids(3, _StoppedClock(), lambda below: below - 1).to_pylist()
    assert ulids == ["01HF7YAT3VZZZZZZZZZZZZZZZW", "01HF7YAT3VZZZZZZZZZZZZZZZX", "01HF7YAT3VZZZZZZZZZZZZZZZY"]
    assert [ULID.from_str(ulid).milliseconds for ulid in ulids if ulid] == [1_700_000_000_123] * 3


def test_ulids_are_sorted_and_never_the_same() -> None:
    columns = [new_ulids(count) for count in (0, 1, 5000, 5000)]
    batches = [batch.to_pylist() for batch in columns]
    assert [len(batch) for batch in batches] == [0, 1, 5000, 5000]
    assert all(pc.all(pc.less(batch[:-1], batch[1:])).as_py() is not False for batch in columns)
    assert len({ulid for batch in batches for ulid in batch}) == 10_001
