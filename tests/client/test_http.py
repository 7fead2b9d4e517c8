"""Requests to a server: attempts, redirects, lost responses, other versions, and answers of other programs."""

from __future__ import annotations

import json
import logging

import pytest

from omnigraph.base.errors import Applied, ErrorKind, OmnigraphError
from omnigraph.client.http import Connection, HttpRequest
from omnigraph.client.remote import HttpGraph
from omnigraph.wire import requests as wr
from tests.client.listener import Received, Reply, listen

READ = HttpRequest(method="GET", path="/graphs")
WRITE = HttpRequest(method="POST", path="/graphs/g/mutate", body=b"{}", is_write=True)


def failure(connection: Connection, request: HttpRequest) -> OmnigraphError:
    with pytest.raises(OmnigraphError) as error:
        connection.send(request)
    return error.value


@pytest.mark.parametrize("status", [0, 429, 502, 503, 504])
def test_reads_are_sent_three_times(status: int) -> None:
    headers = {"Retry-After": "0"}
    with listen(lambda _: Reply(status, b"", headers)) as listener:
        error = failure(Connection(listener.url), READ)
        assert [request.method for request in listener.received] == ["GET"] * 3
        assert len({request.headers["X-Request-Id"] for request in listener.received}) == 3
        assert error.code == ("server_unreachable" if status == 0 else "server_answer")


def test_a_read_succeeds_after_a_busy_answer() -> None:
    replies = iter([Reply(503, b"", {"Retry-After": "0"}), Reply(body=b"[]")])
    with listen(lambda _: next(replies)) as listener:
        assert Connection(listener.url).send(READ) == b"[]"


@pytest.mark.parametrize(("status", "applied"), [(0, Applied.UNKNOWN), (502, Applied.UNKNOWN), (504, Applied.UNKNOWN)])
def test_writes_are_sent_once(status: int, applied: Applied) -> None:
    with listen(lambda _: Reply(status, b"")) as listener:
        error = failure(Connection(listener.url), WRITE)
        assert len(listener.received) == 1
    assert error.applied is applied
    assert "commit list" in str(error.advice) or "log" in str(error.advice)


def test_queries_are_sent_once() -> None:
    with listen(lambda _: Reply(503, b"")) as listener:
        failure(Connection(listener.url), HttpRequest(method="POST", path="/q", body=b"{}"))
        assert len(listener.received) == 1


def test_a_write_that_was_not_sent_was_not_applied() -> None:
    with listen(lambda _: Reply()) as listener:
        url = listener.url
    error = failure(Connection(url), WRITE)
    assert (error.code, error.applied) == ("server_unreachable", Applied.NO)
    assert str(error.args[0]).endswith(": Connection refused")


def test_redirects_are_not_followed() -> None:
    with listen(lambda _: Reply()) as other:
        redirect = Reply(307, b"", {"Location": f"{other.url}/graphs"})
        with listen(lambda _: redirect) as listener:
            for request in (READ, WRITE):
                assert failure(Connection(listener.url, "secret"), request).code == "server_answer"
            assert {request.headers["Authorization"] for request in listener.received} == {"Bearer secret"}
        assert other.received == []


def test_another_version_of_the_interface(caplog: pytest.LogCaptureFixture) -> None:
    with listen(lambda _: Reply(headers={"Omnigraph-Http-Api": "9.9"})) as listener:
        connection = Connection(listener.url)
        with caplog.at_level(logging.WARNING, "omnigraph.client"):
            assert connection.send(READ) == connection.send(READ) == b"{}"
        assert [record.getMessage().endswith("expected 0.13, got 9.9") for record in caplog.records] == [True]
        error = failure(connection, WRITE)
        assert (error.code, error.applied) == ("contract_mismatch", Applied.YES)
        assert listener.received[0].headers["Omnigraph-Http-Api"] == "0.13"


def test_another_document() -> None:
    with listen(lambda _: Reply(body=b'{"rows": 1')) as listener:
        graph = HttpGraph(connection=Connection(listener.url), graph_id="g")
        with pytest.raises(OmnigraphError) as read:
            graph.list_branches()
        with pytest.raises(OmnigraphError) as write:
            graph.mutate(wr.ChangeRequest(query="query q() { }"))
    assert (read.value.code, read.value.applied) == ("server_answer", None)
    assert (write.value.code, write.value.applied) == ("server_answer", Applied.UNKNOWN)


@pytest.mark.parametrize(
    ("status", "members", "kind"),
    [
        (412, {}, ErrorKind.PRECONDITION_FAILED),
        (400, {}, ErrorKind.BAD_REQUEST),
        (400, {"problems": []}, ErrorKind.INVALID_CONTENT),
        (400, {"validation_errors": []}, ErrorKind.INVALID_CONTENT),
        (409, {}, ErrorKind.CONFLICT),
        (500, {}, ErrorKind.INTERNAL),
        (400, {"kind": "refused"}, ErrorKind.REFUSED),
    ],
)
def test_kinds_of_errors_without_a_kind(status: int, members: dict[str, object], kind: ErrorKind) -> None:
    body = json.dumps({"error": "no", **members}).encode()
    with listen(lambda _: Reply(status, body)) as listener:
        error = failure(Connection(listener.url, "t"), WRITE)
    assert (error.kind, error.message) == (kind, "no")


def test_a_server_that_requires_a_token() -> None:
    body = b'{"error": "the request has no bearer token", "kind": "unauthorized", "error_code": "token_invalid"}'
    with listen(lambda _: Reply(401, body)) as listener:
        assert failure(Connection(listener.url), READ).code == "credentials_missing"
        assert failure(Connection(listener.url, "wrong"), READ).code == "token_invalid"


def test_a_graph_is_chosen() -> None:
    def answer(request: Received) -> Reply:
        if request.path == "/graphs":
            return Reply(403, b'{"error": "no", "kind": "forbidden"}')
        graphs = b'{"graph_id": "g", "actions": {}}'
        return Reply(body=b'{"actor_id": "ada", "state": "policy", "graphs": [' + graphs + b"]}")

    from omnigraph.client.remote import choose_graph

    with listen(answer) as listener:
        assert choose_graph(Connection(listener.url)) == "g"
    two = b'{"graphs": [{"graph_id": "a", "uri": "graphs/a"}, {"graph_id": "b", "uri": "graphs/b"}]}'
    with listen(lambda _: Reply(body=two)) as listener, pytest.raises(OmnigraphError) as error:
        choose_graph(Connection(listener.url))
    assert (error.value.code, error.value.facts["graphs"]) == ("graph_unnamed", ["a", "b"])
