"""The status and the document of every kind of error, and what a document never contains."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from omnigraph.base.errors import ErrorKind, FormatError, InvariantError, OmnigraphError, StorageError
from omnigraph.base.hints import Argument, action, hint
from omnigraph.server.errors import RequestError, error_answer, hide_locations
from omnigraph.server.logs import log_event, start_log
from tests.server.process import serve

STATUSES = {
    "bad_request": 400,
    "invalid_content": 400,
    "limit_exceeded": 413,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "precondition_failed": 412,
    "refused": 409,
    "too_many_requests": 429,
    "unavailable": 503,
    "unreadable": 500,
    "internal": 500,
}


@pytest.mark.parametrize("kind", ErrorKind, ids=lambda kind: kind.value)
def test_status_of_each_kind(kind: ErrorKind) -> None:
    answer = error_answer(RequestError("it failed", code="some_code", kind=kind))
    assert answer.status == STATUSES[kind.value]
    assert answer.document["kind"] == kind.value
    assert answer.document["error_code"] == "some_code"
    assert ("Retry-After" in answer.headers) == (answer.status in (429, 503))
    assert ("WWW-Authenticate" in answer.headers) == (answer.status == 401)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("query_time", 504),
        ("embedding_failed", 502),
        ("graph_moved", 409),
        ("change_feed_gap", 410),
        ("content_type", 415),
        ("method_not_allowed", 405),
        ("body_timeout", 408),
    ],
)
def test_status_of_codes(code: str, status: int) -> None:
    assert error_answer(RequestError("it failed", code=code)).status == status


@pytest.mark.parametrize("error", [InvariantError("at /secret/path", code="defect"), FormatError("/x", code="damaged")])
def test_a_failure_of_the_server_shows_no_details(error: OmnigraphError) -> None:
    document = error_answer(error).document
    assert document["code"] == "internal"
    assert "/" not in str(document)


def test_hints_are_text_and_values() -> None:
    advice = hint("Pass {}, or run {}.", Argument("limit", 5), action("commit list"))
    document = error_answer(StorageError("it failed", code="a", hint=advice)).document
    assert document["hint"] == "Pass `limit`, or run `omnigraph commit list`."
    assert isinstance(document["advice"], dict)


def test_locations_are_replaced_by_addresses() -> None:
    document = {"error": "no /data/g.omni here", "facts": [{"uri": "/data/g.omni/x"}, 7, None]}
    hidden = hide_locations(document, {"/data/g.omni": "graphs/default"})  # type: ignore[arg-type]
    assert hidden == {"error": "no graphs/default here", "facts": [{"uri": "graphs/default/x"}, 7, None]}


def test_a_deleted_graph_does_not_show_its_location(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server:
        graph_path.rename(tmp_path / "away.omni")
        answer = server.query()
    assert answer.status in {404, 500, 503}
    assert str(tmp_path) not in answer.body.decode()


def test_a_client_cannot_write_lines_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    start_log(as_json=False)
    log_event("request", path="/a\n2026 request status=200", actor="ada")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('path="/a\\n2026 request status=200" actor=ada')
    logging.getLogger("omnigraph.server").handlers.clear()
