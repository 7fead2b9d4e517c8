"""Conflicts about several rows, values and schemas: reported with both sides, and resolved by choosing a side."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from tests.pipeline.in_place import contents, in_place
from tests.storage.raw_writes import stage_append

SCHEMA: Final = """\
node Person { slug: String @key  email: String?  age: I64?  @unique(email)  @range(age, 0..200) }
node Company { name: String @key }
edge WorksAt: Person -> Company @card(0..1)
edge Owns: Person -> Company @card(1..*)
edge Meets: Person -> Person
"""
START: Final = """query start() {
  insert Person { slug: "p" }
  insert Company { name: "a" }
  insert Company { name: "b" }
  insert Owns { from: "p", to: "a" }
  insert Owns { from: "p", to: "b" }
}"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Return a graph with a branch `b`, and on main a commit that the branch lacks."""
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate(START)
    graph.create_branch("b", from_="main")
    graph.mutate('query more() { insert Company { name: "c" } }')
    return graph


def mutate(graph: og.Graph, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}")


def conflicts(graph: og.Graph, **options: Any) -> list[dict[str, Any]]:
    """Return what a merge reports, and check that a dry run reports the same."""
    planned = graph.merge("b", dry_run=True, **options)
    with pytest.raises(MergeConflictError) as caught:
        graph.merge("b", **options)
    assert caught.value.conflicts == planned.conflicts
    assert caught.value.facts["merge_conflicts"] == [conflict.to_json() for conflict in planned.conflicts]
    return [conflict.to_json() for conflict in planned.conflicts]


def conflict_names(graph: og.Graph, **options: Any) -> list[tuple[Any, ...]]:
    return [_name(conflict) for conflict in conflicts(graph, **options)]


def _name(conflict: dict[str, Any]) -> tuple[Any, ...]:
    """Return the kind, the table and the id of a conflict."""
    kind, type_name = conflict["entity_kind"], conflict["type_name"]
    return conflict["kind"], None if kind is None else f"{kind}:{type_name}", conflict["entity_id"]


def hint(graph: og.Graph, **options: Any) -> str:
    with pytest.raises(MergeConflictError) as caught:
        graph.merge("b", **options)
    assert caught.value.hint is not None
    return caught.value.hint


def ids(graph: og.Graph, alias: str) -> set[str]:
    return {row["id"] for row in contents(graph.location)[alias]}


def ends(graph: og.Graph, alias: str) -> set[str]:
    return {row["dst"] for row in contents(graph.location)[alias]}


@pytest.mark.parametrize(("side", "kept_ids"), [("ours", "x"), ("theirs", "y")])
def test_two_entities_with_the_same_unique_value(side: str, kept_ids: str, graph: og.Graph) -> None:
    mutate(graph, 'insert Person { slug: "x", email: "e" }')
    mutate(graph.checkout("b"), 'insert Person { slug: "y", email: "e" }')
    (conflict,) = conflicts(graph)
    assert _name(conflict) == ("unique_violation", "node:Person", "y")
    assert conflict["properties"] == ["email"]
    assert "Person x" in conflict["message"]
    assert (conflict["base"], conflict["ours"]) == (None, None)
    assert conflict["theirs"] == {"type": "Person", "data": {"id": "y", "slug": "y", "email": "e"}}
    graph.merge("b", strategy={"unique_violation": side})
    assert ids(graph, "node:Person") == {"p", kept_ids}


def test_unique_value_that_moves_to_another_row_is_not_a_conflict(graph: og.Graph) -> None:
    mutate(graph, 'insert Person { slug: "x", email: "e" }')
    graph.checkout("b").merge("main")
    branch = graph.checkout("b")
    mutate(branch, 'update Person set { email: "f" } where slug = "x"')
    mutate(branch, 'insert Person { slug: "y", email: "e" }')
    mutate(graph, 'insert Company { name: "d" }')
    assert graph.merge("b").outcome == "merged"
    emails = {row["id"]: row["email"] for row in contents(graph.location)["node:Person"]}
    assert emails == {"p": None, "x": "f", "y": "e"}


