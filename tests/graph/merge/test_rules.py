"""Conflicts over several rows, over values and over schemas: told with what each side has, and settled by a side."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
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
    """A graph with a branch `b`, and on main a commit that the branch has not."""
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate(START)
    graph.create_branch("b", from_="main")
    graph.mutate('query more() { insert Company { name: "c" } }')
    return graph


def mutate(graph: og.Graph, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}")


def conflicts(graph: og.Graph, **how: Any) -> list[dict[str, Any]]:
    """What a merge reports, and that it is the same whether it is a dry run."""
    planned = graph.merge("b", dry_run=True, **how)
    with pytest.raises(MergeConflictError) as refused:
        graph.merge("b", **how)
    assert refused.value.conflicts == planned.conflicts
    assert refused.value.facts["merge_conflicts"] == [one.to_json() for one in planned.conflicts]
    return [one.to_json() for one in planned.conflicts]


def told(graph: og.Graph, **how: Any) -> list[tuple[Any, ...]]:
    return [_named(conflict) for conflict in conflicts(graph, **how)]


def _named(conflict: dict[str, Any]) -> tuple[Any, ...]:
    """The kind, the table and the id of a conflict."""
    kind, type_name = conflict["entity_kind"], conflict["type_name"]
    return conflict["kind"], None if kind is None else f"{kind}:{type_name}", conflict["entity_id"]


def hint(graph: og.Graph, **how: Any) -> str:
    with pytest.raises(MergeConflictError) as refused:
        graph.merge("b", **how)
    assert refused.value.hint is not None
    return refused.value.hint


def ids(graph: og.Graph, alias: str) -> set[str]:
    return {row["id"] for row in contents(graph.location)[alias]}


def ends(graph: og.Graph, alias: str) -> set[str]:
    return {row["dst"] for row in contents(graph.location)[alias]}


@pytest.mark.parametrize(("side", "kept"), [("ours", "x"), ("theirs", "y")])
def test_two_entities_with_one_unique_value(side: str, kept: str, graph: og.Graph) -> None:
    mutate(graph, 'insert Person { slug: "x", email: "e" }')
    mutate(graph.checkout("b"), 'insert Person { slug: "y", email: "e" }')
    (found,) = conflicts(graph)
    assert _named(found) == ("unique_violation", "node:Person", "y")
    assert found["properties"] == ["email"]
    assert "Person x" in found["message"]
    assert (found["base"], found["ours"]) == (None, None)
    assert found["theirs"] == {"type": "Person", "data": {"id": "y", "slug": "y", "email": "e"}}
    graph.merge("b", strategy={"unique_violation": side})
    assert ids(graph, "node:Person") == {"p", kept}


def test_unique_values_that_change_hands_are_no_conflict(graph: og.Graph) -> None:
    mutate(graph, 'insert Person { slug: "x", email: "e" }')
    graph.checkout("b").merge("main")
    branch = graph.checkout("b")
    mutate(branch, 'update Person set { email: "f" } where slug = "x"')
    mutate(branch, 'insert Person { slug: "y", email: "e" }')
    mutate(graph, 'insert Company { name: "d" }')
    assert graph.merge("b").outcome == "merged"
    found = {row["id"]: row["email"] for row in contents(graph.location)["node:Person"]}
    assert found == {"p": None, "x": "f", "y": "e"}


PLAIN: Final = "node P { k: String @key  a: I64? }\n"


@pytest.mark.parametrize(
    ("rule", "pairs", "of", "kept"),
    [
        # Rows of ours that all get one value with the column: what theirs has not, goes.
        ("u: I64 @default(1) @unique", 'insert P { k: "y" }', "y u x", {"x"}),
        ("a: I64? @unique", 'insert P { k: "y", a: 5 } insert P { k: "z", a: 5 }', "z a y", {"x", "y"}),
    ],
)
def test_rows_of_ours_with_one_value_by_a_rule_of_theirs(
    rule: str, pairs: str, of: str, kept: set[str], tmp_path: Path
) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    mutate(graph, 'insert P { k: "x" }')
    graph.create_branch("b", from_="main")
    apply_schema(graph.location, "b", SchemaRequest(PLAIN.replace("a: I64?", rule), "tester"), in_place)
    mutate(graph, pairs)
    (found,) = conflicts(graph, strategy="ours")
    own, name, other = of.split()
    assert (found["kind"], found["entity_id"], found["properties"]) == ("unique_violation", own, [name])
    assert found["message"] == f"{name} is that of P {other} of the target too, against a rule of the source"
    assert "the rows of the target break a rule of the source: choose with --strategy theirs" in hint(graph)
    graph.merge("b", strategy="theirs")
    assert ids(graph, "node:P") == kept


def test_of_two_rows_of_ours_that_one_goes_which_theirs_has_otherwise(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    branch = graph.create_branch("b", from_="main")
    mutate(graph, 'insert P { k: "first", a: 5 }')
    mutate(branch, 'insert P { k: "later", a: 5 }')
    graph.merge("b")
    unique = PLAIN.replace("a: I64?", "a: I64? @unique")
    apply_schema(graph.location, "b", SchemaRequest(unique, "tester"), in_place)
    assert told(graph) == [("unique_violation", "node:P", "later")]
    graph.merge("b", strategy="theirs")
    assert ids(graph, "node:P") == {"later"}


def test_rows_of_theirs_with_one_value_by_a_rule_of_ours(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), PLAIN)
    branch = graph.create_branch("b", from_="main")
    unique = PLAIN.replace("a: I64?", "a: I64? @unique")
    apply_schema(graph.location, "main", SchemaRequest(unique, "tester"), in_place)
    mutate(branch, 'insert P { k: "y", a: 5 } insert P { k: "z", a: 5 }')
    (found,) = conflicts(graph, strategy="theirs")
    assert found["message"] == "a is that of P y of the source too, against a rule of the target"
    graph.merge("b", strategy="ours")
    assert ids(graph, "node:P") == {"y"}


def test_more_edges_of_ours_than_a_rule_of_theirs_allows(tmp_path: Path) -> None:
    text = PLAIN + "edge To: P -> P @card(0..2)\n"
    graph = og.init(str(tmp_path / "graph.omni"), text)
    mutate(graph, 'insert P { k: "x" } insert P { k: "y" }')
    graph.create_branch("b", from_="main")
    request = SchemaRequest(text.replace("0..2", "0..1"), "tester")
    apply_schema(graph.location, "b", request, in_place)
    mutate(graph, 'insert To { from: "x", to: "x" } insert To { from: "x", to: "y" }')
    assert told(graph, strategy="ours") == [("cardinality_violation", "node:P", "x")]
    assert "--strategy theirs or" in hint(graph)
    graph.merge("b", strategy="theirs")
    assert ends(graph, "edge:To") == set()


@pytest.mark.parametrize(("side", "kept"), [("ours", "a"), ("theirs", "b")])
def test_more_edges_than_allowed(side: str, kept: str, graph: og.Graph) -> None:
    mutate(graph, 'insert WorksAt { from: "p", to: "a" }')
    mutate(graph.checkout("b"), 'insert WorksAt { from: "p", to: "b" }')
    assert told(graph) == [("cardinality_violation", "node:Person", "p")]
    graph.merge("b", resolve={("node:Person", "p"): side})
    assert ends(graph, "edge:WorksAt") == {kept}


@pytest.mark.parametrize(("side", "kept"), [("ours", "b"), ("theirs", "a")])
def test_fewer_edges_than_needed(side: str, kept: str, graph: og.Graph) -> None:
    mutate(graph, 'delete Owns where to = "a"')
    mutate(graph.checkout("b"), 'delete Owns where to = "b"')
    assert told(graph) == [("cardinality_violation", "node:Person", "p")]
    graph.merge("b", strategy=side)
    assert ends(graph, "edge:Owns") == {kept}


@pytest.mark.parametrize(("side", "nodes", "edges"), [("ours", {"p", "q"}, {"q"}), ("theirs", {"p"}, set())])
def test_a_decision_about_an_edge_decides_about_its_node(
    side: str, nodes: set[str], edges: set[str], graph: og.Graph
) -> None:
    mutate(graph, 'insert Person { slug: "q" }')
    graph.checkout("b").merge("main")
    mutate(graph, 'insert Meets { from: "p", to: "q" }')
    mutate(graph.checkout("b"), 'delete Person where slug = "q"')
    (found,) = graph.merge("b", dry_run=True).conflicts
    assert found.describe().endswith('at which this edge of the target ends ("p" → "q")')
    assert found.entity is not None
    graph.merge("b", resolve={("edge:Meets", found.entity.id): side})
    assert (ids(graph, "node:Person"), ends(graph, "edge:Meets")) == (nodes, edges)


def test_a_deleted_entity_is_told_by_what_the_other_side_changed(graph: og.Graph) -> None:
    mutate(graph, 'delete Person where slug = "p"')
    mutate(graph.checkout("b"), 'update Person set { age: 7 } where slug = "p"')
    (line,) = [one.describe() for one in graph.merge("b", dry_run=True).conflicts]
    assert line.startswith("delete_vs_update: Person p: the target deleted it and the source changed it")
    assert line.endswith("(age null, theirs 7)")


def test_a_value_that_breaks_a_rule(graph: og.Graph) -> None:
    """Only a writer that did not check it can have written it, so theirs is no way out."""
    _write_unchecked(graph, "old", 999)
    (found,) = conflicts(graph)
    assert (found["kind"], found["entity_id"], found["properties"]) == (
        "value_constraint_violation",
        "old",
        ["age"],
    )
    assert found["theirs"]["data"]["age"] == 999
    assert told(graph, strategy="theirs") == [("value_constraint_violation", "node:Person", "old")]
    assert "--strategy ours or" in hint(graph)
    graph.merge("b", strategy="ours")
    assert ids(graph, "node:Person") == {"p"}


def test_schemas_that_contradict_each_other(graph: og.Graph) -> None:
    for branch, kind in (("main", "String"), ("b", "I64")):
        text = SCHEMA.replace("age: I64?", f"age: I64?  note: {kind}?")
        apply_schema(graph.location, branch, SchemaRequest(text, "tester"), in_place)
    (found,) = conflicts(graph)
    assert _named(found) == ("schema_diverged", None, None)
    assert told(graph, strategy="theirs") == [("schema_diverged", None, None)]
    assert "no choice of a side settles a schema" in hint(graph)


def _write_unchecked(graph: og.Graph, slug: str, age: int) -> None:
    def stage(at: StagingArea) -> StagedWrite:
        target = at.writable("node:Person")
        row: dict[str, Any] = {"id": [slug], "slug": [slug], "email": [None], "age": [age]}
        staged = stage_append(target.dataset, pa.table(row, schema=target.dataset.schema))
        effect = at.transaction_effect(target, staged, target.table.row_count + 1)
        return at.finish((effect,), frozenset(), Outcome({}))

    assert write(graph.location, "b", WriteRequest(WriterKind.LOAD, "tester", stage)) is not None
