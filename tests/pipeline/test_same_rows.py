"""The same rows as NDJSON, Parquet, CSV and Arrow give the same graph."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.storage.location import parse_location
from tests.pipeline.in_place import contents, load_here

SCHEMA = """\
node Thing {
  slug: String @key
  small: I32?  big: I64?  natural: U64?  ratio: F64?  narrow: F32?  yes: Bool?
  day: Date?  at: DateTime?  kind: enum(a, b)?  tags: [String]?  numbers: [I64]?  v: Vector(2)?
}
edge Next: Thing -> Thing { weight: F64? }
"""
TYPES = {
    "slug": pa.string(),
    "small": pa.int32(),
    "big": pa.int64(),
    "natural": pa.uint64(),
    "ratio": pa.float64(),
    "narrow": pa.float32(),
    "yes": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("ms", "UTC"),
    "kind": pa.string(),
    "tags": pa.list_(pa.string()),
    "numbers": pa.list_(pa.int64()),
    "v": pa.list_(pa.float32()),
}
Row = dict[str, Any]

texts = st.text(st.characters(codec="utf-8"), max_size=5)
narrow = st.floats(width=32, allow_nan=False, allow_infinity=False)
rows = st.fixed_dictionaries(
    {"slug": texts.filter(str.strip)},
    optional={
        "small": st.integers(-(2**31), 2**31 - 1),
        "big": st.integers(-(2**63), 2**63 - 1),
        "natural": st.integers(0, 2**64 - 1),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "narrow": narrow,
        "yes": st.booleans(),
        "day": st.dates(),
        "at": st.datetimes(timezones=st.just(UTC)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
        "kind": st.sampled_from(["a", "b"]),
        "tags": st.lists(texts, max_size=3),
        "numbers": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        "v": st.lists(narrow, min_size=2, max_size=2),
    },
)
things = st.lists(rows, max_size=6, unique_by=lambda row: row["slug"])


def as_json(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds")
        case date():
            return value.isoformat()
        case _:
            return value


def as_field(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | int() | float():
            return json.dumps(value)
        case _:
            return str(as_json(value))


def ndjson(rows: Sequence[Row], place: Path) -> object:
    path = place / "rows.jsonl"
    lines = [{"type": "Thing", "data": {name: as_json(value) for name, value in row.items()}} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def arrow(rows: Sequence[Row], _: Path) -> pa.Table:
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in TYPES.items()})


def parquet(rows: Sequence[Row], place: Path) -> object:
    pq.write_table(arrow(rows, place), place / "rows.parquet", row_group_size=2)
    return str(place / "rows.parquet")


def comma_separated(rows: Sequence[Row], place: Path) -> object:
    """Write text in quotes, so that empty text differs from null."""
    text = io.StringIO()
    names = list(TYPES)
    text.write(",".join(names) + "\n")
    for row in rows:
        fields = ["" if row.get(name) is None else '"' + as_field(row[name]).replace('"', '""') + '"' for name in names]
        text.write(",".join(fields) + "\r\n")
    path = place / "rows.csv"
    path.write_bytes(text.getvalue().encode())
    return str(path)


def polars(rows: Sequence[Row], place: Path) -> object:
    return pl.from_arrow(arrow(rows, place))


WAYS: dict[str, Callable[[Sequence[Row], Path], object]] = {
    "parquet": parquet,
    "csv": comma_separated,
    "arrow": arrow,
    "polars": polars,
}


@pytest.fixture(scope="module")
def empty_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "graph.omni"
    og.init(str(path), SCHEMA)
    return path


@settings(max_examples=30)
@given(things)
def test_every_format_gives_the_same_graph(
    empty_graph: Path, tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    place = tmp_path_factory.mktemp("same")

    def loaded(name: str, data: object, type_name: str | None) -> object:
        shutil.copytree(empty_graph, place / name)
        root = parse_location(str(place / name))
        load_here(root, data, type_name)
        return contents(root)

    expected = loaded("ndjson", ndjson(rows, place), None)
    for name, write in WAYS.items():
        assert loaded(name, write(rows, place), "Thing") == expected, name
    shutil.rmtree(place)
