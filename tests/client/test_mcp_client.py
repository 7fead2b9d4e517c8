"""The official client of the Model Context Protocol with a real server, over HTTP and over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.forked import forked_omnigraph
from tests.server.process import ALL_PEOPLE, LINES, READ, SCHEMA, WRITE, ServerProcess, serve

# Its import takes a second, which every process that collects tests would spend.
pytestmark = pytest.mark.skipif(not find_spec("mcp"), reason="the package mcp is not installed; run `make setup`")

INSERT = {"query": 'query add() { insert Person { slug: "eve" } }'}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data.jsonl").write_text(LINES)
    og.init(tmp_path / "graph.omni", SCHEMA).load(tmp_path / "data.jsonl")
    return tmp_path / "graph.omni"


@asynccontextmanager
async def over_http(server: ServerProcess, token: str) -> AsyncIterator[Any]:
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=None) as http:
        url = f"http://{server.address}/graphs/default/mcp"
        async with mcp.Client(streamable_http_client(url, http_client=http)) as client:
            yield client


@asynccontextmanager
async def over_stdio(path: Path, *flags: str) -> AsyncIterator[Any]:
    import mcp
    from mcp.client.stdio import stdio_client

    arguments = ["mcp", str(path), *flags]
    parameters = mcp.StdioServerParameters(command=forked_omnigraph(), args=arguments, env=dict(os.environ))
    async with mcp.Client(stdio_client(parameters)) as client:
        yield client


async def read_and_write(client: Any) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["query"].annotations.read_only_hint
    assert tools["mutate"].annotations.destructive_hint
    receipt = await client.call_tool("mutate", INSERT)
    assert receipt.structured_content["affected_nodes"] == 1
    rows = (await client.call_tool("query", {"query": ALL_PEOPLE})).structured_content["rows"]
    assert [row["p.slug"] for row in rows] == ["ada", "bob", "eve"]
    assert "node Person" in (await client.call_tool("schema_get", {})).structured_content["schema_source"]
    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert uris == ["omnigraph://schema", "omnigraph://branches"]
    (schema,) = (await client.read_resource("omnigraph://schema")).contents
    assert "node Person" in schema.text


async def only_read(client: Any) -> None:
    tools = (await client.list_tools()).tools
    assert {"query", "schema_get", "graphs_list", "health"} <= {tool.name for tool in tools}
    assert all(tool.annotations.read_only_hint for tool in tools)
    denied = await client.call_tool("mutate", INSERT)
    assert denied.is_error
    assert denied.structured_content["error_code"] == "access_denied"
    rows = (await client.call_tool("query", {"query": ALL_PEOPLE})).structured_content["rows"]
    assert len(rows) == 2


def test_http(path: Path, tmp_path: Path) -> None:
    async def use(server: ServerProcess, token: str, session: Any) -> None:
        async with over_http(server, token) as client:
            await session(client)

    with serve(path, tmp_path, environment={"OMNIGRAPH_SERVER_BEARER_TOKEN": READ}) as server:
        asyncio.run(use(server, READ, only_read))
    with serve(path, tmp_path, "--access", "write", environment={"OMNIGRAPH_SERVER_BEARER_TOKEN": WRITE}) as server:
        asyncio.run(use(server, WRITE, read_and_write))


def test_stdio(path: Path) -> None:
    async def use(session: Any, *flags: str) -> None:
        async with over_stdio(path, *flags) as client:
            await session(client)

    asyncio.run(use(only_read))
    asyncio.run(use(read_and_write, "--access", "write", "--as", "agent-1"))
    assert og.open(path).log()[0].actor == "agent-1"
