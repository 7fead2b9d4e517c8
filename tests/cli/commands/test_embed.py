"""`omnigraph embed`: output, exit codes, and no key in any of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base import failpoints
from tests.cli.process import run_in_process
from tests.embedding.provider_server import ProviderHandler, ProviderServer, running_provider, texts_of

KEY = "sk-secret-0123"
SCHEMA = 'node Note { k: String @key  vec: Vector(4)? @embed("k") @index }'


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    og.init(str(tmp_path / "n.omni"), SCHEMA).mutate(
        'query m() { insert Note { k: "one" } insert Note { k: "two" } insert Note { k: "bad" } }'
    )
    return tmp_path / "n.omni"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with running_provider() as provider:
        names = {"BASE_URL": provider.url, "MODEL": "m1", "API_KEY_ENV": "MY_KEY", "RETRY_BACKOFF_MS": "0"}
        for name, value in names.items():
            monkeypatch.setenv(f"OMNIGRAPH_EMBED_{name}", value)
        monkeypatch.setenv("MY_KEY", KEY)
        yield provider


def test_dry_run_then_run_then_nothing_to_do(notes: Path, server: ProviderServer) -> None:
    outcome = run_in_process("embed", notes, "--dry-run", cwd=notes.parent)
    assert (outcome.exit_code, server.requests) == (0, [])
    assert "3 rows to embed; nothing was sent" in outcome.stderr
    document = json.loads(run_in_process("embed", notes, "--json", "--with-indexes", cwd=notes.parent).stdout)
    assert document["indexes"] is not None
    [stats] = document["properties"]
    assert stats == {
        "type_name": "Note", "property": "vec", "source": "k", "model": "m1", "pending": 3, "characters": 9,
        "tokens": 3, "embedded": 3, "failed": 0, "texts": 3,
    }  # fmt: skip
    assert (document["requests"], document["retries"], len(document["commits"]), document["runner"]) == (
        1,
        0,
        1,
        "local",
    )
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    outcome = run_in_process("embed", notes, cwd=notes.parent)
    assert (outcome.exit_code, len(server.requests)) == (0, 1)
    assert "no row was embedded (runner: local)" in outcome.stderr


def test_refused_with_too_many_tokens(notes: Path, server: ProviderServer) -> None:
    outcome = run_in_process("embed", notes, "--max-tokens", "2", cwd=notes.parent)
    assert (outcome.exit_code, server.requests) == (3, [])
    assert "expected at most 2, got about 3" in outcome.stderr
    assert "`--max-tokens 3`" in outcome.stderr


def test_rejected_rows_exit_with_1_and_are_written_to_the_file(notes: Path, server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        if "bad" in texts_of(body):
            handler.answer(422, {"error": f"refused for {KEY}"})
            return True
        return False

    server.always = fault
    outcome = run_in_process("embed", notes, "--errors", "failed.jsonl", cwd=notes.parent)
    assert outcome.exit_code == 1
    assert "error: 1 row could not be embedded\n  Note bad: vec: the provider rejected the text" in outcome.stderr
    assert "embedded 2 rows in 1 commit" in outcome.stderr
    assert "hint: The other rows are committed. Change the texts that the provider rejected. Then" in outcome.stderr
    [failure] = map(json.loads, (notes.parent / "failed.jsonl").read_text().splitlines())
    assert (failure["type_name"], failure["id"], failure["property"]) == ("Note", "bad", "vec")
    assert KEY not in outcome.stdout + outcome.stderr + failure["message"]


def test_the_hint_of_invalid_vectors_says_that_no_row_was_embedded(notes: Path, server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, body: dict[str, Any]) -> bool:
        rows = [{"index": index, "embedding": [0.0] * body["dimensions"]} for index in range(len(body["input"]))]
        handler.answer(200, {"data": rows})
        return True

    server.always = fault
    outcome = run_in_process("embed", notes, cwd=notes.parent)
    assert outcome.exit_code == 1
    assert "hint: No row was embedded. Check the model: a vector must have the declared length" in outcome.stderr
    assert "Change the texts" not in outcome.stderr


def test_the_hint_of_a_provider_that_rejects_everything_names_the_key(notes: Path, server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, _: dict[str, Any]) -> bool:
        handler.answer(400, {"error": "API key not valid"})
        return True

    server.always = fault
    outcome = run_in_process("embed", notes, cwd=notes.parent)
    assert outcome.exit_code == 1
    assert "API key not valid" in outcome.stderr
    assert "hint: No row was embedded. Check the key and the model: the provider rejected every text" in outcome.stderr


def test_a_provider_that_is_down(notes: Path, server: ProviderServer) -> None:
    def fault(handler: ProviderHandler, _: dict[str, Any]) -> bool:
        handler.answer(500, {"error": dict(handler.headers)})
        return True

    server.always = fault
    outcome = run_in_process("embed", notes, "--json", cwd=notes.parent)
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["error_code"], document["status"]) == (1, "embedding_failed", 500)
    assert KEY not in outcome.stdout + outcome.stderr


def test_failed_index_build_reports_the_vectors_as_committed(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setattr(failpoints, "_actions", failpoints._parse(f"{failpoints.Failpoint.INDEX_BEFORE}=raise"))
    outcome = run_in_process("embed", "n.omni", "--with-indexes", "--json", "--quiet", cwd=notes.parent)
    error = json.loads(outcome.stdout)
    assert (outcome.exit_code, error["error_code"], error["applied"]) == (1, "embed_unindexed", "yes")
    assert error["hint"] == "The vectors are committed. Run `omnigraph optimize n.omni` to build the indexes."
    assert og.open(str(notes)).embed(dry_run=True).pending == 0


def test_the_table_has_separators_and_a_total(tmp_path: Path, server: ProviderServer) -> None:
    graph = og.init(str(tmp_path / "n.omni"), SCHEMA + '\nnode Page { t: String @key  v: Vector(4)? @embed("t") }')
    graph.mutate("query m($t: String) { insert Note { k: $t } insert Page { t: $t } }", {"t": "x" * 4_000})
    outcome = run_in_process("embed", tmp_path / "n.omni", "--dry-run", cwd=tmp_path)
    assert [line.split()[-2:] for line in outcome.stdout.splitlines()[1:]] == [
        ["4,000", "1,000"], ["4,000", "1,000"], ["8,000", "2,000"],
    ]  # fmt: skip
    assert not server.requests
    plain = run_in_process("embed", tmp_path / "n.omni", "--dry-run", "--format", "csv", cwd=tmp_path)
    assert "4000,1000" in plain.stdout
