"""Providers over HTTP, against a real server on loopback with scripted faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import OmnigraphError
from omnigraph.embedding.http import EmbeddingFailedError, HttpEmbedder
from omnigraph.embedding.protocols import EmbeddingBatch, RejectedText, TextPurpose
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind, read_settings
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.embedding.waits import RequestPace
from tests.embedding.provider_server import (
    Fault,
    ProviderHandler,
    ProviderServer,
    cut_off,
    drip,
    right_answer,
    running_provider,
    status,
    texts_of,
)

KEY = "sk-secret-0123"
BATCH = EmbeddingBatch(texts=("alpha", "beta", "gamma"), size=4, purpose=TextPurpose.DOCUMENT)
VECTORS = [pytest.approx(make_mock_vector(text, 4), rel=1e-6) for text in BATCH.texts]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with running_provider() as provider:
        yield provider


def embedder(
    server: ProviderServer,
    kind: ProviderKind = ProviderKind.OPENAI_COMPATIBLE,
    *,
    pace: RequestPace | None = None,
    wait: Callable[[float], None] = SYSTEM_CLOCK.sleep,
    **changes: Any,
) -> HttpEmbedder:
    settings = EmbeddingSettings(
        kind=kind, base_url=server.url, model="m1", key_variable="TEST_KEY", backoff_seconds=0.0, deadline_seconds=None
    )
    return HttpEmbedder(replace(settings, **changes), {"TEST_KEY": KEY}, pace=pace, wait=wait)


def document(change: Any) -> Fault:
    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        handler.answer(200, change(right_answer(body)))
        return True

    return fault


def test_openai_request_and_vectors_in_the_order_of_the_texts(server: ProviderServer) -> None:
    assert embedder(server).embed(BATCH) == VECTORS
    [(path, headers, body)] = server.requests
    assert (path, headers["Authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert body == {"model": "m1", "input": ["alpha", "beta", "gamma"], "dimensions": 4}


@pytest.mark.parametrize(
    ("purpose", "task"), [(TextPurpose.QUERY, "RETRIEVAL_QUERY"), (TextPurpose.DOCUMENT, "RETRIEVAL_DOCUMENT")]
)
def test_gemini_request(server: ProviderServer, purpose: TextPurpose, task: str) -> None:
    batch = replace(BATCH, purpose=purpose)
    assert embedder(server, ProviderKind.GEMINI).embed(batch) == VECTORS
    [(path, headers, body)] = server.requests
    assert (path, headers["x-goog-api-key"]) == ("/v1/models/m1:batchEmbedContents", KEY)
    assert {request["taskType"] for request in body["requests"]} == {task}


RECOVERED = {
    "rate limit": status(429, Retry_After="0"),
    "server error": status(500),
    "cut off": cut_off,
    "not JSON": document(lambda _: b"<html>"),
    "too few vectors": document(lambda answer: {"data": answer["data"][1:]}),
    "an index twice": document(lambda answer: {"data": [answer["data"][0]] * 3}),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_a_temporary_fault_does_not_change_the_result(server: ProviderServer, name: str) -> None:
    server.faults = [RECOVERED[name], RECOVERED[name]]
    client = embedder(server)
    assert client.embed(BATCH) == VECTORS
    assert (len(server.requests), client.requests, client.retries) == (3, 3, 2)


def test_retry_after_is_waited_for_before_the_next_request(server: ProviderServer) -> None:
    server.faults = [status(429, Retry_After="7"), status(503, Retry_After="Wed, 18 Nov 2099 09:30:00 GMT")]
    waits: list[float] = []
    assert embedder(server, wait=waits.append).embed(BATCH) == VECTORS
    assert waits == [0.0, 7.0, 0.0, 30.0, 0.0]


def test_no_other_request_is_sent_after_a_stop_during_the_wait(server: ProviderServer) -> None:
    def stop(seconds: float) -> None:
        if seconds:
            raise InterruptedError

    server.always = status(429, Retry_After="7")
    with pytest.raises(InterruptedError):
        embedder(server, wait=stop).embed(BATCH)
    assert len(server.requests) == 1


def test_a_pace_delays_each_request_and_not_its_deadline(server: ProviderServer) -> None:
    waits: list[float] = []
    client = embedder(server, deadline_seconds=600.0, pace=RequestPace(3600.0, 60.0), wait=waits.append)
    assert [client.embed(BATCH), client.embed(BATCH)] == [VECTORS, VECTORS]
    assert waits == [60.0, pytest.approx(3660.0, abs=60)]


@pytest.mark.parametrize(("code", "requests"), [(500, 3), (429, 3), (401, 1), (403, 1), (404, 1), (302, 1)])
def test_a_lasting_fault_is_an_error_without_the_key(server: ProviderServer, code: int, requests: int) -> None:
    server.always = status(code, Location="http://127.0.0.1:9/")
    with pytest.raises(EmbeddingFailedError) as caught:
        embedder(server, attempts=3).embed(BATCH)
    assert len(server.requests) == requests
    assert caught.value.facts == {"provider": "openai-compatible", "status": code, "attempts": requests}
    assert KEY not in str(caught.value)


def test_an_invalid_response_with_the_key_is_an_error_without_it(server: ProviderServer) -> None:
    def echo(handler: ProviderHandler, _: dict[str, Any]) -> bool:
        row = {"index": handler.headers["Authorization"], "embedding": [0.0] * 4}
        handler.answer(200, {"data": [row] * 3})
        return True

    server.always = echo
    with pytest.raises(EmbeddingFailedError, match="expected each index") as caught:
        embedder(server, attempts=1).embed(BATCH)
    assert KEY not in str(caught.value)


def test_a_rejected_text_does_not_reject_the_others(server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        if "beta" in texts_of(body):
            handler.answer(400, {"error": "too long"})
            return True
        return False

    server.always = fault
    first, second, third = embedder(server).embed(BATCH)
    assert [first, third] == [VECTORS[0], VECTORS[2]]
    assert second == RejectedText('the provider rejected the text with status 400: {"error": "too long"}')
    assert server.texts == [["alpha", "beta", "gamma"], ["alpha"], ["beta"], ["gamma"]]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([0.0] * 4, "invalid vector: expected a vector with a direction, got zero"),
        ([1.0] * 3, "invalid vector: expected 4 numbers, got 3"),
        (["x"] * 4, "invalid vector: expected numbers"),
        ([[1.0, 2.0]] * 4, "invalid vector: expected numbers"),
    ],
)
def test_an_invalid_vector_rejects_only_its_text(server: ProviderServer, vector: list[Any], reason: str) -> None:
    def change(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        answer = right_answer(body)
        for row in answer["data"]:
            if body["input"][row["index"]] == "gamma":
                row["embedding"] = vector
        handler.answer(200, answer)
        return True

    server.always = change
    assert embedder(server).embed(BATCH) == [*VECTORS[:2], RejectedText(reason)]


@pytest.mark.parametrize("texts", [("alpha", "beta", "gamma"), ("alpha",)])
def test_a_model_with_another_length_ends_the_run(server: ProviderServer, texts: tuple[str, ...]) -> None:
    def shorten(answer: dict[str, Any]) -> dict[str, Any]:
        return {"data": [row | {"embedding": row["embedding"][:3]} for row in answer["data"]]}

    server.always = document(shorten)
    with pytest.raises(OmnigraphError, match="expected 4 numbers, got 3") as caught:
        embedder(server).embed(replace(BATCH, texts=texts))
    assert (caught.value.code, len(server.requests)) == ("embedding_malformed", 1)
    assert str(caught.value.hint) == "Use a model with vectors of 4 numbers, or declare the property as `Vector(3)`."


def test_a_missing_key_is_an_error_that_names_the_variable(server: ProviderServer) -> None:
    with pytest.raises(OmnigraphError, match="TEST_KEY") as caught:
        HttpEmbedder(embedder(server).settings, {}).embed(BATCH)
    assert (caught.value.code, server.requests) == ("embedding_key_missing", [])


@pytest.mark.parametrize(
    "key", ["sk-sec\nret-1", "sk-sec ret-1", "sk-secret-1\n", "sk-secret-\u00fc1", "sk-secret-\udcff1"]
)
def test_a_malformed_key_is_an_error_without_the_key(server: ProviderServer, key: str) -> None:
    with pytest.raises(OmnigraphError, match="in the variable TEST_KEY: expected printable ASCII") as caught:
        HttpEmbedder(embedder(server).settings, {"TEST_KEY": key}).embed(BATCH)
    assert (caught.value.code, caught.value.facts, server.requests) == (
        "embedding_settings",
        {"variable": "TEST_KEY"},
        [],
    )
    assert "sk-sec" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"PROVIDER": "openai-compatible"}, "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ({"BASE_URL": "http://127.0.0.1:9", "MODEL": "m", "API_KEY_ENV": "OPENROUTER_API_KEY"}, "OPENROUTER_API_KEY"),
        ({"PROVIDER": "gemini"}, "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_names_each_variable_that_is_read(variables: dict[str, str], names: str) -> None:
    settings = read_settings({f"OMNIGRAPH_EMBED_{name}": value for name, value in variables.items()})
    assert settings is not None
    with pytest.raises(OmnigraphError) as caught:
        HttpEmbedder(settings, {}).embed(BATCH)
    assert caught.value.message.endswith(f"expected it in the variable {names}")


def test_no_key_is_sent_without_a_variable(server: ProviderServer) -> None:
    embedder(server, key_variable=None).embed(BATCH)
    assert "Authorization" not in server.requests[0][1]


def test_the_deadline_ends_the_retries(server: ProviderServer) -> None:
    server.always = status(429, Retry_After="3600")
    with pytest.raises(EmbeddingFailedError) as caught:
        embedder(server, deadline_seconds=5.0).embed(BATCH)
    assert (len(server.requests), caught.value.facts["attempts"]) == (1, 1)


def test_a_response_that_never_ends_is_a_timeout(server: ProviderServer) -> None:
    is_closed = threading.Event()
    server.always = drip(is_closed)
    with pytest.raises(EmbeddingFailedError, match="did not answer in time") as caught:
        embedder(server, timeout_seconds=0.2, attempts=1).embed(BATCH)
    assert (caught.value.code, caught.value.facts["status"]) == ("embedding_failed", None)
    assert is_closed.wait(60)


def test_a_stop_ends_a_response_that_never_ends(server: ProviderServer) -> None:
    def stop() -> None:
        raise InterruptedError

    is_closed = threading.Event()
    server.always = drip(is_closed)
    settings = embedder(server, timeout_seconds=3600.0).settings
    with pytest.raises(InterruptedError):
        HttpEmbedder(settings, {"TEST_KEY": KEY}, raise_if_stopped=stop).embed(BATCH)
    assert is_closed.wait(60)


def test_a_server_that_is_not_there_is_an_error() -> None:
    with running_provider() as provider:
        pass
    with pytest.raises(EmbeddingFailedError) as caught:
        embedder(provider, attempts=2).embed(BATCH)
    assert (caught.value.facts["status"], caught.value.facts["attempts"]) == (None, 2)
    address = provider.url.removesuffix("/v1")
    assert caught.value.message == f"the embedding provider failed after 2 attempts: {address} could not be reached"
    assert str(caught.value.hint).startswith("Check OMNIGRAPH_EMBED_BASE_URL")
