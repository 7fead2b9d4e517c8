"""The protocol of agents, message by message, over a real graph; then over HTTP and stdio with real processes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.client.local import LocalGraph
from omnigraph.client.mcp import TOOLS, answer
from omnigraph.wire.requests import FeedParameters
from tests.forked import forked_omnigraph
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA, serve
from tests.waiting import SECONDS_MAX, wait_until

ALL_ACTIONS = frozenset(tool.action for tool in TOOLS)
Ask = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = tmp_path / "data.jsonl"
    data.write_text(LINES)
    og.init(tmp_path / "graph.omni", SCHEMA).load(data)
    return tmp_path / "graph.omni"


@pytest.fixture
def ask(path: Path) -> Ask:
    client = LocalGraph(graph=og.open(path), uri="graphs/default")

    def send(method: str, params: dict[str, Any] | None = None, **members: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **members}
        reply = answer(json.dumps(message).encode(), lambda tool, request: tool.run(client, request), ALL_ACTIONS)
        return None if reply is None else json.loads(reply)

    return send


@pytest.mark.parametrize(("asked", "answered"), [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")])
def test_initialize(ask: Ask, asked: str, answered: str) -> None:
    result = ask("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]
    assert result["protocolVersion"] == answered
    assert result["serverInfo"]["name"] == "omnigraph"


def test_notifications_have_no_answer() -> None:
    message = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert answer(message, lambda tool, request: None, ALL_ACTIONS) is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32_700),
        (b"\xff", -32_700),
        (b"[]", -32_600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32_600),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', -32_601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}}', -32_602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query"}}', -32_602),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32_602),
    ],
)
def test_errors_of_messages(message: bytes, code: int) -> None:
    reply = answer(message, lambda tool, request: None, ALL_ACTIONS)
    assert reply is not None
    assert json.loads(reply)["error"]["code"] == code


def test_tools_are_described(ask: Ask) -> None:
    tools = {tool["name"]: tool for tool in ask("tools/list")["result"]["tools"]}
    assert set(tools) == {tool.name for tool in TOOLS}
    assert tools["query"]["inputSchema"]["required"] == ["query"]
    assert tools["query"]["annotations"]["readOnlyHint"] is True
    assert tools["mutate"]["annotations"]["destructiveHint"] is True


def test_only_allowed_tools_are_listed() -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    reply = answer(message, lambda tool, request: None, frozenset({"read"}))
    assert reply is not None
    names = {tool["name"] for tool in json.loads(reply)["result"]["tools"]}
    assert names == {tool.name for tool in TOOLS if tool.is_read}


def test_tools_read_and_write(ask: Ask) -> None:
    added = ask("tools/call", {"name": "mutate", "arguments": {"query": 'query a() { insert Person { slug: "eve" } }'}})
    assert added["result"]["structuredContent"]["affected_nodes"] == 1
    rows = ask("tools/call", {"name": "query", "arguments": {"query": ALL_PEOPLE}})["result"]
    assert [row["p.slug"] for row in rows["structuredContent"]["rows"]] == ["ada", "bob", "eve"]
    assert json.loads(rows["content"][0]["text"]) == rows["structuredContent"]
    commit = added["result"]["structuredContent"]["commit"]["graph_commit_id"]
    changes = ask("tools/call", {"name": "commits_changes", "arguments": {"commit": commit}})["result"]
    assert [change["id"] for change in changes["structuredContent"]["changes"]] == ["eve"]


def test_a_failed_tool_says_why(ask: Ask) -> None:
    result = ask(
        "tools/call", {"name": "query", "arguments": {"query": "query q() { match { $p: Nope } return { $p } }"}}
    )
    assert result["result"]["isError"] is True
    assert result["result"]["structuredContent"]["problems"]


def test_resources(ask: Ask) -> None:
    uris = [resource["uri"] for resource in ask("resources/list")["result"]["resources"]]
    assert uris == ["omnigraph://schema", "omnigraph://branches"]
    texts = [ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"] for uri in uris]
    assert "node Person" in json.loads(texts[0])["schema_source"]
    assert json.loads(texts[1])["branches"] == ["main"]


@pytest.mark.parametrize(("tool", "arguments"), [("queries_list", {}), ("queries_invoke", {"name": "q"})])
def test_stored_queries_need_a_server(ask: Ask, tool: str, arguments: Any) -> None:
    result = ask("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert (result["isError"], result["structuredContent"]["error_code"]) == (True, "query_not_stored")


def test_stdio(path: Path) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "query", "arguments": {"query": ALL_PEOPLE}},
        },
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {"name": "mutate", "arguments": {"query": 'query a() { insert Person { slug: "x" } }'}},
        },
    ]
    command = [forked_omnigraph(), "mcp", str(path)]
    lines = "".join(json.dumps(call) + "\n" for call in calls)
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    replies = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == [1, 2, 3]
    assert replies[1]["result"]["structuredContent"]["row_count"] == 2
    assert replies[2]["result"]["isError"] is True
    assert "may only read" in replies[2]["result"]["structuredContent"]["error"]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_stdio_of_a_server_writes(path: Path, tmp_path: Path) -> None:
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"agent-1": "t"}'}
    with serve(path, tmp_path, "--access", "write", environment=environment) as server:
        insert = call("mutate", query='query a() { insert Person { slug: "by-agent" } }')
        ended = subprocess.run(
            [forked_omnigraph(), "mcp", "--server", f"http://{server.address}", "--access", "write"],
            input="".join(json.dumps(message) + "\n" for message in (insert, call("query", query=ALL_PEOPLE))),
            env={**os.environ, "OMNIGRAPH_BEARER_TOKEN": "t"},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
        )
    receipt, rows = (json.loads(line)["result"]["structuredContent"] for line in ended.stdout.splitlines())
    assert receipt["commit"]["actor_id"] == "agent-1"
    assert [row["p.slug"] for row in rows["rows"]] == ["ada", "bob", "by-agent"]


def test_a_poll_waits_for_a_commit(path: Path, tmp_path: Path) -> None:
    """Over HTTP without a thread, and in this process, which is what stdio does."""
    local = LocalGraph(graph=og.open(path), uri="graphs/default")
    poll = next(tool for tool in TOOLS if tool.name == "changes_poll")
    with serve(path, tmp_path) as server, ThreadPoolExecutor() as threads:
        waiting = threads.submit(server.send, "POST", "mcp", call("changes_poll", wait=60))
        own = threads.submit(poll.run, local, FeedParameters(wait=SECONDS_MAX))
        wait_until(lambda: server.runs("wait", 1), "it waits")
        wait_until(lambda: server.insert(f"p{len(server.slugs())}").status == 200 and own.done(), "the other ends too")
        page = waiting.result().document["result"]["structuredContent"]
    assert page["blocks"][0]["changes"][0]["id"].startswith("p")
    assert page["caught_up"]
    assert own.result().blocks[0].changes[0].id.startswith("p")


def test_http(path: Path, tmp_path: Path) -> None:
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKEN": "t"}
    with serve(path, tmp_path, environment=environment) as server:
        listed = server.send("POST", "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, token="t")
        assert "mutate" not in {tool["name"] for tool in listed.document["result"]["tools"]}
        text = 'query a() { insert Person { slug: "x" } }'
        params = {"name": "mutate", "arguments": {"query": text}}
        denied = server.send(
            "POST", "mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, token="t"
        )
        assert denied.document["result"]["isError"] is True
        assert denied.document["result"]["structuredContent"]["kind"] == "forbidden"
        assert server.send("POST", "mcp", {"jsonrpc": "2.0", "method": "x"}, token="t").status == 202
        for method in ("GET", "DELETE"):
            assert server.send(method, "mcp", token="t").status == 405
        assert server.send("POST", "mcp", {}).status == 401
        from_page = {"Origin": "https://evil.example"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert server.send("POST", "mcp", ping, token="t", headers=from_page).status == 403
        assert server.send("POST", "mcp", ping, token="t").document["result"] == {}
        for tool, route in (("graphs_list", "/graphs"), ("health", "/healthz"), ("schema_get", "schema")):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
            result = server.send("POST", "mcp", message, token="t").document["result"]
            assert result["structuredContent"] == server.send("GET", route, token="t").document


def test_an_error_over_http_shows_no_location(path: Path, tmp_path: Path) -> None:
    with serve(path, tmp_path) as server:
        path.rename(tmp_path / "away.omni")
        params = {"name": "query", "arguments": {"query": ALL_PEOPLE}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        answer = server.send("POST", "mcp", message)
        assert answer.document["result"]["isError"] is True
        assert str(tmp_path) not in answer.body.decode()
        resource = {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "omnigraph://schema"}}
        answer = server.send("POST", "mcp", resource)
        assert "error" in answer.document
        assert str(tmp_path) not in answer.body.decode()
