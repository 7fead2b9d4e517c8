"""`embed` end to end: a real graph, and a provider on loopback that counts its requests."""

from __future__ import annotations

import json
import math
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import Progress
from omnigraph.embedding.provider import ConfiguredProvider, EmbeddingProvider
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.pipeline.embed.run import EmbedRequest, EmbedResult, embed
from omnigraph.pipeline.embed.tasks import EmbedTask, embed_requests
from omnigraph.pipeline.runner import LocalRunner
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice
from tests.embedding.provider_server import (
    ProviderHandler,
    ProviderServer,
    cut_off,
    right_answer,
    running_provider,
    status,
    texts_of,
)
from tests.waiting import wait_until

SCHEMA: Final = """\
node Note { k: String @key  title: String?  size: I64?  photo: Blob?  vec: Vector(4)? @embed("title") }
edge Cites: Note -> Note { why: String?  vec: Vector(4)? @embed("why") }
"""
NOTES: Final = {"a": "one", "b": "two", "c": "one", "d": "  ", "e": None, "f": "three"}


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA, actor="tester")
    lines = [json.dumps({"type": "Note", "data": {"k": k, "title": title, "size": 1}}) for k, title in NOTES.items()]
    lines.append('{"edge": "Cites", "from": "a", "to": "b", "data": {"why": "because"}}')
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(lines) + "\n")
    graph.load(str(file))
    return graph


def settings(server: ProviderServer, **changes: Any) -> EmbeddingSettings:
    base = {"kind": ProviderKind.OPENAI_COMPATIBLE, "base_url": server.url, "model": "m1", "key_variable": None}
    return EmbeddingSettings(**(base | {"backoff_seconds": 0.0, "concurrency": 1} | changes))


def run(graph: og.Graph, server: ProviderServer, wave_rows: int = 100, **options: Any) -> EmbedResult:
    names = ("batch", "timeout_seconds", "deadline_seconds", "attempts")
    changes = {name: options.pop(name) for name in names if name in options}
    provider = ConfiguredProvider(settings(server, **changes), {})
    request = EmbedRequest(actor="tester", provider=provider, branch=graph.branch, wave_rows=wave_rows, **options)
    return embed(graph.location, request, AutoRunner(RunnerChoice.LOCAL))


def vectors(graph: og.Graph) -> dict[str, list[float] | None]:
    rows = graph.query("query q() { match { $n: Note } return { $n.k as k, $n.vec as vec } }").to_pylist()
    return {row["k"]: row["vec"] for row in rows}


def expected(text: str) -> Any:
    return pytest.approx(make_mock_vector(text, 4), rel=1e-6)


VECTORS: Final = {k: expected(text) if text and text.strip() else None for k, text in NOTES.items()}


def test_fills_vectors_and_requests_each_text_once(graph: og.Graph, server: ProviderServer) -> None:
    result = run(graph, server)
    assert server.texts == [["one", "two", "three"], ["because"]]
    assert vectors(graph) == VECTORS
    assert all(math.hypot(*vector) == pytest.approx(1, rel=1e-6) for vector in vectors(graph).values() if vector)
    note, edge = result.properties
    assert (note.pending, note.embedded, note.failed, note.texts, note.characters, note.tokens) == (4, 4, 0, 3, 14, 4)
    assert (edge.type_name, edge.property, edge.source, edge.embedded) == ("Cites", "vec", "why", 1)
    assert (result.requests, result.retries, len(result.commits), result.runner) == (2, 0, 2, "local")
    assert [commit.operation for commit in graph.log(2)] == ["embed", "embed"]
    assert [dict(commit.counts) for commit in graph.log(2)] == [{"nodes": 0, "edges": 1}, {"nodes": 4, "edges": 0}]
    again = run(graph, server)
    assert (again.pending, again.requests, again.commits, len(server.requests)) == (0, 0, (), 2)


def test_one_commit_per_wave_with_other_columns_unchanged(graph: og.Graph, server: ProviderServer) -> None:
    result = run(graph, server, wave_rows=2, types=("Note",), batch=1)
    assert (len(result.commits), result.requests) == (2, 4)
    assert server.texts == [["one"], ["two"], ["one"], ["three"]]
    rows = graph.query("query q() { match { $n: Note } return { sum($n.size) as s, count($n) as n } }").to_pylist()
    assert rows == [{"s": 6, "n": 6}]
    assert vectors(graph)["f"] == expected("three")


