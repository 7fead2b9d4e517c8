"""Blobs of a graph in this process and of a server: the same parts, files and documents."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from msgspec import structs

import omnigraph as og
from omnigraph.client import blobs
from omnigraph.client.http import Connection
from omnigraph.client.local import LocalGraph
from omnigraph.client.protocol import GraphClient
from omnigraph.client.remote import HttpGraph
from omnigraph.wire.requests import BlobParameters
from tests.server.process import serve

CONTENT = bytes(range(256)) * 3
CALLS = {name: BlobParameters(entity="node", type="Photo", id=name, property="content") for name in ("full", "empty")}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[og.Graph, list[GraphClient]]]:
    directory = tmp_path_factory.mktemp("blobs")
    graph = og.init(directory / "graph.omni", "node Photo { name: String @key  content: Blob? }")
    contents = {"full": CONTENT, "empty": b""}
    graph.load(
        [
            {"type": "Photo", "data": {"name": name, "content": f"base64:{b64encode(content).decode()}"}}
            for name, content in contents.items()
        ]
    )
    with serve(directory / "graph.omni", directory) as server:
        remote = HttpGraph(connection=Connection(f"http://{server.address}"), graph_id="default")
        yield graph, [LocalGraph(graph=graph, uri="graphs/default"), remote]


@pytest.mark.parametrize(("name", "content"), [("full", CONTENT), ("empty", b"")])
def test_parts(
    clients: tuple[og.Graph, list[GraphClient]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
) -> None:
    monkeypatch.setattr(blobs, "_PART_BYTES", 100)
    documents = []
    for number, client in enumerate(clients[1]):
        stream, file = BytesIO(), tmp_path / f"{number}.bin"
        documents.append(blobs.write_blob(client, CALLS[name], stream))
        written = blobs.write_blob(client, CALLS[name], str(file))
        assert (stream.getvalue(), file.read_bytes(), written.file) == (content, content, str(file))
    assert documents[0] == documents[1]
    assert documents[0].size_bytes == len(content)


def test_type_is_named_by_its_alias(clients: tuple[og.Graph, list[GraphClient]]) -> None:
    call = CALLS["empty"]
    for client in clients[1]:
        tags = {client.find_blob(structs.replace(call, type=name)).tag for name in ("Photo", "node:Photo")}
        assert len(tags) == 1
        with pytest.raises(og.OmnigraphError, match="'edge:Photo' is not a node type") as caught:
            client.find_blob(structs.replace(call, type="edge:Photo"))
        assert caught.value.code == "type_kind"


def test_a_write_between_two_parts(clients: tuple[og.Graph, list[GraphClient]]) -> None:
    """All parts are those of the commit that was the newest at the start."""
    graph, (_, remote) = clients
    blob = remote.find_blob(CALLS["full"])
    first = blob.read(0, 10)
    graph.load([{"type": "Photo", "data": {"name": "full", "content": "base64:SGVsbG8="}}], mode="merge")
    assert first + blob.read(10) == CONTENT
    assert remote.find_blob(CALLS["full"]).size == 5
    assert remote.find_blob(CALLS["full"]).tag != blob.tag
    photo = f"base64:{b64encode(CONTENT).decode()}"
    graph.load([{"type": "Photo", "data": {"name": "full", "content": photo}}], mode="merge")
