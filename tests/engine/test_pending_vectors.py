"""An insert or load may omit a vector with `@embed` if it has the source text; the vector is null until then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.base.errors import QueryTextError
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.printer import print_schema, schema_from_catalog
from tests.schema.incarnations import catalog_of

SCHEMA: Final = """\
node Note {
  k: String @key
  title: String
  body: String?
  vec: Vector(2) @embed(title)
  other: Vector(2) @embed("body")
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(str(tmp_path / "graph.omni"), SCHEMA)


def vectors(graph: og.Graph) -> list[tuple[Any, ...]]:
    result = graph.query("query q() { match { $n: Note } return { $n.k, $n.vec, $n.other } order { $n.k } }")
    return [tuple(row.values()) for row in result.to_pylist()]


def test_insert_with_text_or_vector(graph: og.Graph) -> None:
    graph.mutate("""query m($t: String?) {
      insert Note { k: "a", title: "one", body: $t }
      insert Note { k: "b", title: "two", vec: [1, 0], other: [0, 1] }
    }""")
    assert vectors(graph) == [("a", None, None), ("b", [1.0, 0.0], [0.0, 1.0])]


def test_insert_without_text_and_vector_is_rejected(graph: og.Graph) -> None:
    with pytest.raises(QueryTextError) as caught:
        graph.mutate('query m() { insert Note { k: "a", title: "one" } }')
    (problem,) = caught.value.problems
    assert (problem.code, "`other`" in problem.message, "`vec`" in problem.message) == ("T601", True, False)


def test_load_without_vector(graph: og.Graph, tmp_path: Path) -> None:
    file = tmp_path / "notes.ndjson"
    file.write_text('{"type": "Note", "data": {"k": "a", "title": "one", "body": "more", "vec": [0, 2]}}\n')
    graph.load(str(file))
    assert vectors(graph) == [("a", [0.0, 2.0], None)]


def test_search_ranks_rows_with_vectors(graph: og.Graph) -> None:
    graph.mutate("""query m() {
      insert Note { k: "a", title: "one", body: "x" }
      insert Note { k: "b", title: "two", body: "y", vec: [1, 0] }
    }""")
    text = "query q() { match { $n: Note } return { $n.k as k } order { nearest($n.vec, [1, 0]) } limit 9 }"
    assert [row["k"] for row in graph.query(text).to_pylist()] == ["b"]


def test_schema_is_printed_as_declared(graph: og.Graph) -> None:
    catalog = graph.snapshot().schema.catalog
    assert 'vec: Vector(2) @embed("title")' in print_schema(schema_from_catalog(catalog))
    assert find_steps(catalog, catalog_of(SCHEMA)).steps == ()


def test_error_names_only_the_missing_source(tmp_path: Path) -> None:
    graph = og.init(
        str(tmp_path / "g.omni"), "node Doc { slug: String @key title: String vec: Vector(3) @embed(title) }"
    )
    with pytest.raises(og.OmnigraphError) as caught:
        graph.mutate('query m() { insert Doc { slug: "x" } }')
    assert "missing required property of Doc: `title`" in str(caught.value)
    graph.mutate('query m() { insert Doc { slug: "x", title: "T" } }')
