"""A server with a policy, over real sockets: a table of requests and actors, SIGHUP, and what the log has."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.client.paging import DiffToken, encode_token
from tests.cli.process import omnigraph
from tests.policy.test_bundle import TEAM
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA, HttpAnswer, ServerProcess, serve
from tests.waiting import wait_until

TOKENS: Final = {
    "act-ada": "token-ada",
    "act-bo": "token-bo",
    "stranger": "token-stranger",
    "auditor": "token-au",
    "author": "token-w",
}
AUDITORS: Final = """
version: 1
groups: { auditors: [auditor], authors: [author] }
rules:
  - id: authors-write-on-unprotected-branches
    allow: { actors: { group: authors }, actions: [change], branch_scope: unprotected }
  - id: auditors-read-protected-branches
    allow: { actors: { group: auditors }, actions: [read], branch_scope: protected }
"""
INSERT: Final = 'query a() { insert Person { slug: "x" } }'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy")
    (directory / "tokens.json").write_text(json.dumps(TOKENS))
    (directory / "team.yaml").write_text(TEAM)
    (directory / "auditors.yaml").write_text(AUDITORS)
    graph = og.init(str(directory / "graph.omni"), SCHEMA)
    (directory / "people.jsonl").write_text(LINES)
    graph.load(str(directory / "people.jsonl"))
    graph.create_branch("review")
    graph.create_branch("hidden").mutate(INSERT)
    return directory


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[ServerProcess]:
    with start(directory) as process:
        yield process


def start(directory: Path, **more: str) -> Any:
    variables = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(directory / "tokens.json"), **more}
    policies = ("--policy", str(directory / "team.yaml"), "--policy", str(directory / "auditors.yaml"))
    return serve(directory / "graph.omni", directory, *policies, environment=variables)


def ask(server: ServerProcess, actor: str, method: str, path: str, document: Any = None) -> HttpAnswer:
    return server.send(method, path, document, token=TOKENS[actor])


# The route, and the status for act-ada (team, admins), act-bo (team) and an actor in no group.
REQUESTS: Final = [
    ("POST", "query", {"query": ALL_PEOPLE}, (200, 200, 403)),
    ("POST", "query", {"query": ALL_PEOPLE, "branch": "review"}, (200, 200, 403)),
    ("POST", "export", {}, (200, 200, 403)),
    ("GET", "snapshot", None, (200, 200, 403)),
    ("GET", "branches", None, (200, 200, 403)),
    ("GET", "log", None, (200, 200, 403)),
    ("GET", "diff?from=main&to=review", None, (200, 200, 403)),
    ("POST", "mutate", {"query": INSERT}, (403, 403, 403)),
    ("POST", "branches/merge", {"source": "review", "target": "main", "dry_run": True}, (200, 200, 403)),
    ("POST", "branches/merge", {"source": "review", "target": "main"}, (200, 403, 403)),
    ("DELETE", "branches/review", None, (None, 403, 403)),
    ("POST", "branches", {"name": "other"}, (None, 403, 403)),
]


@pytest.mark.parametrize(("method", "path", "document", "statuses"), REQUESTS)
def test_requests_of_actors(
    server: ServerProcess, method: str, path: str, document: Any, statuses: tuple[int | None, ...]
) -> None:
    for actor, status in zip(("act-ada", "act-bo", "stranger"), statuses, strict=True):
        if status is None:
            continue
        answer = ask(server, actor, method, path, document)
        assert answer.status == status, (actor, answer.body)
        if status == 403:
            assert answer.document["error_code"] == "policy_denied"


def test_team_writes_on_its_branches_and_admins_promote(server: ServerProcess) -> None:
    assert ask(server, "act-ada", "POST", "branches", {"name": "draft"}).status == 200
    changed = ask(server, "act-bo", "POST", "mutate", {"query": INSERT, "branch": "draft"})
    assert changed.status == 200
    assert changed.document["commit"]["actor_id"] == "act-bo"
    denied = ask(server, "act-bo", "POST", "branches/merge", {"source": "draft", "target": "main"})
    assert denied.document["error"] == (
        "policy denied action 'branch_merge' on branch 'draft' targeting branch 'main' for actor 'act-bo'"
    )
    assert ask(server, "act-ada", "POST", "branches/merge", {"source": "draft", "target": "main"}).status == 200


def test_rules_of_a_second_file(server: ServerProcess) -> None:
    """The first file protects main, and the second one has a rule about protected branches."""
    assert ask(server, "auditor", "POST", "query", {"query": ALL_PEOPLE}).status == 200
    assert ask(server, "auditor", "POST", "query", {"query": ALL_PEOPLE, "branch": "review"}).status == 403
    assert ask(server, "auditor", "GET", "branches").status == 403, "a request without a branch"


def test_changes_of_a_commit_that_the_actor_must_not_read_are_those_of_an_unknown_commit(server: ServerProcess) -> None:
    commit = ask(server, "act-ada", "GET", "commits").document["commits"][0]["graph_commit_id"]
    denied = ask(server, "stranger", "GET", f"commits/{commit}/changes")
    unknown = ask(server, "stranger", "GET", f"commits/{commit[::-1]}/changes")
    assert denied.status == unknown.status == 404
    assert denied.body.replace(commit.encode(), b"") == unknown.body.replace(commit[::-1].encode(), b"")


READS_OF_REFERENCES: Final = [
    ("GET", "snapshot?snapshot=NAME", None),
    ("GET", "schema?snapshot=NAME", None),
    ("GET", "catalog?snapshot=NAME", None),
    ("GET", "blob?entity=node&type=Person&id=x&property=slug&snapshot=NAME", None),
    ("GET", "diff?from=main&to=NAME", None),
    ("GET", "diff?from=NAME&to=main", None),
    ("GET", "commits/NAME/changes", None),
    ("GET", "commits/NAME", None),
    ("POST", "query", {"query": ALL_PEOPLE, "snapshot": "NAME"}),
    ("POST", "explain", {"query": ALL_PEOPLE, "snapshot": "NAME"}),
    ("POST", "lint", {"files": [], "snapshot": "NAME"}),
    ("POST", "export", {"snapshot": "NAME"}),
    ("GET", "snapshot?branch=NAME", None),
    ("GET", "commits?branch=NAME", None),
    ("GET", "changes?branch=NAME", None),
    ("POST", "mutate", {"query": INSERT, "branch": "NAME"}),
    ("POST", "load", {"data": "", "branch": "NAME"}),
    ("POST", "branches", {"name": "other", "from": "NAME"}),
    ("POST", "branches/merge", {"source": "NAME", "target": "main", "dry_run": True}),
    ("POST", "branches/merge", {"source": "main", "target": "NAME"}),
    ("DELETE", "branches/NAME", None),
    ("POST", "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "query", "arguments": {"query": ALL_PEOPLE, "snapshot": "NAME"}}}),
]  # fmt: skip


@pytest.mark.parametrize("actor", ["auditor", "stranger"])
def test_a_denied_name_gets_the_response_of_an_unknown_one(server: ServerProcess, directory: Path, actor: str) -> None:
    """The auditor reads protected branches, and the stranger nothing: neither may list branches or commits."""
    commit = og.open(str(directory / "graph.omni"), branch="hidden").log()[0].id
    names = ("hidden", "absent", commit, commit[::-1], commit[-8:], "01")
    for method, path, document in READS_OF_REFERENCES:
        responses = set()
        for name in names:
            body = None if document is None else json.loads(json.dumps(document).replace("NAME", name))
            answer = ask(server, actor, method, path.replace("NAME", name), body)
            responses.add((answer.status, answer.body.replace(name.encode(), b"NAME")))
        assert len(responses) == 1, (path, responses)
        assert responses.pop()[0] == {"commits/NAME/changes": 404, "mcp": 200}.get(path, 403), path


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_forged_page_token_reads_no_other_branch(server: ServerProcess, directory: Path, side: str) -> None:
    """Auditor may compare main with itself. A token names the two states of its first page, and is not signed."""
    graph = og.open(str(directory / "graph.omni"))
    hidden, head = og.open(str(directory / "graph.omni"), branch="hidden").log()[0].id, graph.log()[0].id
    for name in ("hidden", hidden, hidden[::-1], hidden[-8:]):
        before, after = (name, head) if side == "before" else (head, name)
        token = encode_token(DiffToken(graph=graph.log()[-1].id, filter="", before=before, after=after))
        answer = ask(server, "auditor", "GET", f"diff?from=main&to=main&page_token={token}")
        assert (answer.status, answer.document["error"]) == (400, "change cursor rejected: it belongs to other commits")


def test_a_forged_position_in_a_page_is_rejected(server: ServerProcess, directory: Path) -> None:
    log = og.open(str(directory / "graph.omni")).log()
    token = encode_token(DiffToken(graph=log[-1].id, filter="", before=log[0].id, after=log[0].id, skipped=-1))
    answer = ask(server, "act-bo", "GET", f"diff?from=main&to=main&page_token={token}")
    assert (answer.status, answer.document["error_code"]) == (400, "change_cursor_rejected")


def test_a_missing_branch_does_not_name_the_others_to_an_actor_that_may_not_list_them(server: ServerProcess) -> None:
    """The author writes on unprotected branches, existing or not, and may not list them."""
    call = {"name": "mutate", "arguments": {"query": INSERT, "branch": "absent"}}
    agent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    requests = (
        ("mutate", {"query": INSERT, "branch": "absent"}),
        ("load", {"data": "", "branch": "absent"}),
        ("mcp", agent),
    )
    for path, document in requests:
        for actor, is_listed in (("author", False), ("act-bo", True)):
            body = ask(server, actor, "POST", path, document).body
            assert b"no branch 'absent'" in body
            assert (b"hidden" in body) is is_listed, (path, body)


def test_an_actor_that_may_list_names_learns_what_is_wrong(server: ServerProcess) -> None:
    unknown = ask(server, "act-bo", "GET", "snapshot?snapshot=absent")
    assert (unknown.status, unknown.document["error_code"]) == (404, "reference_missing")


def test_branches_say_what_the_policy_protects(server: ServerProcess) -> None:
    rows = ask(server, "act-bo", "GET", "branches").document["details"]
    assert {row["name"]: row["protected"] for row in rows if row["name"] in {"main", "review"}} == {
        "main": True,
        "review": False,
    }


def test_a_denied_load_writes_nothing(server: ServerProcess, directory: Path) -> None:
    files_before = {path for path in (directory / "graph.omni").rglob("*") if path.is_file()}
    headers = {"Content-Type": "application/x-ndjson"}
    for path in ("load/ndjson?branch=main", "load/ndjson?branch=new&from=main"):
        answer = server.send("POST", path, body=LINES.encode(), headers=headers, token=TOKENS["act-bo"])
        assert answer.status == 403, answer.body
    assert {path for path in (directory / "graph.omni").rglob("*") if path.is_file()} == files_before


def test_whoami_and_tools_follow_the_policy(server: ServerProcess) -> None:
    document = ask(server, "act-bo", "GET", "/whoami").document
    assert document["state"] == "policy"
    actions = document["graphs"][0]["actions"]
    assert (actions["read"], actions["change"], actions["branch_merge"]) == ("all", "some", "none")
    assert ask(server, "stranger", "GET", "/whoami").document["graphs"] == []
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = {actor: _tools(ask(server, actor, "POST", "mcp", message)) for actor in TOKENS}
    assert tools["stranger"] == set()
    assert "branches_merge" in tools["act-ada"] - tools["act-bo"]
    assert {"query", "mutate"} <= tools["act-bo"]


def test_decisions_are_logged_without_tokens(server: ServerProcess) -> None:
    ask(server, "act-bo", "POST", "mutate", {"query": INSERT})
    line = "policy decision actor=act-bo action=change graph=default branch=main allowed=False"
    wait_until(lambda: line in server.log.read_text(), "the decision is logged")
    assert not any(token in server.log.read_text() for token in TOKENS.values())


def test_sighup_takes_a_valid_policy_and_keeps_the_old_one_otherwise(directory: Path, tmp_path: Path) -> None:
    """The server has no slot for changes: a denied one needs none, and an allowed one gets 429."""
    for name in ("tokens.json", "team.yaml", "auditors.yaml"):
        (tmp_path / name).write_text((directory / name).read_text())
    og.init(str(tmp_path / "graph.omni"), SCHEMA)
    call = {"name": "mutate", "arguments": {"query": INSERT}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}

    def outcomes(server: ServerProcess) -> list[Any]:
        answer = ask(server, "act-bo", "POST", "mcp", message)
        document = answer.document["result"]["structuredContent"] if answer.status == 200 else answer.document
        return [ask(server, "act-bo", "POST", "mutate", {"query": INSERT}).status, document["error_code"]]

    with start(tmp_path, OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX="0") as server:
        assert outcomes(server) == [403, "policy_denied"]
        (tmp_path / "team.yaml").write_text(TEAM.replace("branch_scope: unprotected", "branch_scop: any"))
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "unknown member" in server.log.read_text(), "the log says that the policy is invalid")
        assert outcomes(server) == [403, "policy_denied"]
        (tmp_path / "team.yaml").write_text(TEAM.replace("branch_scope: unprotected", "branch_scope: any"))
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "tokens read" in server.log.read_text(), "the log says that the policy was read")
        assert outcomes(server) == [429, "too_many_changes"]


BOOT_ERRORS: Final = {
    "no tokens": (TEAM, False, 2, "the server has a policy but no tokens"),
    "invalid": (TEAM.replace("[change]", "[chnge]"), True, 1, "did you mean 'change'?"),
    "of a server": (
        "version: 1\ngroups: {o: [a]}\nrules: [{id: l, allow: {actors: {group: o}, actions: [graph_list]}}]\n",
        True,
        2,
        "expected rules about a graph",
    ),
}


@pytest.mark.parametrize("name", BOOT_ERRORS)
def test_boot_errors(name: str, directory: Path, tmp_path: Path) -> None:
    policy, has_tokens, code, message = BOOT_ERRORS[name]
    (tmp_path / "p.yaml").write_text(policy)
    graph, file = str(directory / "graph.omni"), str(tmp_path / "p.yaml")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(directory / "tokens.json")} if has_tokens else {}
    ended = omnigraph("serve", graph, "--bind", "127.0.0.1:0", "--policy", file, env=tokens)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert message in ended.stderr


def _tools(answer: HttpAnswer) -> set[str]:
    return {tool["name"] for tool in answer.document["result"]["tools"]}
