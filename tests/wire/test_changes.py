"""The documents of changes: the states of an entity, and the commit that changed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import omnigraph as og
from omnigraph.wire.changes import cause_output, entity_change_output

SCHEMA = "node P { slug: String @key  age: I32? }\nedge E: P -> P { since: I32? }"


def test_states_have_null_properties_and_edges_have_endpoints(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    graph.mutate('query a() { insert P { slug: "x" } insert E { from: "x", to: "x", since: 1 } }')
    node, edge = _documents(graph, "HEAD")
    assert node == {
        "kind": "node",
        "type": {"id": graph.snapshot().tables["node:P"].id, "name": "P"},
        "id": "x",
        "op": "insert",
        "after": {"properties": {"slug": "x", "age": None}},
    }
    assert edge["after"] == {"properties": {"since": 1}, "endpoints": {"from": "x", "to": "x"}}
    graph.mutate('query b() { update P set { age: 2 } where slug = "x" }')
    (updated,) = _documents(graph, "HEAD")
    assert (updated["op"], updated["before"]["properties"]["age"]) == ("update", None)
    graph.mutate('query c() { delete P where slug = "x" }')
    deleted = _documents(graph, "HEAD")
    assert [(change["kind"], change["op"], "after" in change) for change in deleted] == [
        ("node", "delete", False),
        ("edge", "delete", False),
    ]


def test_cause_omits_missing_parents(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", SCHEMA, actor="ada")
    (first,) = graph.log()
    assert msgspec.to_builtins(cause_output(first)) == {
        "graph_commit_id": first.id,
        "authored_branch": "main",
        "actor_id": "ada",
        "authored_at": first.created_us,
        "operation": "init",
    }


def _documents(graph: og.Graph, commit: str) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(entity_change_output(change)) for change in graph.diff(commit)]
