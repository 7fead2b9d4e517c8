"""A server of a cluster, over real sockets: stored queries, policies, quarantine, and following the ledger."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from omnigraph.cluster.project import Cluster
from tests.cli.process import environment, omnigraph
from tests.cluster.conftest import EXAMPLE, ExampleCluster
from tests.server.process import HttpAnswer, ServerProcess, serve
from tests.waiting import SECONDS_MAX, wait_until

TOKENS: Final = {"ada": "token-ada", "bo": "token-bo", "eve": "token-eve"}
VARIABLES: Final = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}


def _start(cluster: ExampleCluster, *flags: str) -> AbstractContextManager[ServerProcess]:
    # Serving needs only the root.
    return serve(f"--cluster=file://{cluster.path}", cluster.path.parent, *flags, environment=VARIABLES)


def _ask(server: ServerProcess, actor: str, method: str, path: str, document: Any = None) -> HttpAnswer:
    route = path if path.startswith("/") else f"/graphs/books/{path}"
    return server.send(method, route, document, token=TOKENS[actor])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ExampleCluster:
    path = tmp_path_factory.mktemp("served") / "example"
    shutil.copytree(EXAMPLE, path)
    Cluster(str(path)).apply(actor="ada")
    return ExampleCluster(path)


@pytest.fixture(scope="module")
def server(cluster: ExampleCluster) -> Iterator[ServerProcess]:
    with _start(cluster, "--reload-seconds", "0.2") as process:
        yield process


def test_stored_queries(server: ServerProcess) -> None:
    listed = _ask(server, "bo", "GET", "queries").document["queries"]
    assert [(query["name"], query["mutation"]) for query in listed] == [("add_author", True), ("books_of", False)]
    assert listed[1]["params"] == [{"name": "author", "kind": "string", "nullable": False}]
    created = _ask(server, "bo", "POST", "branches", {"name": "review/1", "from": "main"})
    assert created.status == 200
    call = {"params": {"name": "le guin"}}
    assert _ask(server, "bo", "POST", "queries/add_author", call).status == 403
    assert _ask(server, "bo", "POST", "queries/add_author", {**call, "branch": "review/1"}).status == 200
    read = _ask(server, "bo", "POST", "queries/books_of", {"params": {"author": "le guin"}})
    assert (read.status, read.document["query_name"]) == (200, "books_of")
    assert _ask(server, "bo", "POST", "queries/books_of").document["error_code"] == "query_parameter"
    wrong = {"params": {"author": "x"}, "expect_mutation": True}
    assert _ask(server, "bo", "POST", "queries/books_of", wrong).status == 400


def test_denied_and_unknown_queries_are_the_same(server: ServerProcess) -> None:
    denied = _ask(server, "eve", "POST", "queries/books_of")
    unknown = _ask(server, "eve", "POST", "queries/no_such")
    allowed_unknown = _ask(server, "bo", "POST", "queries/no_such")
    assert (denied.status, denied.body) == (404, unknown.body) == (404, allowed_unknown.body)
    assert _ask(server, "eve", "GET", "queries").status == 403
    assert _ask(server, "eve", "GET", "/whoami").document["graphs"] == []


def test_stored_queries_through_the_command_line(server: ServerProcess, cluster: ExampleCluster) -> None:
    address = ("--server", f"http://{server.address}", "--json")
    env = {"OMNIGRAPH_BEARER_TOKEN": TOKENS["bo"]}
    read = omnigraph("query", "books_of", *address, "--params", '{"author": "x"}', cwd=cluster.path, env=env)
    assert (read.exit_code, json.loads(read.stdout)["query_name"]) == (0, "books_of")
    denied = omnigraph("mutate", "add_author", *address, "--params", '{"name": "x"}', cwd=cluster.path, env=env)
    assert json.loads(denied.stdout)["error_code"] == "policy_denied"
    unknown = omnigraph("query", "no_such", *address, cwd=cluster.path, env=env)
    assert json.loads(unknown.stdout)["error_code"] == "query_not_stored"


def _call_message(tool: str, **arguments: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_tools_of_agents_run_stored_queries(server: ServerProcess) -> None:
    def call(actor: str, tool: str, **arguments: Any) -> Any:
        return _ask(server, actor, "POST", "mcp", _call_message(tool, **arguments)).document["result"]

    assert call("bo", "queries_list")["structuredContent"] == _ask(server, "bo", "GET", "queries").document
    author = {"author": "le guin"}
    read = call("bo", "queries_invoke", name="books_of", params=author)
    assert read["structuredContent"] == _ask(server, "bo", "POST", "queries/books_of", {"params": author}).document
    denied_body = call("bo", "queries_invoke", name="add_author", params={"name": "x"})
    assert (denied_body["isError"], denied_body["structuredContent"]["error_code"]) == (True, "policy_denied")
    assert _ask(server, "bo", "POST", "branches", {"name": "review/agent", "from": "main"}).status == 200
    changed = call("bo", "queries_invoke", name="add_author", params={"name": "x"}, branch="review/agent")
    assert changed["structuredContent"]["commit"]["actor_id"] == "bo"
    denied, unknown = (call("eve", "queries_invoke", name=name) for name in ("books_of", "no_such"))
    assert denied == unknown
    assert denied["structuredContent"]["error_code"] == "query_not_stored"
    assert call("eve", "queries_list")["structuredContent"]["error_code"] == "policy_denied"


def test_stdio_runs_stored_reads_of_a_server(server: ServerProcess, cluster: ExampleCluster) -> None:
    messages = [
        _call_message("queries_list"),
        _call_message("queries_invoke", name="books_of", params={"author": "x"}),
        _call_message("queries_invoke", name="add_author", params={"name": "x"}, branch="other", expect_mutation=True),
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli.main", "mcp", "--server", f"http://{server.address}"],
        input="".join(json.dumps(message) + "\n" for message in messages),
        env=environment({"OMNIGRAPH_BEARER_TOKEN": TOKENS["bo"]}),
        cwd=cluster.path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    listed, read, changed = (json.loads(line)["result"] for line in ended.stdout.splitlines())
    assert listed["structuredContent"] == _ask(server, "bo", "GET", "queries").document
    assert read["structuredContent"]["query_name"] == "books_of"
    assert (changed["isError"], changed["structuredContent"]["error_code"]) == (True, "query_kind")


def test_stored_queries_of_a_server_and_a_cluster_are_the_same(server: ServerProcess, cluster: ExampleCluster) -> None:
    env = {"OMNIGRAPH_BEARER_TOKEN": TOKENS["bo"]}
    targets = (("--server", f"http://{server.address}"), ("--cluster", str(cluster.path), "--as", "bo"))

    def run(target: tuple[str, ...], *words: str) -> Any:
        outcome = omnigraph(*words, *target, "--json", cwd=cluster.path, env=env)
        assert outcome.exit_code == 0, outcome.stderr
        return json.loads(outcome.stdout)

    run(targets[0], "branch", "create", "stored")
    receipts = [
        run(target, "mutate", "add_author", "--branch", "stored", "--params", json.dumps({"name": f"author {number}"}))
        for number, target in enumerate(targets)
    ]
    for name in ("query_name", "branch", "nodes", "actor_id"):
        assert receipts[0][name] == receipts[1][name]
    read = ("query", "books_of", "--branch", "stored", "--params", '{"author": "author 0"}')
    assert run(targets[0], *read) == run(targets[1][:2], *read)


def test_only_a_policy_of_the_server_lists_graphs(server: ServerProcess) -> None:
    assert _ask(server, "bo", "GET", "/graphs").document["graphs"] == [{"graph_id": "books", "uri": "graphs/books"}]
    assert _ask(server, "eve", "GET", "/graphs").status == 403


def test_new_revision_is_served_without_a_restart(server: ServerProcess, cluster: ExampleCluster) -> None:
    (cluster.path / "queries" / "titles.gq").write_text("query titles() { match { $b: Book } return { $b.title } }")
    cluster.edit("base.policy.yaml", lambda text: text.replace("team: [ada, bo]", "team: [ada, bo, eve]"))
    assert _ask(server, "eve", "POST", "queries/titles").status == 404
    document = cluster.cluster.apply(actor="ada")
    assert document.converged
    wait_until(lambda: _ask(server, "eve", "POST", "queries/titles").status == 200, "the new revision")
    ready = server.send("GET", "/readyz").document
    assert (ready["status"], ready["serving_revision"]) == ("serving", document.state_revision)
    _reject_a_revision(server, cluster)


def _reject_a_revision(server: ServerProcess, cluster: ExampleCluster) -> None:
    """A revision with a damaged policy leaves the old one, and shows in `/readyz`."""
    cluster.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[eve]"))
    before = server.send("GET", "/readyz").document["serving_revision"]
    state = cluster.path / "__cluster" / "state"
    newest = max(path.name for path in state.iterdir())
    ledger = json.loads((state / newest).read_text())
    ledger["state_revision"] += 1
    ledger["applied_revision"]["resources"]["policy.server"]["digest"] = "0" * 64
    (state / f"{ledger['state_revision']:020d}.json").write_text(json.dumps(ledger))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.send("GET", "/readyz").document["status"] == "degraded", "the rejected revision")
    ready = server.send("GET", "/readyz").document
    assert (ready["applied_revision"], ready["serving_revision"]) == (before + 1, before)
    assert _ask(server, "bo", "GET", "/graphs").status == 200
    assert cluster.cluster.apply(actor="ada").converged
    wait_until(lambda: _ask(server, "eve", "GET", "/graphs").status == 200, "the repaired revision")


def test_broken_graph_is_quarantined(new: ExampleCluster) -> None:
    (new.path / "other.pg").write_text("node Thing { name: String @key }")
    new.edit("cluster.yaml", lambda text: text.replace("graphs:\n", "graphs:\n  other: { schema: other.pg }\n"))
    new.apply()
    for path in (new.graph / "__manifest" / "_versions").iterdir():
        path.write_bytes(b"damaged")
    with _start(new) as server:
        ready = server.send("GET", "/readyz").document
        assert (ready["status"], ready["served_graph_count"], ready["quarantined_graph_count"]) == ("degraded", 1, 1)
        assert _ask(server, "bo", "GET", "snapshot").document["error_code"] == "graph_unavailable"
        assert _ask(server, "eve", "GET", "snapshot").status == 404
        assert _ask(server, "eve", "GET", "/graphs/other/snapshot").status == 200, "--access allows reading"
        listed = _ask(server, "bo", "GET", "/graphs").document
        assert [graph["graph_id"] for graph in listed["quarantined"]] == ["books"]
        assert "graphs/books" in listed["quarantined"][0]["message"]
        assert str(new.path) not in json.dumps(listed)
    strict = ("serve", "--cluster", ".", "--require-all-graphs", "--bind", "127.0.0.1:0")
    refused = omnigraph(*strict, cwd=new.path, env=VARIABLES)
    assert refused.exit_code == 1
    assert "1 of 2 graphs cannot be served: books" in refused.stderr


def test_managed_path_is_not_served_without_its_policy(applied: ExampleCluster) -> None:
    command = ("serve", "graphs/books.omni", "--unauthenticated", "--bind", "127.0.0.1:0")
    refused = omnigraph(*command, cwd=applied.path)
    assert refused.exit_code == 3
    assert "is managed by the cluster" in refused.stderr
