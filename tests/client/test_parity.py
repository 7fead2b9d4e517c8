"""A graph in this process and the same graph behind a server give the same documents and the same errors."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.client.http import Connection
from omnigraph.client.local import LocalGraph
from omnigraph.client.protocol import GraphClient
from omnigraph.client.remote import HttpGraph
from omnigraph.wire import requests as wr
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA, serve

Clients = tuple[GraphClient, GraphClient]
ADD = 'query add() { insert Person { slug: "eve" } }'


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Both clients of one graph."""
    directory = tmp_path_factory.mktemp("parity")
    path, data = directory / "graph.omni", directory / "data.jsonl"
    data.write_text(LINES)
    graph = og.init(path, SCHEMA)
    graph.load(data)
    graph.create_branch("review/1").mutate(ADD)
    with serve(path, directory) as server:
        remote = HttpGraph(connection=Connection(f"http://{server.address}"), graph_id="default")
        yield LocalGraph(graph=graph, uri="graphs/default"), remote


READS: dict[str, Callable[[GraphClient], Any]] = {
    "snapshot": lambda client: client.snapshot(wr.StateParameters()),
    "snapshot of a branch": lambda client: client.snapshot(wr.StateParameters(branch="review/1")),
    "schema": lambda client: client.schema(wr.StateParameters()),
    "catalog": lambda client: client.catalog(wr.StateParameters()),
    "query": lambda client: client.query(wr.QueryRequest(query=ALL_PEOPLE)),
    "query of a branch": lambda client: client.query(wr.QueryRequest(query=ALL_PEOPLE, branch="review/1")),
    "query with parameters": lambda client: client.query(
        wr.QueryRequest(
            query="query q($s: String) { match { $p: Person {slug: $s} } return { $p.name, $p.age } }",
            params={"s": "ada"},
        )
    ),
    "explain": lambda client: client.explain(wr.ExplainRequest(query=ALL_PEOPLE)),
    "lint": lambda client: client.lint(wr.LintRequest(files=[wr.LintFile(name="a.gq", text=ALL_PEOPLE)])),
    "branches": lambda client: client.list_branches(),
    "commits": lambda client: client.list_commits(wr.CommitListParameters(branch="review/1", limit=2)),
    "changes": lambda client: client.poll_changes(wr.FeedParameters(start="beginning", limit=2)),
    "changes of a type": lambda client: client.poll_changes(
        wr.FeedParameters(start="beginning", type=["Person", "Team"], op=["insert"], kind=["node"])
    ),
    "diff": lambda client: client.diff(wr.DiffParameters(before="main", after="review/1")),
    "log": lambda client: client.log(wr.LogParameters(limit=2)),
    "dry run of a merge": lambda client: client.merge(wr.BranchMergeRequest(source="review/1", dry_run=True)),
    "unknown branch": lambda client: client.snapshot(wr.StateParameters(branch="none")),
    "unknown commit": lambda client: client.get_commit("zzzz"),
    "invalid text": lambda client: client.query(wr.QueryRequest(query="query q() {")),
    "unknown type": lambda client: client.query(
        wr.QueryRequest(query="query q() {\n match { $p: Nope } return { $p } }")
    ),
    "wrong parameter": lambda client: client.query(wr.QueryRequest(query=ALL_PEOPLE, params={"x": 1})),
    "stale condition": lambda client: client.mutate(wr.ChangeRequest(query=ADD), "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "existing branch": lambda client: client.create_branch(wr.BranchCreateRequest(name="review/1")),
    "branch of another": lambda client: client.delete_branch("main"),
    "invalid rows": lambda client: client.load(wr.LoadParameters(), b'{"type":"Person","data":{"slug":1}}'),
}


@pytest.mark.parametrize("name", READS)
def test_documents_and_errors_are_the_same(clients: Clients, name: str) -> None:
    local, remote = (_outcome(READS[name], client) for client in clients)
    assert remote == local


def test_exports_are_the_same(clients: Clients) -> None:
    exported = []
    for client in clients:
        stream = io.BytesIO()
        client.export(wr.ExportRequest(), stream)
        exported.append(stream.getvalue())
    assert exported[0] == exported[1] != b""


def test_receipts_are_the_same(clients: Clients) -> None:
    receipts = []
    for number, client in enumerate(clients):
        name = f"receipts/{number}"
        client.create_branch(wr.BranchCreateRequest(name=name))
        receipts.append(
            [
                client.mutate(wr.ChangeRequest(query=ADD, branch=name)),
                client.load(wr.LoadParameters(branch=name), b'{"type":"Team","data":{"name":"t"}}'),
                client.delete_branch(name),
            ]
        )
    varying = {
        "graph_commit_id",
        "parent_commit_id",
        "created_at",
        "created",
        "branch_id",
        "actor_id",
        "branch",
        "name",
    }
    documents = [[_without(msgspec.to_builtins(receipt), varying) for receipt in group] for group in receipts]
    assert documents[0] == documents[1]


def _outcome(call: Callable[[GraphClient], Any], client: GraphClient) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(call(client)))
    except OmnigraphError as error:
        facts = {name: value for name, value in error.facts.items() if name not in ("validation_errors", "problems")}
        message = error.message.partition(".ndjson:")[2].removeprefix("1: ") or error.message.removeprefix("line 1: ")
        return (type(error.kind), error.kind, error.code, message, error.hint, error.applied, facts)


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        hidden = {"graph_branch", "graph_manifest_version", "from", "to", "version"} | names
        return {name: _without(item, names) for name, item in value.items() if name not in hidden}
    return [_without(item, names) for item in value] if isinstance(value, list) else value
