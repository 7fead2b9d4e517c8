"""Pending vectors in doctor and index status."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.maintenance.doctor.findings import Check, Health

SCHEMA = """
node Note { k: String @key  title: String?  vec: Vector(4)? @embed("title") @index }
node Text { k: String @key  body: String  vec: Vector(4) @embed("body") }
"""
INSERT = """query m() {
  insert Note { k: "a", title: "one" }
  insert Note { k: "b", title: " " }
  insert Note { k: "c", title: "two", vec: [0, 0, 0, 1] }
  insert Text { k: "d", body: "three" }
}"""


def pending(graph: og.Graph) -> tuple[dict[tuple[str, str], int], list[tuple[str, Health, str, str]]]:
    """Return what index status and doctor report."""
    rows = {(row.table_key, row.column): row.pending_rows for row in graph.index_status() if row.pending_rows}
    findings = [
        (row.where, row.health, row.message, str(row.fix))
        for row in graph.doctor()
        if row.check is Check.INDEXES and "pending" in row.message
    ]
    return rows, findings


def test_pending_rows_are_reported_until_they_are_embedded(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    assert pending(graph) == ({}, [])
    graph.mutate(INSERT)
    assert pending(graph) == (
        {("node:Note", "vec"): 1, ("node:Text", "vec"): 1},
        [
            ("node:Note", Health.NOTICE, "1 pending vector: vec", "`graph.embed()`"),
            ("node:Text", Health.PROBLEM, "1 pending vector: vec", "`graph.embed()`"),
        ],
    )
    graph.embed(provider=og.EmbeddingProvider(lambda text: make_mock_vector(text, 4)))
    assert pending(graph) == ({}, [])
