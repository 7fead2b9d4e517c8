"""Requests that try to be someone else, to reach other files, or to confuse the parser: raw bytes over a socket."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from tests.server.conftest import make_graph
from tests.server.process import ALL_PEOPLE, READ, WRITE, ServerProcess, serve

BODY = json.dumps({"query": ALL_PEOPLE}).encode()
INSERT = json.dumps({"query": 'query a() { insert Person { slug: "forged" } }'}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("attacks")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"reader": READ, "spare": WRITE})}
    with serve(make_graph(directory), directory, environment=environment) as running:
        yield running


def send_raw(server: ServerProcess, data: bytes) -> tuple[int, bytes]:
    """Send bytes and return the status and the text of all answers until the server closes; 0 if there is none."""
    with server.connect() as connection:
        try:
            connection.sendall(data)
            answer = connection.makefile("rb").read()
        except ConnectionError:
            answer = b""
    return (int(answer.split()[1]) if answer else 0), answer


def post(path: str, body: bytes, *headers: str, length: bool = True) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close", "Content-Type: application/json", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


TOKEN = f"Authorization: Bearer {READ}"
QUERY, MUTATE = "/graphs/default/query", "/graphs/default/mutate"

REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "no token": (post(QUERY, BODY), {401}),
    "prefix of a token": (post(QUERY, BODY, f"Authorization: Bearer {READ[:-1]}"), {401}),
    "longer token": (post(QUERY, BODY, f"Authorization: Bearer {READ}x"), {401}),
    "two tokens in one header": (post(QUERY, BODY, f"Authorization: Bearer wrong, Bearer {READ}"), {401}),
    "token in the address": (post(f"{QUERY}?token={READ}", BODY), {401}),
    "token in a cookie": (post(QUERY, BODY, f"Cookie: token={READ}"), {401}),
    "null byte": (post(QUERY, BODY, f"Authorization: Bearer {READ}\0"), {0, 400, 401}),
    "actor in headers": (
        post(MUTATE, INSERT, TOKEN, "X-Actor: admin", "X-Forwarded-User: admin", "X-Remote-User: a"),
        {403},
    ),
    "method override": (post(QUERY, INSERT, TOKEN, "X-HTTP-Method-Override: DELETE"), {400}),
    "actor in the body": (post(QUERY, BODY[:-1] + b', "actor_id": "admin"}', TOKEN), {400}),
    "path to another route": (post("/graphs/default/x/../mutate", INSERT, TOKEN), {404}),
    "encoded path": (post("/graphs/default%2F..%2Fdefault/query", BODY, TOKEN), {404, 400}),
    "file of the machine": (
        f"GET /ui/../../../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{TOKEN}\r\n\r\n".encode(),
        {404},
    ),
    "encoded file of the machine": (
        b"GET /ui/%2e%2e/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        {404},
    ),
    "absolute address": (post("http://other.example" + QUERY, BODY, TOKEN), {200, 400, 404}),
    "compressed bomb": (post(QUERY, gzip.compress(b" " * 2_000_000 + BODY), TOKEN, "Content-Encoding: gzip"), {400}),
    "negative length": (post(QUERY, BODY, TOKEN, "Content-Length: -1", length=False), {0, 400}),
    "length that is not a number": (post(QUERY, BODY, TOKEN, "Content-Length: 1e3", length=False), {0, 400}),
    "length and chunks": (
        post(QUERY, b"0\r\n\r\nPOST /graphs/default/mutate HTTP/1.1\r\n\r\n", TOKEN, "Transfer-Encoding: chunked"),
        {0, 400},
    ),
    "invalid chunk": (
        post(QUERY, b"zz\r\n{}\r\n0\r\n\r\n", TOKEN, "Transfer-Encoding: chunked", length=False),
        {0, 400},
    ),
    "header of 1 MB": (post(QUERY, BODY, TOKEN, "X-Long: " + "x" * 1_000_000), {0, 200, 400, 431}),
    "line break in a request id": (post(QUERY, BODY, TOKEN, "X-Request-Id: a%0d%0ab\tc"), {200}),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {0, 400}),
    "upgrade to a web socket": (post(QUERY, BODY, TOKEN, "Upgrade: websocket", "Sec-WebSocket-Key: eA=="), {200}),
    "two versions of the interface": (post(QUERY, BODY, TOKEN, "Omnigraph-Http-Api: 0.13, 9.9"), {400}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(server: ServerProcess, name: str) -> None:
    data, statuses = REQUESTS[name]
    status, answer = send_raw(server, data)
    assert status in statuses, answer[:500]
    assert answer.count(b"HTTP/1.1 ") <= 1, "a second request was smuggled"
    assert b"root:" not in answer
    assert b"Traceback" not in answer
    if status >= 400:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"omnigraph-http-api: 0.13" in head.lower()
        assert {"error", "kind", "error_code"} <= json.loads(body).keys()
    assert server.send("GET", "/healthz").status == 200


def test_nothing_was_written_and_no_token_was_logged(server: ServerProcess) -> None:
    for name in ("actor in headers", "method override", "length and chunks"):
        send_raw(server, REQUESTS[name][0])
    _, answer = send_raw(server, post(QUERY, BODY, TOKEN))
    assert b"forged" not in answer
    log = server.log.read_text()
    assert READ not in log
    assert WRITE not in log
