"""Blobs over HTTP: bytes, conditions, ranges, HEAD, and what does not exist."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest

import omnigraph as og
from tests.server.process import ServerProcess, serve

CONTENT = bytes(range(256)) * 8
SIZE = len(CONTENT)
ADDRESS = "blob?entity=node&type=Person&id=ada&property=photo"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("blobs")
    graph = og.init(directory / "graph.omni", "node Person { slug: String @key  name: String?  photo: Blob? }")
    photo = b64encode(CONTENT).decode()
    rows = [{"slug": "ada", "photo": f"base64:{photo}"}, {"slug": "bob"}]
    lines = "".join(json.dumps({"type": "Person", "data": row}) + "\n" for row in rows)
    (directory / "data.jsonl").write_text(lines)
    graph.load(directory / "data.jsonl")
    with serve(directory / "graph.omni", directory) as running:
        yield running


def test_bytes_and_head(server: ServerProcess) -> None:
    answer = server.send("GET", ADDRESS)
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["accept-ranges"] == "bytes"
    head = server.send("HEAD", ADDRESS, headers={"Range": "bytes=0-1"})
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(SIZE))
    assert head.headers["etag"] == answer.headers["etag"]
    assert head.headers["etag"].startswith('"')


RANGES = [
    ("bytes=0-9", (206, CONTENT[:10], f"bytes 0-9/{SIZE}")),
    ("bytes=2040-", (206, CONTENT[2040:], f"bytes 2040-2047/{SIZE}")),
    ("bytes=-5", (206, CONTENT[-5:], f"bytes 2043-2047/{SIZE}")),
    ("bytes=-9999", (206, CONTENT, f"bytes 0-2047/{SIZE}")),
    ("bytes=5-99999", (206, CONTENT[5:], f"bytes 5-2047/{SIZE}")),
    ("bytes=0-1,3-4", (200, CONTENT, None)),
    ("lines=0-1", (200, CONTENT, None)),
]


@pytest.mark.parametrize(("value", "expected"), RANGES)
def test_ranges(server: ServerProcess, value: str, expected: tuple[int, bytes, str | None]) -> None:
    answer = server.send("GET", ADDRESS, headers={"Range": value})
    assert (answer.status, answer.body, answer.headers.get("content-range")) == expected


@pytest.mark.parametrize("value", ["bytes=2048-", "bytes=9-3", "bytes=-0"])
def test_ranges_outside(server: ServerProcess, value: str) -> None:
    answer = server.send("GET", ADDRESS, headers={"Range": value})
    assert (answer.status, answer.document["error_code"]) == (416, "range_invalid")


def test_conditions(server: ServerProcess) -> None:
    tag = server.send("HEAD", ADDRESS).headers["etag"]
    assert server.send("GET", ADDRESS, headers={"If-None-Match": tag}).status == 304
    assert server.send("GET", ADDRESS, headers={"If-None-Match": '"other"'}).status == 200
    assert server.send("GET", ADDRESS, headers={"If-Match": tag}).status == 200
    assert server.send("GET", ADDRESS, headers={"If-Match": '"other"'}).status == 412
    part = {"Range": "bytes=0-1"}
    assert server.send("GET", ADDRESS, headers={**part, "If-Range": tag}).status == 206
    assert server.send("GET", ADDRESS, headers={**part, "If-Range": '"other"'}).status == 200


MISSING = [
    (ADDRESS.replace("ada", "absent"), 404, "blob_missing"),
    (ADDRESS.replace("ada", "bob"), 404, "blob_missing"),
    (ADDRESS.replace("photo", "name"), 400, "blob_property"),
    (ADDRESS.replace("Person", "Nope"), 404, "type_missing"),
    (ADDRESS.replace("entity=node&", ""), 400, "parameter_invalid"),
    (ADDRESS + "&branch=nope", 404, "branch_missing"),
]


@pytest.mark.parametrize(("address", "status", "code"), MISSING)
def test_what_does_not_exist(server: ServerProcess, address: str, status: int, code: str) -> None:
    answer = server.send("GET", address)
    assert (answer.status, answer.document["error_code"]) == (status, code), answer.document


def test_a_commit_keeps_its_bytes(server: ServerProcess) -> None:
    commit = server.query("query q() { match { $p: Person } return { $p.slug } }").document["graph_commit_id"]
    assert server.mutate('query d() { delete Person where slug = "bob" }').status == 200
    assert server.send("GET", f"{ADDRESS}&snapshot={commit}").body == CONTENT
    assert server.send("GET", ADDRESS).body == CONTENT
