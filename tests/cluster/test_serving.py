"""A server of a cluster, over real sockets: stored queries, policies, quarantine, and following the ledger."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

import omnigraph as og
from omnigraph.client.mcp import TOOLS
from omnigraph.cluster.project import Cluster
from omnigraph.server.routes import ROUTES
from tests.cli.process import environment
from tests.cluster.conftest import EXAMPLE, ExampleCluster, start_apply, wait_for_hold
from tests.conftest import S3Server
from tests.forked import forked_omnigraph
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


def _run(cluster: ExampleCluster, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may not return in a process of its own."""
    return subprocess.run(
        [forked_omnigraph(), *arguments],
        env=environment({**VARIABLES, **variables}),
        cwd=cluster.path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


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


def test_stored_queries_through_the_command_line(
    server: ServerProcess, cluster: ExampleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", TOKENS["bo"])
    address = ("--server", f"http://{server.address}", "--json")
    read = cluster.run("query", "books_of", *address, "--params", '{"author": "x"}')
    assert (read.exit_code, json.loads(read.stdout)["query_name"]) == (0, "books_of")
    denied = cluster.run("mutate", "add_author", *address, "--params", '{"name": "x"}')
    assert json.loads(denied.stdout)["error_code"] == "policy_denied"
    unnamed = cluster.run("query", *address)
    assert (unnamed.exit_code, "or the name of a stored query" in unnamed.stdout) == (2, True)
    unknown = cluster.run("query", "no_such", *address)
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
        [forked_omnigraph(), "mcp", "--server", f"http://{server.address}"],
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


def test_stored_queries_of_a_server_and_a_cluster_are_the_same(
    server: ServerProcess, cluster: ExampleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", TOKENS["bo"])
    targets = (("--server", f"http://{server.address}"), ("--cluster", str(cluster.path), "--as", "bo"))

    def run(target: tuple[str, ...], *words: str) -> Any:
        outcome = cluster.run(*words, *target, "--json")
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


TEAM: Final = frozenset({"ada", "bo"})
ADMINS: Final = frozenset({"ada"})
NO_ONE: Final = frozenset[str]()
HIDDEN: Final = {
    "invoke_query": "query_not_stored",
    "invoke_query_if_graph_commit": "query_not_stored",
    "getCommitChanges": "reference_missing",
}
"""The routes that answer a denied request as if its subject did not exist, and the code of that answer."""
CONDITION: Final = {"Omnigraph-If-Graph-Commit": "01KA0000000000000000000000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A request about the branch BRANCH, and who may send it if that is main and if it is a review branch."""

    on_main: frozenset[str] = TEAM
    on_review: frozenset[str] = TEAM
    path: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    document: dict[str, Any] | None = None
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def on(self, branch: str, commit: str) -> RouteRequest:
        text = json.dumps([self.path, self.parameters, self.document])
        path, parameters, document = json.loads(text.replace("BRANCH", branch).replace("COMMIT", commit))
        return replace(self, path=path, parameters=parameters, document=document)


ON_BRANCH: Final = {"branch": "BRANCH"}
AUTHORS: Final = {"query": "query q() { match { $a: Author } return { $a.name } }", "branch": "BRANCH"}
ADD: Final = {"query": 'query q() { insert Author { name: "of the table" } }', "branch": "BRANCH"}
BLOB: Final = {"entity": "node", "type": "Author", "id": "x", "property": "name", "branch": "BRANCH"}
READ_BOOKS: Final = {"params": {"author": "x"}, "branch": "BRANCH"}
REQUESTS: Final = {
    "getSnapshot": RouteRequest(parameters=ON_BRANCH),
    "getSchema": RouteRequest(parameters=ON_BRANCH),
    "getCatalog": RouteRequest(parameters=ON_BRANCH),
    "query": RouteRequest(document=AUTHORS),
    "explainQuery": RouteRequest(document=AUTHORS),
    "lintQueries": RouteRequest(document={"files": [], "branch": "BRANCH"}),
    "export": RouteRequest(document=ON_BRANCH),
    "mutate": RouteRequest(document=ADD, on_main=NO_ONE),
    "mutate_if_graph_commit": RouteRequest(document=ADD, headers=CONDITION, on_main=NO_ONE),
    "load": RouteRequest(document={"data": "", "branch": "BRANCH"}, on_main=NO_ONE),
    "loadNdjson": RouteRequest(
        parameters=ON_BRANCH, body=b"", headers={"Content-Type": "application/x-ndjson"}, on_main=NO_ONE
    ),
    "listBranches": RouteRequest(),
    "createBranch": RouteRequest(document={"name": "BRANCH", "from": "main"}, on_main=NO_ONE),
    "mergeBranches": RouteRequest(
        document={"source": "review/source", "target": "BRANCH"}, on_main=ADMINS, on_review=ADMINS
    ),
    "deleteBranch": RouteRequest(path={"branch": "BRANCH"}, on_main=NO_ONE),
    "listCommits": RouteRequest(parameters=ON_BRANCH),
    "getCommitChanges": RouteRequest(path={"commit": "COMMIT"}),
    "pollChanges": RouteRequest(parameters=ON_BRANCH),
    "diffStates": RouteRequest(parameters={"from": "main", "to": "BRANCH"}),
    "getBlob": RouteRequest(parameters=BLOB),
    "listLog": RouteRequest(),
    "getGraphHealth": RouteRequest(),
    "list_queries": RouteRequest(),
    "invoke_query": RouteRequest(path={"name": "books_of"}, document=READ_BOOKS),
    "invoke_query_if_graph_commit": RouteRequest(path={"name": "books_of"}, document=READ_BOOKS, headers=CONDITION),
    "getCommit": RouteRequest(path={"commit": "COMMIT"}),
}
"""A request to every route, valid or not: who may send it is decided first. Deletes name a branch that is missing."""


def _is_denied(operation: str, document: Any) -> bool:
    return bool(document.get("error_code") == HIDDEN.get(operation, "policy_denied"))


@pytest.mark.parametrize("branch", ["main", "review/table"])
def test_every_route_and_tool_asks_the_policy(server: ServerProcess, branch: str) -> None:
    for name in ("review/source", "review/table"):
        assert _ask(server, "bo", "POST", "branches", {"name": name, "from": "main"}).status in (200, 409)
    commit = _ask(server, "bo", "GET", "commits").document["commits"][0]["graph_commit_id"]
    tools = {tool.operation: tool.name for tool in TOOLS}
    allowed: dict[str, set[str]] = {route.operation: set() for route in ROUTES}
    allowed_tools: dict[str, set[str]] = {operation: set() for operation in tools if operation in allowed}
    for route, actor in product(ROUTES, TOKENS):
        subject = "review/missing" if route.operation == "deleteBranch" and branch != "main" else branch
        request = REQUESTS[route.operation].on(subject, commit)
        path = route.path.replace(":path", "").format(**request.path)
        answer = server.send(
            route.method,
            f"/graphs/books{path}?{urlencode(request.parameters)}",
            request.document,
            body=request.body,
            headers=request.headers,
            token=TOKENS[actor],
        )
        assert answer.status not in (401, 500, 503), (route.operation, answer.body)
        is_denied = answer.status in (403, 404) and _is_denied(route.operation, answer.document)
        assert is_denied or answer.status != 403, (route.operation, answer.body)
        if not is_denied:
            allowed[route.operation].add(actor)
        if route.operation in tools:
            names = {"name" if name == "branch" else name: value for name, value in request.path.items()}
            arguments = {**request.parameters, **(request.document or {}), **names}
            called = _ask(server, actor, "POST", "mcp", _call_message(tools[route.operation], **arguments)).document
            if not _is_denied(route.operation, called["result"]["structuredContent"]):
                allowed_tools[route.operation].add(actor)
    expected = {name: set(item.on_main if branch == "main" else item.on_review) for name, item in REQUESTS.items()}
    assert allowed == expected
    assert allowed_tools == {operation: expected[operation] for operation in allowed_tools}


def test_two_servers_write_during_an_apply(server: ServerProcess, cluster: ExampleCluster, tmp_path: Path) -> None:
    cluster.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))
    gate = tmp_path / "gate"
    promoted: list[str] = []

    def write(peer: ServerProcess, branch: str, name: str) -> None:
        call = {"params": {"name": name}, "branch": branch}
        assert _ask(peer, "bo", "POST", "queries/add_author", call).status == 200
        merged = _ask(peer, "ada", "POST", "branches/merge", {"source": branch, "target": "main"})
        assert merged.status in (200, 409), merged.body
        if merged.status == 200:
            promoted.append(name)

    with (
        _start(cluster, "--reload-seconds", "0.2") as second,
        start_apply(cluster, f"cluster.schema.before=hold:{gate}") as applying,
        ThreadPoolExecutor(2) as threads,
    ):
        branches = {"review/first": server, "review/second": second}
        for branch, peer in branches.items():
            assert _ask(peer, "bo", "POST", "branches", {"name": branch, "from": "main"}).status == 200
        wait_for_hold(applying, gate)

        def write_several(label: str) -> None:
            writes = [threads.submit(write, peer, branch, f"{branch} {label}") for branch, peer in branches.items()]
            for running in writes:
                running.result()

        write_several("while the apply is held")
        gate.touch()
        write_several("while it changes the schema")
        stdout, _ = applying.communicate(timeout=SECONDS_MAX)
        assert applying.returncode == 0, stdout
        write_several("after it")
        revision = json.loads(stdout)["state_revision"]
        for peer in branches.values():
            wait_until(
                lambda peer=peer: (  # type: ignore[misc]
                    peer.send("GET", "/readyz").document["serving_revision"] == revision
                ),
                "the revision is served",
            )
            assert "pages: I32?" in _ask(peer, "bo", "GET", "schema").document["schema_source"]
            rows = _ask(peer, "bo", "POST", "query", {"query": AUTHORS["query"]}).document["rows"]
            assert set(promoted) <= {row["a.name"] for row in rows}
    assert any("after it" in name for name in promoted)


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
    _add_revision(cluster, "policy.server", "0" * 64)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.send("GET", "/readyz").document["status"] == "degraded", "the rejected revision")
    ready = server.send("GET", "/readyz").document
    assert (ready["applied_revision"], ready["serving_revision"]) == (before + 1, before)
    assert _ask(server, "bo", "GET", "/graphs").status == 200
    assert cluster.cluster.apply(actor="ada").converged
    wait_until(lambda: _ask(server, "eve", "GET", "/graphs").status == 200, "the repaired revision")


def _add_revision(cluster: ExampleCluster, address: str, digest: str) -> None:
    """Add a revision to the ledger in which a resource has another digest."""
    state = cluster.path / "__cluster" / "state"
    ledger = json.loads(max(state.iterdir()).read_text())
    ledger["state_revision"] += 1
    ledger["applied_revision"]["resources"][address]["digest"] = digest
    (state / f"{ledger['state_revision']:020d}.json").write_text(json.dumps(ledger))


def test_cluster_on_s3_is_served_and_maintained(
    new: ExampleCluster, s3_server: S3Server, s3_variables: dict[str, str]
) -> None:
    """From its root alone: a new revision is served without a restart, and all graphs are maintained."""
    root = f"s3://{s3_server.bucket}/{uuid.uuid4().hex}"
    new.edit("cluster.yaml", lambda text: text + f"storage: {root}\n")
    assert new.apply()["converged"]
    flags = ("--reload-seconds", "0.2")
    with serve(f"--cluster={root}", new.path.parent, *flags, environment={**VARIABLES, **s3_variables}) as server:
        assert _ask(server, "bo", "POST", "branches", {"name": "review/1", "from": "main"}).status == 200
        call = {"params": {"name": "le guin"}, "branch": "review/1"}
        assert _ask(server, "bo", "POST", "queries/add_author", call).status == 200
        assert _ask(server, "ada", "POST", "branches/merge", {"source": "review/1", "target": "main"}).status == 200
        (new.path / "queries" / "all.gq").write_text("query all() { match { $a: Author } return { $a.name } }")
        assert _ask(server, "bo", "POST", "queries/all").status == 404
        assert new.apply()["converged"]
        wait_until(lambda: _ask(server, "bo", "POST", "queries/all").status == 200, "the new revision")
        assert _ask(server, "bo", "POST", "queries/all").document["rows"] == [{"a.name": "le guin"}]
        maintained = new.run("maintain", "--cluster", root, "--json")
        assert [graph["uri"] for graph in json.loads(maintained.stdout)["graphs"]] == [f"{root}/graphs/books.omni"]
        assert _ask(server, "bo", "POST", "queries/all").document["rows"] == [{"a.name": "le guin"}]


MORE_GRAPHS: Final = """graphs:
  other: { schema: other.pg }
  keyless: { schema: other.pg, embedding_provider: hosted }
  stale: { schema: other.pg, queries: [things.gq] }
"""
PROVIDER: Final = 'providers: { embedding: { hosted: { kind: openai, api_key: "${NO_SUCH_KEY}" } } }\n'


def test_broken_graph_is_quarantined(new: ExampleCluster) -> None:
    (new.path / "other.pg").write_text("node Thing { name: String @key }")
    (new.path / "things.gq").write_text("query things() { match { $t: Thing } return { $t.name } }")
    new.edit("cluster.yaml", lambda text: text.replace("graphs:\n", MORE_GRAPHS) + PROVIDER)
    assert new.apply()["converged"]
    altered = b"query things() { match { $t: Thing } return { $t.size } }"
    digest = sha256(altered).hexdigest()
    [stored] = (new.path / "__cluster" / "resources" / "query" / "stale" / "things").iterdir()
    stored.with_name(f"{digest}.gq").write_bytes(altered)
    _add_revision(new, "query.stale.things", digest)
    for path in (new.graph / "__manifest" / "_versions").iterdir():
        path.write_bytes(b"damaged")
    with _start(new) as server:
        ready = server.send("GET", "/readyz").document
        assert (ready["status"], ready["served_graph_count"], ready["quarantined_graph_count"]) == ("degraded", 1, 3)
        assert _ask(server, "bo", "GET", "snapshot").document["error_code"] == "graph_unavailable"
        assert _ask(server, "eve", "GET", "snapshot").status == 404
        assert _ask(server, "eve", "GET", "/graphs/other/snapshot").status == 200, "--access allows reading"
        listed = _ask(server, "bo", "GET", "/graphs").document
        codes = {graph["graph_id"]: graph["code"] for graph in listed["quarantined"]}
        assert sorted(codes) == ["books", "keyless", "stale"]
        assert (codes["keyless"], codes["stale"]) == ("embedding_key_missing", "query_invalid")
        assert "graphs/books" in listed["quarantined"][0]["message"]
        assert str(new.path) not in json.dumps(listed)
    refused = _run(new, "serve", "--require-all-graphs", "--bind", "127.0.0.1:0", OMNIGRAPH_CLUSTER=".")
    assert refused.returncode == 1
    assert "3 of 4 graphs cannot be served: books" in refused.stderr


CEDAR: Final = {
    "lists.cedar": '@id("lists") permit(principal, action == Omnigraph::Action::"graph_list", resource);\n',
    "reads.cedar": '@id("reads") permit(principal == Omnigraph::Actor::"eve", '
    'action in [Omnigraph::Action::"read", Omnigraph::Action::"branch_create"], '
    'resource == Omnigraph::Graph::"books");',
}


def test_policies_of_cedar_files_alone(new: ExampleCluster) -> None:
    """A policy for the server and one for a graph, both without YAML rules."""
    for name, text in CEDAR.items():
        (new.path / name).write_text(text)
    new.edit("server.policy.yaml", lambda _: "version: 1\ncedar: [lists.cedar]\n")
    new.edit("base.policy.yaml", lambda _: "version: 1\nprotected_branches: [main]\ncedar: [reads.cedar]\n")
    assert new.apply()["converged"]
    explain = ("policy", "explain", "--cluster", ".", "--actor", "eve", "--action", "branch_create", "--json")
    assert json.loads(new.run(*explain).stdout)["rule"] == "reads"
    for path in new.path.rglob("*.*"):  # serving needs only what was applied
        if path.is_file() and path.relative_to(new.path).parts[0] not in ("__cluster", "graphs"):
            path.unlink()
    with _start(new) as server:
        for actor in TOKENS:
            assert _ask(server, actor, "GET", "/graphs").status == 200
            assert _ask(server, actor, "GET", "snapshot").status == (200 if actor == "eve" else 403)
        assert _ask(server, "eve", "POST", "branches", {"name": "draft", "from": "main"}).status == 200
        assert _ask(server, "eve", "POST", "mutate", ADD).status == 403


AUDITORS: Final = """version: 1
groups: { auditors: [eve] }
protected_branches: [main]
rules:
  - { id: run, allow: { actors: { group: auditors }, actions: [invoke_query] } }
  - { id: read, allow: { actors: { group: auditors }, actions: [read], branch_scope: protected } }
"""


def test_stored_queries_do_not_show_whether_a_hidden_branch_exists(new: ExampleCluster) -> None:
    """Eve may run stored queries on main, and may not list branches or commits."""
    new.edit("base.policy.yaml", lambda _: AUDITORS)
    assert new.apply()["converged"]
    hidden = og.open(new.graph).create_branch("hidden")
    hidden.mutate('query q() { insert Author { name: "secret" } }')
    commit = hidden.log()[0].id
    names = ("hidden", "absent", commit, commit[::-1])
    parameters = {"books_of": {"author": "x"}, "add_author": {"name": "x"}}
    statuses: dict[tuple[str, str], int] = {}
    with _start(new) as server:
        for query, member in product(parameters, ("branch", "snapshot")):
            responses = set()
            for name in names:
                answer = _ask(server, "eve", "POST", f"queries/{query}", {"params": parameters[query], member: name})
                responses.add((answer.status, answer.body.replace(name.encode(), b"NAME")))
            [(statuses[query, member], _)] = responses
    assert statuses == {
        ("books_of", "branch"): 403,
        ("books_of", "snapshot"): 403,
        ("add_author", "branch"): 403,
        ("add_author", "snapshot"): 400,
    }


def test_open_server_serves_no_policy(new: ExampleCluster) -> None:
    declared = (new.path / "cluster.yaml").read_text()
    new.edit("cluster.yaml", lambda text: text.partition("policies:")[0])
    assert new.apply()["converged"]
    flags = ("--reload-seconds", "0.2", "--unauthenticated")
    with serve(f"--cluster={new.path}", new.path.parent, *flags) as server:
        (new.path / "cluster.yaml").write_text(declared)
        revision = new.apply()["state_revision"]
        wait_until(lambda: "has a policy but no tokens" in server.log.read_text(), "the new revision is rejected")
        ready = server.send("GET", "/readyz").document
        assert (ready["applied_revision"], ready["serving_revision"]) == (revision, revision - 1)
        assert server.send("GET", "/graphs/books/snapshot").status == 200


def test_managed_path_is_not_served_without_its_policy(applied: ExampleCluster) -> None:
    command = ("serve", "graphs/books.omni", "--unauthenticated", "--bind", "127.0.0.1:0")
    refused = _run(applied, *command)
    assert refused.returncode == 3
    assert "is managed by the cluster" in refused.stderr