def test_blobs_are_kept(graph: og.Graph, server: ProviderServer, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(
        '{"type": "Note", "data": {"k": "p", "title": "photo", "photo": "base64:AQID"}}\n'
    )
    graph.load(str(tmp_path / "p.jsonl"))
    run(graph, server, types=("Note",))
    graph.export(str(tmp_path / "out.jsonl"), types=["Note"])
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    [photo] = [line["data"] for line in lines if line["data"]["k"] == "p"]
    assert photo["photo"].endswith("AQID")
    assert photo["vec"] is not None


def test_update_of_the_source_makes_the_vector_pending(graph: og.Graph, server: ProviderServer) -> None:
    run(graph, server)
    server.requests.clear()
    graph.mutate('query m() { update Note set { title: "new" } where k = "a" }')
    assert vectors(graph)["a"] is None
    graph.mutate('query m() { update Note set { size: 7 } where k = "b" }')
    result = run(graph, server)
    assert (server.texts, result.embedded) == ([["new"]], 1)
    assert vectors(graph)["a"] == expected("new")
    graph.mutate('query m() { match { $n: Note { k: "a" } } update $n set { title: "x", vec: [1, 0, 0, 0] } }')
    assert vectors(graph)["a"] == [1.0, 0.0, 0.0, 0.0]
    graph.mutate('query m() { match { $n: Note { k: "a" } } update $n set { title: "y" } }')
    assert vectors(graph)["a"] is None


def test_all_embeds_every_row_with_text(graph: og.Graph, server: ProviderServer) -> None:
    run(graph, server)
    server.requests.clear()
    result = run(graph, server, every_row=True, types=("Note",))
    assert (server.texts, result.embedded) == ([["one", "two", "three"]], 4)


def test_dry_run_sends_nothing(graph: og.Graph, server: ProviderServer) -> None:
    result = run(graph, server, dry_run=True)
    assert (result.pending, server.requests, result.commits) == (5, [], ())


def test_too_many_tokens_are_refused_before_the_first_request(graph: og.Graph, server: ProviderServer) -> None:
    with pytest.raises(OmnigraphError, match="expected at most 5, got about 6") as caught:
        run(graph, server, tokens_max=5)
    assert (caught.value.code, caught.value.kind.value, server.requests) == ("embed_tokens", "refused", [])
    assert run(graph, server, tokens_max=6).embedded == 5


def test_rejected_texts_fail_only_their_rows(graph: og.Graph, server: ProviderServer, tmp_path: Path) -> None:
    graph.mutate('query m() { insert Note { k: "nan", title: "nan" } }')
    (tmp_path / "long.jsonl").write_text(json.dumps({"type": "Note", "data": {"k": "x", "title": "é" * 20_000}}) + "\n")
    graph.load(str(tmp_path / "long.jsonl"))

    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        answer = right_answer(body)
        if "one" in texts_of(body):
            handler.answer(400, {"error": "not allowed"})
            return True
        for row in answer["data"]:
            if body["input"][row["index"]] == "nan":
                row["embedding"] = [math.nan, 0.0, 0.0, 0.0]
        handler.answer(200, answer)
        return True

    server.always = fault
    errors = tmp_path / "errors.jsonl"
    result = run(
        graph, server, types=("Note",), errors=og.open(str(tmp_path / "g.omni")).location.child("../errors.jsonl")
    )
    assert (result.embedded, result.failed) == (2, 4)
    messages = {row.id: row.message for row in result.errors}
    assert messages.keys() == {"a", "c", "nan", "x"}
    assert messages["a"].startswith("the provider rejected the text with status 400")
    assert messages["nan"] == "invalid vector: expected finite numbers, got NaN or infinity"
    assert messages["x"] == "text too long: expected at most 32,768 bytes, got 40,000"
    assert {json.loads(line)["id"] for line in errors.read_text().splitlines()} == messages.keys()
    server.always = None
    assert run(graph, server, truncate=True).failed == 0
    assert max(len(text) for texts in server.texts for text in texts) == 16_384


def test_a_failing_provider_keeps_earlier_waves(graph: og.Graph, server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        if "three" in texts_of(body):
            handler.answer(503, {"error": "down"})
            return True
        return False

    server.always = fault
    with pytest.raises(OmnigraphError, match="2 rows of earlier waves are committed") as caught:
        run(graph, server, wave_rows=2)
    assert (caught.value.code, caught.value.facts["rows_embedded"], caught.value.facts["status"]) == (
        "embedding_failed", 2, 503,
    )  # fmt: skip
    assert "it continues with the other rows" in str(caught.value.hint)
    server.always = None
    server.requests.clear()
    assert run(graph, server, wave_rows=2, types=("Note",)).embedded == 2
    assert server.texts == [["one", "three"]]


def test_a_failing_run_of_every_row_says_that_it_starts_again(graph: og.Graph, server: ProviderServer) -> None:
    server.always = lambda handler, body: len(server.requests) > 1 and status(503)(handler, body)
    with pytest.raises(OmnigraphError, match="2 rows of earlier waves are committed") as caught:
        run(graph, server, wave_rows=2, types=("Note",), every_row=True)
    assert "it starts again with every row" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("code", "every_row", "again"),
    [(200, True, "starts again with every row"), (503, False, "continues with the other rows")],
)
def test_ctrl_c_sends_no_other_request(
    graph: og.Graph, server: ProviderServer, code: int, every_row: bool, again: str
) -> None:
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def waits_for_tasks() -> bool:
        return any(frame.f_code.co_name == "shutdown" for frame, _ in traceback.walk_stack(sys._current_frames()[main]))

    def interrupt(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        if len(server.requests) == 3:
            signal.pthread_kill(main, signal.SIGINT)
            wait_until(waits_for_tasks)
        handler.answer(code if len(server.requests) == 3 else 200, right_answer(body), Retry_After="30")
        return True

    server.always = interrupt
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            run(graph, server, wave_rows=2, batch=1, every_row=every_row)
    finally:
        signal.signal(signal.SIGINT, before)
    assert server.texts == [["one"], ["two"], ["one"]]
    assert caught.value.__notes__ == [f"2 rows of earlier waves are committed; the next run {again}"]
    server.always = None
    assert run(graph, server, types=("Note",)).embedded == 2


def test_faults_that_are_retried_give_the_same_result(graph: og.Graph, server: ProviderServer) -> None:
    """The answers have another order than the texts; before them there is a fault of each kind."""
    server.faults = [status(429, Retry_After="0"), status(500), cut_off]
    result = run(graph, server, types=("Note",))
    assert (result.embedded, result.requests, result.retries) == (4, 4, 3)
    assert vectors(graph) == VECTORS


def test_slow_answers_give_the_same_result(graph: og.Graph, server: ProviderServer) -> None:
    """The answer of the first request is sent after the request was repeated."""

    def slow(_: ProviderHandler, __: dict[str, Any]) -> bool:
        wait_until(lambda: len(server.requests) > 1)
        return False

    server.faults = [slow]
    result = run(graph, server, types=("Note",), timeout_seconds=0.3, deadline_seconds=None, attempts=1000)
    assert (result.embedded, result.failed, result.retries) == (4, 0, result.requests - 1)
    assert server.texts == [["one", "two", "three"]] * result.requests
    assert result.requests > 1
    assert vectors(graph) == VECTORS


def test_on_a_branch_that_owns_no_table_yet(graph: og.Graph, server: ProviderServer) -> None:
    branch = graph.create_branch("dev")
    result = run(branch, server, wave_rows=2, types=("Note",))
    assert (result.embedded, len(result.commits)) == (4, 2)
    assert vectors(branch)["f"] == expected("three")
    assert vectors(graph)["f"] is None
    graph.merge("dev")
    assert vectors(graph)["f"] == expected("three")


def test_a_function_as_provider(graph: og.Graph) -> None:
    result = graph.embed(provider=EmbeddingProvider(lambda text: [len(text), 0, 0, 0], "length"), types=["Note"])
    assert (result.embedded, result.requests, result.properties[0].model) == (4, 3, "length")
    assert vectors(graph)["a"] == [1.0, 0.0, 0.0, 0.0]


def test_a_function_with_vectors_of_another_length_ends_the_run(graph: og.Graph) -> None:
    texts: list[str] = []

    def embed_text(text: str) -> list[float]:
        texts.append(text)
        return [1.0, 0.0, 0.0]

    with pytest.raises(OmnigraphError, match="expected 4 numbers, got 3") as caught:
        graph.embed(provider=EmbeddingProvider(embed_text))
    assert (caught.value.code, texts) == ("embedding_malformed", ["one", "two", "three"])
    assert "`Vector(3)`" in str(caught.value.hint)


def test_an_invalid_vector_of_a_function_fails_only_its_rows(graph: og.Graph) -> None:
    provider = EmbeddingProvider(lambda text: [0.0] * 4 if text == "one" else [1.0] * 4 + [1.0] * (text == "two"))
    result = graph.embed(provider=provider, types=["Note"])
    assert (result.embedded, {row.id: row.message for row in result.errors}) == (
        1,
        {
            "a": "invalid vector: expected a vector with a direction, got zero",
            "b": "invalid vector: expected 4 numbers, got 5",
            "c": "invalid vector: expected a vector with a direction, got zero",
        },
    )


def test_without_a_provider(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_BASE_URL", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OmnigraphError, match="expected an embedding provider") as caught:
        graph.embed()
    assert caught.value.code == "embedding_provider_missing"
    assert graph.embed(dry_run=True).pending == 5


def test_another_model_is_refused(tmp_path: Path, server: ProviderServer) -> None:
    graph = og.init(str(tmp_path / "m.omni"), 'node N { k: String @key  v: Vector(4)? @embed("k", model="m2") }')
    with pytest.raises(OmnigraphError, match="expected 'm2', got 'm1'") as caught:
        run(graph, server)
    assert caught.value.code == "embedding_model_differs"


def test_progress_counts_the_texts(server: ProviderServer) -> None:
    reports: list[Progress] = []
    tasks = [EmbedTask(settings=settings(server), size=4, requests=(("one", "two"), (text,))) for text in ("a", "b")]
    LocalRunner(reports.append)(embed_requests, tasks)
    assert (reports[-1].rows, reports[-1].bytes) == (6, 6 * 4 * 4)


def test_a_task_has_the_name_of_the_key_only(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASK_KEY", "sk-secret-0123")
    task = EmbedTask(settings=settings(server, key_variable="TASK_KEY"), size=4, requests=(("one",),))
    data = pickle.dumps(task)
    result = embed_requests(pickle.loads(data))
    assert server.requests[0][1]["Authorization"] == "Bearer sk-secret-0123"
    assert b"TASK_KEY" in data
    assert all(b"sk-secret-0123" not in part for part in (data, pickle.dumps(result), repr((task, result)).encode()))
