"""Text in `nearest` over HTTP: a provider that fails is 502, and its key is in no response or log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.cli.process import omnigraph
from tests.embedding.provider_server import ProviderHandler, running_provider
from tests.server.process import serve

KEY = "sk-secret-0123"
SCHEMA = 'node Note { k: String @key  vec: Vector(4)? @embed("k") }'
NEAREST = 'query q() { match { $n: Note } return { $n.k as k } order { nearest($n.vec, "two") } limit 1 }'


def test_a_provider_that_fails_is_502(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    graph.mutate('query m() { insert Note { k: "one", vec: [0, 0, 0, 1] } }')

    def fail(handler: ProviderHandler, _: dict[str, Any]) -> bool:
        handler.answer(500, {"error": dict(handler.headers)})
        return True

    def reject(handler: ProviderHandler, _: dict[str, Any]) -> bool:
        handler.answer(400, b"not allowed")
        return True

    with running_provider() as provider:
        environment = {
            "OMNIGRAPH_UNAUTHENTICATED": "1",
            "OMNIGRAPH_EMBED_BASE_URL": provider.url,
            "OMNIGRAPH_EMBED_MODEL": "m1",
            "OMNIGRAPH_EMBED_API_KEY_ENV": "MY_KEY",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "1",
            "MY_KEY": KEY,
        }
        with serve(graph.uri, tmp_path, environment=environment) as server:
            answer = server.query(NEAREST)
            assert (answer.status, answer.document["rows"]) == (200, [{"k": "one"}])
            assert provider.requests[0][1]["Authorization"] == f"Bearer {KEY}"
            provider.always = fail
            failed = server.query(NEAREST)
            assert (failed.status, failed.document["error_code"]) == (502, "embedding_failed")
            assert KEY not in failed.body.decode() + (tmp_path / "server.log").read_text()
            provider.always = reject
            rejected = server.query(NEAREST)
            assert (rejected.status, rejected.document["error_code"]) == (502, "embedding_malformed")
            assert "the provider rejected the text with status 400: not allowed" in rejected.document["error"]
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    "variables", [{"PROVIDER": "mock", "BATCH": "x"}, {"PROVIDER": "mok"}, {"BASE_URL": "http://127.0.0.1:9"}]
)
def test_a_server_with_a_malformed_provider_does_not_start(tmp_path: Path, variables: dict[str, str]) -> None:
    uri = og.init(str(tmp_path / "g.omni"), SCHEMA).uri
    environment = {f"OMNIGRAPH_EMBED_{name}": value for name, value in variables.items()}
    ended = omnigraph("serve", uri, "--unauthenticated", "--bind", "127.0.0.1:0", env=environment)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "OMNIGRAPH_EMBED_" in ended.stderr
