"""Text arguments of `nearest`: the caller's provider embeds each once; a wrong provider is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.embedding.vectors import make_mock_vector
from tests.embedding.provider_server import ProviderServer, running_provider

SCHEMA = """\
node Doc { k: String @key  text: String  v: Vector(2)? @embed("text")  w: Vector(2)? @embed("text", model="m1")
  u: Vector(3)? @embed("text") }
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


def test_text_for_two_properties(graph: og.Graph) -> None:
    """A vector has the length of its property, and the model is checked for each of them."""
    both = "query q($t: String) {{ match {{ $d: Doc }} return {{ $d.k }} order {{ rrf({}) desc }} limit 1 }}"
    lengths = both.format("nearest($d.v, $t), nearest($d.u, $t)")
    with pytest.raises(OmnigraphError) as wrong_length:
        graph.query(lengths, params={"t": "two"}, embed=provider([0.0, 1.0]))
    assert "3" in str(wrong_length.value)
    models = both.format("nearest($d.v, $t), nearest($d.w, $t)")
    with pytest.raises(OmnigraphError, match="m1"):
        graph.query(models, params={"t": "two"}, embed=provider([0.0, 1.0], "m2"))
    assert len(graph.query(models, params={"t": "two"}, embed=provider([0.0, 1.0], "m1"))) == 1


@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_text_is_an_error(graph: og.Graph, text: str) -> None:
    with pytest.raises(OmnigraphError, match="`nearest` has no text to search for") as caught:
        graph.query(BY_V, params={"t": text}, embed=provider([0.0, 1.0]))
    assert caught.value.code == "search_text_blank"


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
    graph: og.Graph, embed: og.EmbeddingProvider | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OmnigraphError) as caught:
        graph.query(BY_V, params={"t": "x"}, embed=embed)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with running_provider() as provider:
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", provider.url)
        monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m1")
        monkeypatch.setenv("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "0")
        yield provider


def test_configured_provider_embeds_each_text_once(graph: og.Graph, server: ProviderServer) -> None:
    x, y = make_mock_vector("two", 2)
    expected = {"a": 1 - x, "b": 1 - y}
    rows = graph.query(BY_V, params={"t": "two"}).to_pylist()
    assert {row["d.k"]: row["far"] for row in rows} == pytest.approx(expected, abs=1e-6)
    assert server.texts == [["two"]]
    assert graph.query(BY_W, params={"t": "two"}).to_pylist()[0]["d.k"] in ("a", "b")  # the model is the one of w


def test_explain_calls_no_provider(graph: og.Graph, server: ProviderServer) -> None:
    graph.explain(BY_V, {"t": "two"})
    assert server.requests == []


def test_analyzed_search_for_a_text_shows_its_rows_and_path(graph: og.Graph, server: ProviderServer) -> None:
    explained = graph.explain(BY_V, {"t": "two"}, analyze=True)
    search = next(step for step in explained.steps if step.text.startswith("search"))
    assert 'embed("two")' in search.text
    assert (search.figures.rows, search.figures.mode) == (2, "exactly")
    assert server.texts == [["two"]]


def test_failing_provider_is_an_error(graph: og.Graph, server: ProviderServer) -> None:
    def fail(handler: Any, body: Any) -> bool:
        handler.answer(503, {"error": "busy"})
        return True

    server.always = fail
    with pytest.raises(OmnigraphError) as caught:
        graph.query(BY_V, params={"t": "two"})
    assert (caught.value.code, caught.value.facts["attempts"], len(server.requests)) == ("embedding_failed", 4, 4)


def test_rejected_text_is_an_error(graph: og.Graph, server: ProviderServer) -> None:
    def reject(handler: Any, body: Any) -> bool:
        handler.answer(422, {"error": "empty"})
        return True

    server.always = reject
    with pytest.raises(OmnigraphError, match="rejected the text with status 422") as caught:
        graph.query(BY_V, params={"t": "two"})
    assert caught.value.code == "embedding_malformed"


def test_mock_provider_needs_no_network(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    assert len(graph.query(BY_V, params={"t": "two"}).to_pylist()) == 2