PLAIN: Final = "node P { k: String @key  a: I64? }\n"


@pytest.mark.parametrize(
    ("rule", "pairs", "of", "kept_ids"),
    [
        # Rows of ours that all get one value in the new column: those that theirs lacks are dropped.
        ("u: I64 @default(1) @unique", 'insert P { k: "y" }', "y u x", {"x"}),
        ("a: I64? @unique", 'insert P { k: "y", a: 5 } insert P { k: "z", a: 5 }', "z a y", {"x", "y"}),
    ],
)
def test_our_rows_break_a_unique_rule_of_theirs(
    rule: str, pairs: str, of: str, kept_ids: set[str], tmp_path: Path
) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    mutate(graph, 'insert P { k: "x" }')
    graph.create_branch("b", from_="main")
    apply_schema(graph.location, "b", SchemaRequest(source=PLAIN.replace("a: I64?", rule), actor="tester"), in_place)
    mutate(graph, pairs)
    (conflict,) = conflicts(graph, strategy="ours")
    own, name, other = of.split()
    assert (conflict["kind"], conflict["entity_id"], conflict["properties"]) == ("unique_violation", own, [name])
    assert (
        conflict["message"] == f"{name} is equal to that of P {other} of the target, which breaks a rule of the source"
    )
    assert "Rows of the target break a rule of the source: pass `strategy='theirs'`" in hint(graph)
    graph.merge("b", strategy="theirs")
    assert ids(graph, "node:P") == kept_ids


