"""Filters in storage return the same rows as the same filters in the process, for all types and extreme values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.operators.scan import storage_filter
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.plan import expressions as ex
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType
from omnigraph.storage.lance.dataset import open_dataset
from tests.engine.graphs import make_snapshot

SCHEMA = """\
node T {
  k: String @key
  tExt: String?
  i: I32?
  l: I64?
  u: U32?
  b: U64?
  f: F32?
  d: F64?
  y: Bool?
  a: Date?
  m: DateTime?
}
"""
VALUES: dict[str, tuple[PropertyType, list[Any]]] = {
    "tExt": (
        ScalarType(Scalar.STRING),
        ["", "a", "a'b", "a%b", "a_b", "ä", "a\u00e4", "\U0010ffff", "ab\U0010ffffc", "ab", "b", "\\", 'a"b', "--x"],
    ),
    "i": (ScalarType(Scalar.I32), [0, -1, 2**31 - 1, -(2**31)]),
    "l": (ScalarType(Scalar.I64), [0, -1, 2**63 - 1, -(2**63), 2**53 + 1]),
    "u": (ScalarType(Scalar.U32), [0, 1, 2**32 - 1]),
    "b": (ScalarType(Scalar.U64), [0, 1, 2**63, 2**64 - 1, 2**53 + 1]),
    "f": (ScalarType(Scalar.F32), [0.0, -0.0, 0.10000000149011612, -1.5, 3.4028234663852886e38, 1e-45]),
    "d": (ScalarType(Scalar.F64), [0.0, -0.0, 0.1, -1.5, 1.7976931348623157e308, 5e-324]),
    "y": (ScalarType(Scalar.BOOL), [True, False]),
    "a": (ScalarType(Scalar.DATE), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2020, 2, 29)]),
    "m": (
        ScalarType(Scalar.DATETIME),
        [
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999000, UTC),
            datetime(2020, 1, 1, 0, 0, 0, 1000, UTC),
        ],
    ),
}
INDEXED = ("tExt", "i", "l", "u", "b", "f", "d", "a", "m")


@pytest.fixture(scope="module", params=["plain", "indexed"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return a graph with one row per value; all other columns are null."""
    rows: list[dict[str, Any]] = [
        {"k": f"{name}{number}", name: value}
        for name, (_, values) in VALUES.items()
        for number, value in enumerate(values)
    ]
    return make_snapshot(
        tmp_path_factory.mktemp("pushdown"),
        SCHEMA,
        {"node:T": rows},
        {"node:T": INDEXED if request.param == "indexed" else ()},
    )


def conditions_on(name: str) -> list[ex.Expr]:
    kind, values = VALUES[name]
    column = ex.ColumnRef("x", name, kind, nullable=True)
    conditions: list[ex.Expr] = [ex.IsNull(column), ex.IsNull(column, negated=True)]
    signs = [sign for sign in ComparisonOperator if not sign.value.isidentifier()]
    for value in values:
        literal = ex.Literal(value, kind)
        conditions.extend(ex.Compare(sign, column, literal) for sign in signs)
        conditions.append(ex.Not(ex.InList(column, (literal, ex.Literal(values[0], kind)))))
        conditions.append(ex.Or((ex.Compare(ComparisonOperator.EQ, column, literal), ex.IsNull(column))))
        if isinstance(value, str):
            conditions.extend((ex.Prefix(column, literal), ex.Not(ex.Prefix(column, literal))))
    return conditions


@pytest.mark.parametrize("name", VALUES)
def test_storage_and_process_agree(graph: Snapshot, name: str) -> None:
    record = graph.tables["node:T"]
    dataset = open_dataset(graph.root.child(record.path), version=record.pin.version)
    table = dataset.read()
    frame = Frame(
        table.num_rows, {f"x.{column}": table.column(column).combine_chunks() for column in table.schema.names}
    )
    keys = table.column("k").combine_chunks()
    pushed = 0
    for condition in conditions_on(name):
        expected = [str(key) for key in keys.filter(pa.array(condition_mask((condition,), frame))).to_pylist()]
        where, rest = storage_filter((condition,))
        if where is None:
            assert rest == (condition,)
            continue
        assert rest == ()
        pushed += 1
        keys_read = [str(key) for key in dataset.read(["k"], where).column("k").to_pylist()]
        assert sorted(keys_read) == sorted(expected), where
    assert pushed > len(conditions_on(name)) // 2


def test_condition_without_storage_text_remains() -> None:
    column = ex.ColumnRef("x", "d", ScalarType(Scalar.F64))
    infinite = ex.Compare(ComparisonOperator.LT, column, ex.Literal(float("inf"), ScalarType(Scalar.F64)))
    is_null = ex.IsNull(column)
    assert storage_filter((is_null, infinite)) == ("(`d` IS NULL)", (infinite,))
    assert storage_filter((ex.Or((is_null, infinite)),)) == (None, (ex.Or((is_null, infinite)),))
    assert storage_filter(()) == (None, ())
