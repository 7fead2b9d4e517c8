"""Every way to write asks the gate of the graph before it stages anything, and nothing else asks it.

The tables name every method of `Graph` and every command. A new one fails here until it is classified.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.base.authorization import AccessAction, AccessDeniedError, Authority
from omnigraph.cli.app import COMMANDS, CommandFamily
from omnigraph.client.local import LocalGraph
from omnigraph.wire import requests as wr
from tests.cli.process import environment, tree
from tests.cluster.conftest import ExampleCluster
from tests.forked import forked_omnigraph
from tests.waiting import SECONDS_MAX

ADD: Final = 'query add() { insert Author { name: "le guin" } }'
LINE: Final = '{"type": "Author", "data": {"name": "le guin"}}\n'
HERE: Final = ("--cluster", ".", "--graph", "books")


@dataclass(slots=True)
class DenyEverything:
    """A gate that allows nothing, and remembers what it was asked."""

    asked: list[tuple[Authority, str | None]] = field(default_factory=list)

    def check(self, authority: Authority, actor: str | None) -> None:
        self.asked.append((authority, actor))
        raise AccessDeniedError("denied", code="policy_denied")


CHANGE: Final = Authority(action=AccessAction.CHANGE, branch="main")
CREATE: Final = Authority(action=AccessAction.BRANCH_CREATE, branch="main", target="review/2")
DELETE: Final = Authority(action=AccessAction.BRANCH_DELETE, target="review/1")
MERGE: Final = Authority(action=AccessAction.BRANCH_MERGE, branch="review/1", target="main")

METHODS: Final[dict[str, tuple[Authority, Callable[[Graph], Any]]]] = {
    "load": (CHANGE, lambda graph: graph.load([{"name": "x"}], type="Author")),
    "mutate": (CHANGE, lambda graph: graph.mutate(ADD)),
    "embed": (CHANGE, lambda graph: graph.embed()),
    "revert": (CHANGE, lambda graph: graph.revert("HEAD")),
    "create_branch": (CREATE, lambda graph: graph.create_branch("review/2")),
    "delete_branch": (DELETE, lambda graph: graph.delete_branch("review/1")),
    "merge": (MERGE, lambda graph: graph.merge("review/1")),
}
UNGATED_METHODS: Final[dict[str, Callable[[Graph], Any]]] = {
    # Maintenance: its commits are those of the system.
    "optimize": lambda graph: graph.optimize(),
    "build_indexes": lambda graph: graph.build_indexes(),
    "repair": lambda graph: graph.repair(),
    "cleanup": lambda graph: graph.cleanup(keep=1),
    "maintain": lambda graph: graph.maintain(),
    "fix_location": lambda graph: graph.fix_location(),
    # Refused: only `cluster apply` changes the schema of a graph with a policy.
    "apply_schema": lambda graph: graph.plan_schema(graph.schema),
    # Reading
    "query": lambda graph: graph.query("query q() { match { $a: Author } return { $a.name } }"),
    "prepare": lambda graph: graph.prepare("query q() { match { $a: Author } return { $a.name } }"),
    "explain": lambda graph: graph.explain("query q() { match { $a: Author } return { $a.name } }"),
    "snapshot": lambda graph: graph.snapshot(),
    "types": lambda graph: graph.types(),
    "table": lambda graph: graph.table("Author"),
    "to_networkx": lambda graph: graph.types(),  # needs the package networkx
    "export": lambda graph: graph.types(),  # writes a file, not the graph
    "plan_schema": lambda graph: graph.plan_schema(graph.schema),
    "checkout": lambda graph: graph.checkout("main"),
    "list_branches": lambda graph: graph.list_branches(),
    "log": lambda graph: graph.log(),
    "get_commit": lambda graph: graph.get_commit("HEAD"),
    "diff": lambda graph: graph.diff("main", "review/1"),
    "changes": lambda graph: graph.changes(),
    "index_status": lambda graph: graph.index_status(),
    "doctor": lambda graph: graph.doctor(),
    "recoveries": lambda graph: graph.recoveries(),
    "pending_writes": lambda graph: graph.pending_writes(),
    "close": lambda graph: graph.close(),
}


def test_every_method_asks_the_gate_if_it_writes_data(applied_in_place: ExampleCluster) -> None:
    public = {name for name, member in vars(Graph).items() if callable(member) and not name.startswith("_")}
    assert public == {*METHODS, *UNGATED_METHODS}
    og.open(applied_in_place.graph).create_branch("review/1")
    gate = DenyEverything()
    graph = replace(og.open(applied_in_place.graph, actor="bo"), gate=gate)
    before = tree(applied_in_place.graph)
    for name, (authority, call) in METHODS.items():
        with pytest.raises(AccessDeniedError):
            call(graph)
        assert gate.asked == [(authority, "bo")], name
        gate.asked.clear()
    assert tree(applied_in_place.graph) == before, "nothing was staged"
    for call in UNGATED_METHODS.values():
        call(graph)
    assert gate.asked == []


CLIENT_WRITES: Final[dict[str, tuple[Authority, Callable[[LocalGraph], Any]]]] = {
    "load": (CHANGE, lambda graph: graph.load(wr.LoadParameters(branch="main"), LINE.encode())),
    "mutate": (CHANGE, lambda graph: graph.mutate(wr.ChangeRequest(query=ADD))),
    "create_branch": (CREATE, lambda graph: graph.create_branch(wr.BranchCreateRequest(name="review/2"))),
    "delete_branch": (DELETE, lambda graph: graph.delete_branch("review/1")),
    "merge": (MERGE, lambda graph: graph.merge(wr.BranchMergeRequest(source="review/1"))),
}


def test_writes_of_a_client_ask_the_gate(applied: ExampleCluster) -> None:
    gate = DenyEverything()
    client = LocalGraph(graph=replace(og.open(applied.graph, actor="bo"), gate=gate), uri="graphs/books")
    for authority, call in CLIENT_WRITES.values():
        with pytest.raises(AccessDeniedError):
            call(client)
        assert gate.asked.pop() == (authority, "bo")


COMMAND_WRITES: Final = {
    "load": ("--data", "rows.ndjson"),
    "mutate": ("-e", ADD),
    "embed": (),
    "branch create": ("review/2",),
    "branch delete": ("review/1",),
    "branch merge": ("review/1",),
    "commit revert": ("HEAD",),
}
"""The commands that write data of a graph of a cluster. `mcp` calls the client."""
OTHER_COMMANDS: Final = (
    # Maintenance, and what only reads.
    *("optimize", "repair", "cleanup", "maintain", "doctor", "index status", "recovery list"),
    *("export", "query", "lint", "explain", "snapshot", "schema show", "schema plan", "branch list", "commit list"),
    *(
        "commit show",
        "commit changes",
        "changes poll",
        "blob get",
        "blob stat",
        "diff",
        "log",
        "policy validate",
        "policy test",
    ),
    *("policy explain", "cluster validate", "cluster plan", "cluster status"),
    # They ask `schema_apply` themselves, refuse a graph of a cluster, or have a gate per request.
    *("cluster apply", "cluster approve", "cluster import", "init", "schema apply", "serve", "mcp"),
    # Without a graph.
    *("spark start", "spark stop", "spark status", "login", "logout", "whoami", "graphs list", "profile list"),
    *("demo", "completion", "version"),
)


def test_every_command_asks_the_policy_if_it_writes_data(applied_in_place: ExampleCluster) -> None:
    cluster = applied_in_place
    names: set[str] = set()
    for name, entry in COMMANDS.items():
        names |= {f"{name} {second}" for second in entry.commands} if isinstance(entry, CommandFamily) else {name}
    assert names == {*COMMAND_WRITES, *OTHER_COMMANDS}
    og.open(cluster.graph).create_branch("review/1")
    (cluster.path / "rows.ndjson").write_text(LINE)
    before = tree(cluster.graph)
    for name, arguments in COMMAND_WRITES.items():
        outcome = cluster.run(*name.split(), *arguments, *HERE, "--as", "eve", "--json")
        assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (1, "policy_denied"), name
    assert tree(cluster.graph) == before, "nothing was staged"


def test_denied_load_starts_no_spark(applied_in_place: ExampleCluster) -> None:
    (applied_in_place.path / "rows.ndjson").write_text(LINE)
    command = ["load", *HERE, "--data", "rows.ndjson", "--branch", "review/1", "--from", "main", "--runner", "spark"]

    def load(actor: str) -> Any:
        ended = subprocess.run(
            [forked_omnigraph(), *command, "--spark-master", "sc://127.0.0.1:1", "--as", actor, "--json"],
            cwd=applied_in_place.path,
            env=environment(),
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        return json.loads(ended.stdout)["error_code"]

    assert load("eve") == "policy_denied"
    assert load("bo") == "spark_unreachable", "an allowed load connects to Spark, and there is none"