def test_of_two_rows_of_ours_the_one_that_theirs_has_is_kept(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    branch = graph.create_branch("b", from_="main")
    mutate(graph, 'insert P { k: "first", a: 5 }')
    mutate(branch, 'insert P { k: "later", a: 5 }')
    graph.merge("b")
    unique = PLAIN.replace("a: I64?", "a: I64? @unique")
    apply_schema(graph.location, "b", SchemaRequest(source=unique, actor="tester"), in_place)
    assert conflict_names(graph) == [("unique_violation", "node:P", "later")]
    graph.merge("b", strategy="theirs")
    assert ids(graph, "node:P") == {"later"}


def test_their_rows_break_a_unique_rule_of_ours(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    branch = graph.create_branch("b", from_="main")
    unique = PLAIN.replace("a: I64?", "a: I64? @unique")
    apply_schema(graph.location, "main", SchemaRequest(source=unique, actor="tester"), in_place)
    mutate(branch, 'insert P { k: "y", a: 5 } insert P { k: "z", a: 5 }')
    (conflict,) = conflicts(graph, strategy="theirs")
    assert conflict["message"] == "a is equal to that of P y of the source, which breaks a rule of the target"
    graph.merge("b", strategy="ours")
    assert ids(graph, "node:P") == {"y"}


def test_our_edges_exceed_a_maximum_of_theirs(tmp_path: Path) -> None:
    text = PLAIN + "edge To: P -> P @card(0..2)\n"
    graph = og.init(str(tmp_path / "graph.omni"), text)
    mutate(graph, 'insert P { k: "x" } insert P { k: "y" }')
    graph.create_branch("b", from_="main")
    request = SchemaRequest(source=text.replace("0..2", "0..1"), actor="tester")
    apply_schema(graph.location, "b", request, in_place)
    mutate(graph, 'insert To { from: "x", to: "x" } insert To { from: "x", to: "y" }')
    assert conflict_names(graph, strategy="ours") == [("cardinality_violation", "node:P", "x")]
    assert "`strategy='theirs'` or" in hint(graph)
    graph.merge("b", strategy="theirs")
    assert ends(graph, "edge:To") == set()


@pytest.mark.parametrize(("side", "kept_ids"), [("ours", "a"), ("theirs", "b")])
def test_too_many_edges(side: str, kept_ids: str, graph: og.Graph) -> None:
    mutate(graph, 'insert WorksAt { from: "p", to: "a" }')
    mutate(graph.checkout("b"), 'insert WorksAt { from: "p", to: "b" }')
    assert conflict_names(graph) == [("cardinality_violation", "node:Person", "p")]
    graph.merge("b", resolve={("Person", "p"): side})
    assert ends(graph, "edge:WorksAt") == {kept_ids}


@pytest.mark.parametrize(("side", "kept_ids"), [("ours", "b"), ("theirs", "a")])
def test_too_few_edges(side: str, kept_ids: str, graph: og.Graph) -> None:
    mutate(graph, 'delete Owns where to = "a"')
    mutate(graph.checkout("b"), 'delete Owns where to = "b"')
    assert conflict_names(graph) == [("cardinality_violation", "node:Person", "p")]
    graph.merge("b", strategy=side)
    assert ends(graph, "edge:Owns") == {kept_ids}


@pytest.mark.parametrize(("side", "nodes", "edges"), [("ours", {"p", "q"}, {"q"}), ("theirs", {"p"}, set())])
def test_choice_for_an_edge_applies_to_its_node(side: str, nodes: set[str], edges: set[str], graph: og.Graph) -> None:
    mutate(graph, 'insert Person { slug: "q" }')
    graph.checkout("b").merge("main")
    mutate(graph, 'insert Meets { from: "p", to: "q" }')
    mutate(graph.checkout("b"), 'delete Person where slug = "q"')
    (conflict,) = graph.merge("b", dry_run=True).conflicts
    assert conflict.describe().endswith('an endpoint of this edge of the target ("p" → "q")')
    assert conflict.entity is not None
    with pytest.raises(og.NotFoundError, match="unknown type 'Meet': did you mean 'Meets'"):
        graph.merge("b", resolve={("Meet", conflict.entity.id): side})
    graph.merge("b", resolve={("meets", conflict.entity.id): side})
    assert (ids(graph, "node:Person"), ends(graph, "edge:Meets")) == (nodes, edges)


def test_deleted_entity_is_reported_with_the_change_of_the_other_side(graph: og.Graph) -> None:
    mutate(graph, 'delete Person where slug = "p"')
    mutate(graph.checkout("b"), 'update Person set { age: 7 } where slug = "p"')
    (line,) = [conflict.describe() for conflict in graph.merge("b", dry_run=True).conflicts]
    assert line.startswith("delete_vs_update: Person p: the target deleted it and the source changed it")
    assert line.endswith("(age null, theirs 7)")


def test_value_that_breaks_a_rule(graph: og.Graph) -> None:
    """Only a writer without checks can have written it, so choosing theirs does not resolve it."""
    _write_unchecked(graph, "old", 999)
    (conflict,) = conflicts(graph)
    assert (conflict["kind"], conflict["entity_id"], conflict["properties"]) == (
        "value_constraint_violation",
        "old",
        ["age"],
    )
    assert conflict["theirs"]["data"]["age"] == 999
    assert conflict_names(graph, strategy="theirs") == [("value_constraint_violation", "node:Person", "old")]
    assert "`strategy='ours'` or" in hint(graph)
    graph.merge("b", strategy="ours")
    assert ids(graph, "node:Person") == {"p"}


def test_diverged_schemas(graph: og.Graph) -> None:
    for branch, kind in (("main", "String"), ("b", "I64")):
        text = SCHEMA.replace("age: I64?", f"age: I64?  note: {kind}?")
        apply_schema(graph.location, branch, SchemaRequest(source=text, actor="tester"), in_place)
    (conflict,) = conflicts(graph)
    assert _name(conflict) == ("schema_diverged", None, None)
    assert conflict_names(graph, strategy="theirs") == [("schema_diverged", None, None)]
    assert "No strategy resolves it" in hint(graph)


def _write_unchecked(graph: og.Graph, slug: str, age: int) -> None:
    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write("node:Person")
        row: dict[str, Any] = {"id": [slug], "slug": [slug], "email": [None], "age": [age]}
        staged = stage_append(target.dataset, pa.table(row, schema=target.dataset.schema))
        effect = area.transaction_effect(target, staged, target.table.row_count + 1)
        return area.finish((effect,), frozenset(), {})

    assert write(graph.location, "b", WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage)) is not None
