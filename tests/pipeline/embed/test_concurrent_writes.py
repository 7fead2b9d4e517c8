"""Writes during a run: no row keeps the vector of an old text, and no other change is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.pipeline.embed.run import EmbedRequest, EmbedResult, embed
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice
from tests.embedding.provider_server import ProviderHandler, ProviderServer, running_provider

SCHEMA: Final = 'node Note { k: String @key  title: String?  n: I64?  vec: Vector(4)? @embed("title") }'
ROWS: Final = "abcdef"


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA, actor="tester")
    for part in (ROWS[:3], ROWS[3:]):
        graph.mutate("query m() { " + " ".join(f'insert Note {{ k: "{k}", title: "t-{k}" }}' for k in part) + " }")
    return graph


def run(graph: og.Graph, server: ProviderServer, during: Callable[[], object] | None = None) -> EmbedResult:
    """Embed in waves of two rows; `during` is called while the request of the second wave is answered."""

    def fault(_: ProviderHandler, body: dict[str, Any]) -> bool:
        if during is not None and body["input"] == ["t-c", "t-d"]:
            during()
        return False

    server.always = fault
    settings = EmbeddingSettings(
        kind=ProviderKind.OPENAI_COMPATIBLE, base_url=server.url, model="m", key_variable=None, concurrency=1
    )
    request = EmbedRequest(actor="tester", provider=ConfiguredProvider(settings, {}), wave_rows=2)
    return embed(graph.location, request, AutoRunner(RunnerChoice.LOCAL))


def rows(graph: og.Graph, title: str = "title") -> dict[str, tuple[Any, ...]]:
    text = f"query q() {{ match {{ $n: Note }} return {{ $n.k as k, $n.{title} as t, $n.vec as v, $n.n as n }} }}"
    return {row["k"]: (row["t"], row["v"], row["n"]) for row in graph.query(text).to_pylist()}


def change_texts(graph: og.Graph) -> None:
    graph.mutate('query m() { update Note set { title: "new" } where k = "c" }')
    graph.mutate('query m() { update Note set { n: 7 } where k = "d" }')
    graph.mutate('query m() { update Note set { title: "newer" } where k = "e" }')


def delete_and_insert(graph: og.Graph) -> None:
    graph.mutate('query m() { delete Note where k = "c" }')
    graph.mutate('query m() { insert Note { k: "d", title: "replaced" } insert Note { k: "g", title: "t-g" } }')


def merge_a_branch(graph: og.Graph) -> None:
    branch = graph.create_branch("dev")
    branch.mutate('query m() { update Note set { title: "merged" } where k = "c" }')
    graph.merge("dev")


CHANGES: Final[dict[str, Callable[[og.Graph], object]]] = {
    "update": change_texts,
    "delete": delete_and_insert,
    "merge": merge_a_branch,
    "optimize": lambda graph: graph.optimize(),
    "another run": lambda graph: graph.embed(provider=og.EmbeddingProvider(lambda text: make_mock_vector(text, 4))),
    "own vector": lambda graph: graph.mutate(
        'query m() { update Note set { title: "own", vec: [0, 0, 0, 1] } where k = "c" }'
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_row_keeps_the_vector_of_an_old_text(graph: og.Graph, server: ProviderServer, name: str) -> None:
    run(graph, server, lambda: CHANGES[name](graph))
    for text, vector, _ in rows(graph).values():
        if vector is not None and text != "own":
            assert vector == pytest.approx(make_mock_vector(text, 4), rel=1e-6)
    run(graph, server)
    after = rows(graph)
    assert all(vector is not None for _, vector, _ in after.values())
    expected = og.open(graph.uri).query("query q() { match { $n: Note } return { count($n) as n } }").scalar()
    assert expected == len(after)
    if name == "update":
        assert (after["c"][0], after["d"][2], after["e"][0]) == ("new", 7, "newer")
    if name == "own vector":
        assert after["c"][1] == [0.0, 0.0, 0.0, 1.0]


def test_renamed_properties_are_filled(graph: og.Graph, server: ProviderServer) -> None:
    renamed = SCHEMA.replace("title: String?", 'label: String? @rename_from("title")').replace(
        '"title") }', '"label") }'
    )
    result = run(graph, server, lambda: graph.apply_schema(renamed))
    assert result.embedded == len(ROWS)
    assert all(vector is not None for _, vector, _ in rows(graph, "label").values())


def test_a_dropped_property_ends_the_run(graph: og.Graph, server: ProviderServer) -> None:
    with pytest.raises(OmnigraphError, match=r"schema changed during the run.*2 rows of earlier waves") as caught:
        run(graph, server, lambda: graph.apply_schema(SCHEMA.replace('  vec: Vector(4)? @embed("title")', "")))
    assert caught.value.code == "embed_schema_changed"


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
def test_a_merge_takes_no_text_of_one_branch_with_the_vector_of_the_other(
    graph: og.Graph, server: ProviderServer, strategy: Literal["ours", "theirs"]
) -> None:
    dev = graph.create_branch("dev")
    dev.mutate('query m() { update Note set { title: "new" } where k = "c" }')
    run(graph, server)
    with pytest.raises(og.MergeConflictError):
        graph.merge("dev")
    graph.merge("dev", strategy=strategy)
    title, vector, _ = rows(graph)["c"]
    assert (title, vector is None) == {"ours": ("t-c", False), "theirs": ("new", True)}[strategy]
