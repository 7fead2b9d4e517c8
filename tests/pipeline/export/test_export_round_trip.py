"""`export | load` into a new graph gives an equal graph, for any schema and data. Tasks run in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.storage.location import parse_location
from tests.pipeline.exporting import contents, export_here, load_file, load_records, make_graph

_texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ('"', "\\", "\n\r\t\b\f", "\0\x1f\x7f", "\u2028\ufeff\uffff", "🜁é", "null", "base64:", "a" * 300)
)
_f32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
_moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
SCALARS: Mapping[str, st.SearchStrategy[Any]] = {
    "String": _texts,
    "Bool": st.booleans(),
    "I32": st.integers(-(2**31), 2**31 - 1),
    "I64": st.integers(-(2**63), 2**63 - 1) | st.sampled_from((-(2**63), 2**63 - 1, 2**53 + 1)),
    "U32": st.integers(0, 2**32 - 1),
    "U64": st.integers(0, 2**64 - 1) | st.sampled_from((2**64 - 1, 2**63)),
    "F32": _f32,
    "F64": st.floats(allow_nan=False, allow_infinity=False),
    "Date": st.dates().map(lambda day: day.isoformat()),
    "DateTime": _moments.map(lambda moment: moment.isoformat(timespec="milliseconds")),
}
OTHERS: Mapping[str, st.SearchStrategy[Any]] = {
    "Blob": st.binary(max_size=40).map(lambda data: "base64:" + _base64(data)),
    "enum(a, b-c, 2x)": st.sampled_from(("a", "b-c", "2x")),
    "Vector(3)": st.lists(_f32, min_size=3, max_size=3),
    "Vector(1)": st.lists(_f32, min_size=1, max_size=1),
    **{f"[{name}]": st.lists(values, max_size=4) for name, values in SCALARS.items()},
}
KINDS: Mapping[str, st.SearchStrategy[Any]] = {**SCALARS, **OTHERS}


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class SampleGraph:
    """A schema and its data: nodes by type, and edges whose endpoints are numbers of nodes."""

    schema: str
    nodes: Mapping[str, list[dict[str, Any]]]
    edges: Mapping[str, tuple[str, str, list[tuple[int, int, dict[str, Any]]]]]


@st.composite
def _bodies(draw: st.DrawFn, *, is_edge: bool) -> tuple[str, st.SearchStrategy[dict[str, Any]], list[str]]:
    """Return the text of a body, its rows, and its key."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=6))
    nullable = [draw(st.booleans()) for _ in kinds]
    names = [f"p{number}" for number in range(len(kinds))]
    can_be_key = [
        name for name, kind, absent in zip(names, kinds, nullable, strict=True) if kind in SCALARS and not absent
    ]
    key = draw(st.lists(st.sampled_from(can_be_key), max_size=3, unique=True)) if can_be_key else []
    members = [
        f"{name}: {kind}{'?' if absent else ''}" for name, kind, absent in zip(names, kinds, nullable, strict=True)
    ]
    if is_edge and key:
        members.append(f"@key(src, dst, {', '.join(key)})")
    elif key:
        members.append(f"@key({', '.join(key)})")
    alone = key[0] if len(key) == 1 and not is_edge else None  # it is the id, which is never blank
    rows = st.fixed_dictionaries(
        {
            name: KINDS[kind].filter(_is_seen) if name == alone else KINDS[kind]
            for name, kind, absent in zip(names, kinds, nullable, strict=True)
            if not absent
        },
        optional={name: KINDS[kind] for name, kind, absent in zip(names, kinds, nullable, strict=True) if absent},
    )
    return "  ".join(members), rows, key


def _is_seen(value: object) -> bool:
    return not isinstance(value, str) or bool(value.strip())


@st.composite
def samples(draw: st.DrawFn) -> SampleGraph:
    texts, nodes = [], {}
    for name in ("Abc", "Def")[: draw(st.integers(1, 2))]:
        text, rows, key = draw(_bodies(is_edge=False))
        texts.append(f"node {name} {{ {text} }}")
        nodes[name] = draw(st.lists(rows, max_size=5, unique_by=partial(_key_of, key) if key else None))
        if not key and draw(st.booleans()):
            ids = draw(st.lists(_texts.filter(str.strip), min_size=5, max_size=5, unique=True))
            nodes[name] = [{**row, "id": ids[index]} for index, row in enumerate(nodes[name])]
    edges = {}
    for name in ("Uvw", "Xyz")[: draw(st.integers(0, 2))]:
        source, target = draw(st.sampled_from(sorted(nodes))), draw(st.sampled_from(sorted(nodes)))
        text, rows, key = draw(_bodies(is_edge=True))
        texts.append(f"edge {name}: {source} -> {target} {{ {text} }}")
        edge_rows: list[tuple[int, int, dict[str, Any]]] = []
        if nodes[source] and nodes[target]:
            ends = st.integers(0, len(nodes[source]) - 1), st.integers(0, len(nodes[target]) - 1)
            distinct = partial(_edge_key_of, key) if key else None
            edge_rows = draw(st.lists(st.tuples(*ends, rows), max_size=5, unique_by=distinct))
        edges[name] = (source, target, edge_rows)
    return SampleGraph("\n".join(texts), nodes, edges)


def _key_of(key: list[str], row: dict[str, Any]) -> str:
    """Return a text that is equal for equal keys; zero has no sign in a graph."""
    return str([row[part] + 0.0 if isinstance(row[part], float) else row[part] for part in key])


def _edge_key_of(key: list[str], row: tuple[int, int, dict[str, Any]]) -> str:
    return f"{row[:2]} {_key_of(key, row[2])}"


@given(samples())
@settings(max_examples=40)
def test_any_graph_round_trips(sample: SampleGraph) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = make_graph(parse_location(f"{name}/graph.omni"), sample.schema)
        records = [{"type": kind, "data": row} for kind, rows in sample.nodes.items() for row in rows]
        load_records(root, folder, records)
        ids = {kind: _ids(contents(root)[f"node:{kind}"]) for kind in sample.nodes}
        edges = [
            {"edge": kind, "from": ids[source][a], "to": ids[target][b], "data": row}
            for kind, (source, target, rows) in sample.edges.items()
            for a, b, row in rows
        ]
        load_records(root, folder, edges)
        exported = export_here(root, folder / "dump.jsonl")
        fresh = make_graph(parse_location(f"{name}/fresh.omni"), sample.schema)
        load_file(fresh, folder / "dump.jsonl")
        before, after = contents(root), contents(fresh)
        assert sum(table.num_rows for table in before.values()) == exported.total
        assert after.keys() == before.keys()
        for alias, table in before.items():
            assert after[alias].equals(table), alias
        export_here(fresh, folder / "again.jsonl")
        assert (folder / "again.jsonl").read_bytes() == (folder / "dump.jsonl").read_bytes()
        export_here(root, folder / "parquet", ExportFormat.PARQUET)


def _ids(table: pa.Table) -> list[Any]:
    return table["id"].to_pylist()
