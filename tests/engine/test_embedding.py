"""Text arguments of `nearest`: the caller's provider embeds each once; a wrong provider is an error."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError

SCHEMA = """\
node Doc { k: String @key  text: String  v: Vector(2)? @embed("text")  w: Vector(2)? @embed("text", model="m1") }
"""
ROWS = """\
query add() {
  insert Doc { k: "a", text: "one", v: [1, 0], w: [0, 1] }
  insert Doc { k: "b", text: "two", v: [0, 1], w: [1, 0] }
  insert Doc { k: "c", text: "three" }
}
"""
BY_V = "query q($t: String) { match { $d: Doc } return { $d.k, nearest($d.v, $t) as far } limit 2 }"
BY_W = "query q($t: String) { match { $d: Doc } return { $d.k } order { nearest($d.w, $t) } limit 1 }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(str(tmp_path_factory.mktemp("docs") / "graph.omni"), SCHEMA)
    graph.mutate(ROWS)
    return graph


def provider(vector: Any, model: str | None = None, texts: list[str] | None = None) -> og.EmbeddingProvider:
    def embed(text: str) -> Any:
        if texts is not None:
            texts.append(text)
        return vector

    return og.EmbeddingProvider(embed, model)


def test_text_is_embedded_once_and_ranked_by_its_vector(graph: og.Graph) -> None:
    texts: list[str] = []
    result = graph.query(BY_V, params={"t": "zwei"}, embed=provider([0.0, 2.0], texts=texts))
    assert result.to_pylist() == [{"d.k": "b", "far": 0.0}, {"d.k": "a", "far": 1.0}]
    both = "nearest($d.v, $t) as far, rrf(nearest($d.v, $t), bm25($d.text, $t)) as s"
    text = f"query q($t: String) {{ match {{ $d: Doc }} return {{ $d.k, {both} }} order {{ s desc }} limit 1 }}"
    assert graph.query(text, params={"t": "two"}, embed=provider((0, 1), texts=texts)).to_pylist()[0]["d.k"] == "b"
    assert texts == ["zwei", "two"]


def test_literal_text_and_vector_parameter(graph: og.Graph) -> None:
    literal = BY_V.replace("$t: String", "").replace("$t", '"zwei"')
    assert graph.query(literal, embed=provider([0, 1])).to_pylist()[0]["d.k"] == "b"
    vector = BY_V.replace("$t: String", "$t: Vector(2)")
    assert graph.query(vector, params={"t": [0, 1]}).to_pylist()[0]["d.k"] == "b"


def test_model_of_provider_must_equal_model_of_schema(graph: og.Graph) -> None:
    assert graph.query(BY_W, params={"t": "x"}, embed=provider([1, 0], "m1")).to_pylist() == [{"d.k": "b"}]
    for model in (None, "m2"):
        with pytest.raises(OmnigraphError, match="m1") as caught:
            graph.query(BY_W, params={"t": "x"}, embed=provider([1, 0], model))
        assert caught.value.code == "embedding_model_differs"


@pytest.mark.parametrize(
    ("embed", "code"),
    [
        (None, "embedding_provider_missing"),
        (provider([1, 2, 3]), "embedding_malformed"),
        (provider([1, float("nan")]), "embedding_malformed"),
    ],
)
def test_provider_without_valid_vector_is_an_error(
    graph: og.Graph, embed: og.EmbeddingProvider | None, code: str
) -> None:
    with pytest.raises(OmnigraphError) as caught:
        graph.query(BY_V, params={"t": "x"}, embed=embed)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
