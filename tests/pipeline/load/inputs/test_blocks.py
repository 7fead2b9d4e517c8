from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.integrity.check import CheckedBatch, check_batch
from omnigraph.pipeline.load.inputs.blocks import arrow_block
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema

(THING,) = build_catalog(parse_schema("node Thing { n: I64?  x: F64? }")).nodes
LAST = 2**53 - 1
GOOD: list[float | None] = [LAST, -LAST, -0.0, None]


@pytest.mark.parametrize("bad", [(), (2.0**53, -(2.0**53), 0.5)], ids=["alone", "next to bad ones"])
def test_float_is_an_integer_while_that_is_exact(bad: tuple[float, ...]) -> None:
    """2^53 is rejected, because 2^53 + 1 becomes the same float."""
    checked = _checked("n", [*GOOD, *bad])
    assert checked.rows["n"].to_pylist() == [LAST, -LAST, 0, None, *(None for _ in bad)]
    refused = sorted(row for group in checked.violations for row in group.rows.tolist())
    assert refused == [len(GOOD) + place for place in range(len(bad))]


def test_float_of_a_float_property_is_unchanged() -> None:
    checked = _checked("x", [2.0**60, 1.5])
    assert checked.violations == ()
    assert checked.rows["x"].to_pylist() == [2.0**60, 1.5]


def _checked(name: str, values: list[float | None]) -> CheckedBatch:
    batch = pa.record_batch({name: pa.array(values, pa.float64())})
    (typed,) = arrow_block(THING, batch).rows
    return check_batch(THING, typed.raw)
