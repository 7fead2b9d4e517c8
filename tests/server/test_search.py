"""Searches on every surface: through an index by default, and exactly with `exact=true` or `--exact`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from tests.cli.process import omnigraph
from tests.server.process import serve

ROWS = 21_000  # a smaller table is searched in memory
SCHEMA = "node Note { k: String @key  t: String @index }\n"
BEST = 'query q() {{ match {{ $n: Note }} return {{ $n.k as k, bm25($n.t, "w7 w11"{}) as s }} limit 5 }}'


def rows_of(text: str) -> list[dict[str, Any]]:
    return [{"k": row["k"], "s": float(row["s"])} for row in csv.DictReader(io.StringIO(text))]


def test_every_surface_can_search_exactly(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    texts = [f"w{number % 13} w{number % 17} {'x ' * (number % 5)}" for number in range(ROWS)]
    graph.load({"Note": pa.table({"k": [f"n{number}" for number in range(ROWS)], "t": texts})})
    graph.optimize()
    by_index, exact = BEST.format(""), BEST.format(", exact=true")
    expected = graph.query(exact).to_pylist()
    assert graph.query(by_index, exact=True).to_pylist() == expected
    with serve(graph.uri, tmp_path) as server:
        served = og.connect(f"http://{server.address}")
        address, store = ("--server", f"http://{server.address}"), ("--store", graph.uri)
        for text, path in ((by_index, "by text index"), (exact, "exactly (requested)")):
            explained = [
                graph.explain(text).text,
                served.explain(text).text,
                server.send("POST", "explain", {"query": text}).document["text"],
                *(omnigraph("explain", "-e", text, *target).stdout for target in (store, address)),
            ]
            assert all(path in plan for plan in explained), explained
            answers = [
                graph.query(text).to_pylist(),
                served.query(text).to_pylist(),
                server.query(text).document["rows"],
                *(rows_of(omnigraph("query", "-e", text, "--format", "csv", *to).stdout) for to in (store, address)),
            ]
            for rows in answers:
                assert [row["k"] for row in rows] == [row["k"] for row in expected]
                assert [row["s"] for row in rows] == pytest.approx([row["s"] for row in expected], rel=1e-5)
        assert "exactly (requested)" in omnigraph("explain", "-e", by_index, "--exact", *store).stdout
        rejected = omnigraph("query", "-e", by_index, "--exact", *address)
        assert (rejected.exit_code, "exact=true" in rejected.stderr) == (2, True)
