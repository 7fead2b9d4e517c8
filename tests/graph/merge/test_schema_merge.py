"""Merging branches with diverged schemas: changes that commute are merged with their rows, others are conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.base.errors import InvariantError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.schema_change import column_plan
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.location import Location
from tests.graph.crash.observe import find_leftovers
from tests.graph.merge.schema_sides import (
    ADA,
    ADD_CAT,
    AGELESS,
    BASE,
    BOB,
    CITY,
    NOTED,
    ONLY_ADA,
    RANKED,
    RENAMED,
    SCORE_ALL,
    SCORED,
    TOWN,
    UPDATE_BOB,
    MergeSide,
    forked,
    person,
)
from tests.maintenance.cleaning import Place, TomorrowClock
from tests.maintenance.evolving import contents, evolve, opened, snapshot_contents


@pytest.fixture
def root(tmp_path: Path) -> Location:
    return forked(tmp_path)


MERGES: dict[str, tuple[MergeSide, MergeSide, dict[str, Any]]] = {
    "only theirs, without rows": (
        MergeSide(),
        MergeSide(RENAMED),
        {"ada": {"years": 36, "note": "n"}, "bob": {"years": 7, "note": None}},
    ),
    "only theirs, with rows": (
        MergeSide(),
        MergeSide(RENAMED, ('query m() { update Person set { years: 8 } where slug = "bob" }',), ADD_CAT),
        {"ada": {"years": 36, "note": "n"}, "bob": {"years": 8, "note": None}, "cat": {"years": 3, "note": None}},
    ),
    "theirs with our rows": (
        MergeSide(mutations=(UPDATE_BOB,)),
        MergeSide(RANKED, ('query m() { insert Person { slug: "cat", rank: 5 } }',)),
        {
            "ada": {**ADA, "rank": 1},
            "bob": {"age": 8, "note": None, "rank": 1},
            "cat": {"age": None, "note": None, "rank": 5},
        },
    ),
    "a deletion with a new column": (
        MergeSide(),
        MergeSide(
            RANKED,
            (
                "query m() { delete Knows where since is null }",
                'query m() { delete Person where slug = "bob" }',
                'query m() { update Person set { rank: 9 } where slug = "ada" }',
            ),
        ),
        {"ada": {**ADA, "rank": 9}},
    ),
    "only ours": (
        MergeSide(RENAMED),
        MergeSide(mutations=(UPDATE_BOB,)),
        {"ada": {"years": 36, "note": "n"}, "bob": {"years": 8, "note": None}},
    ),
    "two properties": (
        MergeSide(RANKED, ('query m() { update Person set { rank: 2 } where slug = "ada" }',)),
        MergeSide(SCORED, ('query m() { update Person set { score: 0.5 } where slug = "bob" }',)),
        {"ada": {**ADA, "rank": 2, "score": None}, "bob": {**BOB, "rank": 1, "score": 0.5}},
    ),
    "a rename and a property": (
        MergeSide(RENAMED),
        MergeSide(SCORED, (ADD_CAT,)),
        {
            "ada": {"years": 36, "note": "n", "score": None},
            "bob": {"years": 7, "note": None, "score": None},
            "cat": {"years": 3, "note": None, "score": None},
        },
    ),
    "a drop with our rows": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(BASE.replace("note: String?", "")),
        {"ada": {"age": 36}, "bob": {"age": 7}, "cat": {"age": 3}},
    ),
    "a default that was removed later": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(RANKED, then=RANKED.replace(" @default(1)", "")),
        {"ada": {**ADA, "rank": 1}, "bob": {**BOB, "rank": 1}, "cat": {"age": 3, "note": None, "rank": 1}},
    ),
    "a new property with the name of a dropped one": (
        MergeSide(mutations=(UPDATE_BOB,)),
        MergeSide(BASE.replace("note: String?", ""), then=BASE.replace("note: String?", "note: I64 @default(5)")),
        {"ada": {"age": 36, "note": 5}, "bob": {"age": 8, "note": 5}},
    ),
    "a default for null": (
        MergeSide(mutations=(UPDATE_BOB, ADD_CAT)),
        MergeSide(NOTED, ('query m() { insert Person { slug: "dan" } }',)),
        {"ada": ADA, "bob": {"age": 8, "note": "x"}, "cat": {"age": 3, "note": "x"}, "dan": {"age": None, "note": "x"}},
    ),
    "a default for null with a value of ours": (
        MergeSide(mutations=('query m() { update Person set { note: "ours" } where slug = "bob" }',)),
        MergeSide(NOTED, ('query m() { update Person set { age: 37 } where slug = "ada" }',)),
        {"ada": {"age": 37, "note": "n"}, "bob": {"age": 7, "note": "ours"}},
    ),
    "a default for null on our side": (
        MergeSide(NOTED),
        MergeSide(mutations=(UPDATE_BOB, ADD_CAT)),
        {"ada": ADA, "bob": {"age": 8, "note": "x"}, "cat": {"age": 3, "note": "x"}},
    ),
    "a default for null that was changed later": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(NOTED, then=NOTED.replace('"x"', '"y"')),
        {"ada": ADA, "bob": {"age": 7, "note": "x"}, "cat": {"age": 3, "note": "x"}},
    ),
    "a default for null in a property that is nullable again": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(NOTED, then=BASE),
        {"ada": ADA, "bob": {"age": 7, "note": "x"}, "cat": {"age": 3, "note": "x"}},
    ),
    "a default for null in a property that our side does not have": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(SCORED, then=SCORED.replace("F64?", "F64 @default(0.5)")),
        {"ada": {**ADA, "score": 0.5}, "bob": {**BOB, "score": 0.5}, "cat": {"age": 3, "note": None, "score": 0.5}},
    ),
    "a default that was changed later": (
        MergeSide(),
        MergeSide(RANKED, ('query m() { insert Person { slug: "cat" } }',), then=RANKED.replace("(1)", "(5)")),
        {"ada": {**ADA, "rank": 1}, "bob": {**BOB, "rank": 1}, "cat": {"age": None, "note": None, "rank": 1}},
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "expected"), MERGES.values(), ids=MERGES.keys())
def test_schemas_that_can_be_merged(
    root: Location, ours: MergeSide, theirs: MergeSide, expected: dict[str, Any]
) -> None:
    ours.apply(root, MAIN)
    theirs.apply(root, "dev")
    before, head, dev = contents(root), read_snapshot(root).head, contents(root, "dev")
    outcome = omnigraph.open(root.uri).merge("dev")
    assert outcome.commit is not None
    now = read_snapshot(root)
    assert (now.head, now.schema.hash) == (outcome.commit.id, outcome.commit.schema_hash)
    assert person(contents(root)) == expected
    for entity in now.schema.catalog.types:
        assert opened(now, entity.alias).schema.names == arrow_schema(entity).names
        assert now.tables[entity.alias].row_count == len(contents(root)[entity.alias])
        assert now.tables[entity.alias].pin.branch is None
    assert snapshot_contents(read_commit_snapshot(root, head)[0]) == before
    assert contents(root, "dev") == dev
    assert find_leftovers(root, WriteEnvironment()) == []
    assert evolve(root, now.schema.source).commit is None
    # In the other direction the branch gets what it lacks, and then both are equal.
    omnigraph.open(root.uri, "dev").merge(MAIN)
    assert contents(root, "dev") == contents(root)
    assert read_snapshot(root, "dev").schema.hash == now.schema.hash
    assert omnigraph.open(root.uri).merge("dev").commit is None or contents(root) == contents(root, "dev")


def test_types_of_both_sides(root: Location) -> None:
    MergeSide(TOWN, ('query m() { insert Town { name: "t" } }',)).apply(root, MAIN)
    live = 'query m() { insert City { name: "c" }  insert LivesIn { from: "ada", to: "c" } }'
    MergeSide(CITY, (live,)).apply(root, "dev")
    graph = omnigraph.open(root.uri)
    graph.merge("dev")
    now = contents(root)
    assert (list(now["node:Town"]), list(now["node:City"]), len(now["edge:LivesIn"])) == (["t"], ["c"], 1)
    text = "query q() { match { $p: Person  $p livesIn $c } return { $p.slug, $c.name } }"
    assert graph.query(text).to_arrow().to_pylist() == [{"p.slug": "ada", "c.name": "c"}]
    # Both write to the merged type, and merge again.
    graph.mutate('query m() { insert City { name: "d" }  insert LivesIn { from: "bob", to: "d" } }')
    omnigraph.open(root.uri, "dev").mutate('query m() { insert City { name: "e" } }')
    graph.merge("dev")
    assert sorted(contents(root)["node:City"]) == ["c", "d", "e"]
    # The branch and its files are deleted; the merged rows are kept.
    omnigraph.open(root.uri, "dev").merge(MAIN)
    before = contents(root)
    graph.delete_branch("dev")
    policy = CleanupPolicyOptions(keep_versions=1, confirm=True)
    rows = cleanup_all_tables(Place(root), policy, environment=WriteEnvironment(clock=TomorrowClock()))
    assert [row.error for row in rows if row.error] == []
    assert contents(root) == before
    graph.mutate('query m() { insert City { name: "f" } }')
    assert sorted(contents(root)["node:City"]) == ["c", "d", "e", "f"]
    assert find_leftovers(root, WriteEnvironment()) == []


def test_dropped_type(root: Location) -> None:
    evolve(root, BASE.replace("node Company { name: String @key }\n", ""), "dev")
    omnigraph.open(root.uri).mutate(UPDATE_BOB)
    omnigraph.open(root.uri).merge("dev")
    assert sorted(contents(root)) == ["edge:Knows", "node:Person"]
    evolve(root, BASE)
    assert contents(root)["node:Company"] == {}


def test_renamed_type(root: Location) -> None:
    MergeSide(BASE.replace("node Company", "node Firm @rename_from(Company)")).apply(root, "dev")
    MergeSide(mutations=('query m() { insert Company { name: "New" } }',)).apply(root, MAIN)
    omnigraph.open(root.uri).merge("dev")
    assert sorted(contents(root)["node:Firm"]) == ["Acme", "New"]


NARROW = BASE.replace("note: String?", "note: String?  @range(age, 0..50)")
CONFLICTS: dict[str, tuple[MergeSide, MergeSide, list[str]]] = {
    "two names": (
        MergeSide(RENAMED),
        MergeSide(BASE.replace("age: I64?", "old: I64? @rename_from(age)")),
        ["schema_diverged"],
    ),
    "duplicate name": (MergeSide(CITY), MergeSide(CITY), ["schema_diverged"]),
    "a type that was written to": (
        MergeSide(mutations=('query m() { insert Company { name: "New" } }',)),
        MergeSide(BASE.replace("node Company { name: String @key }\n", "")),
        ["schema_diverged"],
    ),
    "our rows and their rule": (
        MergeSide(mutations=('query m() { update Person set { age: 99 } where slug = "bob" }',)),
        MergeSide(NARROW),
        ["value_constraint_violation"],
    ),
    "their rows and our rule": (
        MergeSide(NARROW),
        MergeSide(mutations=('query m() { update Person set { age: 99 } where slug = "bob" }',)),
        ["value_constraint_violation"],
    ),
    "our rows and their unique": (
        MergeSide(mutations=('query m() { update Person set { age: 36 } where slug = "bob" }',)),
        MergeSide(BASE.replace("age: I64?", "age: I64? @unique")),
        ["unique_violation"],
    ),
    "an edge of theirs to a node that ours deleted": (
        MergeSide(
            mutations=(
                "query m() { delete Knows where since is null }",
                'query m() { delete Person where slug = "ada" }',
            )
        ),
        MergeSide(CITY, ('query m() { insert City { name: "c" }  insert LivesIn { from: "ada", to: "c" } }',)),
        ["orphan_edge"],
    ),
    "our old and new rows and their unique over a new column": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(BASE.replace("note: String?", 'note: String?  tag: String? @default("x") @unique'), first=ONLY_ADA),
        ["unique_violation"],
    ),
    "our last edge and their minimum": (
        MergeSide(mutations=("query m() { delete Knows where since is null }",)),
        MergeSide(BASE.replace("Person -> Person", "Person -> Person @card(1..5)")),
        ["cardinality_violation"],
    ),
    "our new row and their required property": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(SCORED, (SCORE_ALL,), then=SCORED.replace("F64?", "F64")),
        ["value_constraint_violation"],
    ),
    "our rows of a type that was empty there": (
        MergeSide(mutations=('query m() { insert Company { name: "New" } }',)),
        MergeSide(
            BASE.replace("name: String @key", "name: String @key  code: String"),
            first="query m() { delete Company where name is not null }",
        ),
        ["value_constraint_violation"],
    ),
    "our value of a property that theirs dropped": (
        MergeSide(mutations=(UPDATE_BOB,)),
        MergeSide(AGELESS),
        ["schema_diverged"],
    ),
    "our new row with a property that theirs dropped": (
        MergeSide(mutations=(ADD_CAT,)),
        MergeSide(AGELESS),
        ["schema_diverged"],
    ),
    "their value of a property that ours dropped": (
        MergeSide(AGELESS),
        MergeSide(SCORED, (UPDATE_BOB, ADD_CAT)),
        ["schema_diverged"],
    ),
    "both changed a row": (
        MergeSide(mutations=('query m() { update Person set { age: 9 } where slug = "bob" }',)),
        MergeSide(RENAMED, ('query m() { update Person set { years: 10 } where slug = "bob" }',)),
        ["divergent_update"],
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "kinds"), CONFLICTS.values(), ids=CONFLICTS.keys())
def test_schemas_that_conflict(root: Location, ours: MergeSide, theirs: MergeSide, kinds: list[str]) -> None:
    ours.apply(root, MAIN)
    theirs.apply(root, "dev")
    before, head = contents(root), read_snapshot(root).head
    with pytest.raises(MergeConflictError) as caught:
        omnigraph.open(root.uri).merge("dev")
    documents = [conflict.to_json() for conflict in caught.value.conflicts]
    assert [document["kind"] for document in documents] == kinds
    if kinds == ["schema_diverged"]:
        plans = documents[0]["plans"]
        assert isinstance(plans, dict)
        assert plans["theirs"]
        assert [documents[0][side] for side in ("base", "ours", "theirs")] == [None] * 3
        assert bool(plans["ours"]) is (ours.schema is not None)
        assert "the source: " in caught.value.render()
    assert (contents(root), read_snapshot(root).head) == (before, head)
    assert find_leftovers(root, WriteEnvironment()) == []


def test_minimum_of_theirs_and_edges_that_ours_deleted(root: Location) -> None:
    graph = omnigraph.open(root.uri)
    graph.mutate('query m() { insert Knows { from: "ada", to: "ada" } }')
    omnigraph.open(root.uri, "dev").merge(MAIN)
    evolve(root, BASE.replace("Person -> Person", "Person -> Person @card(2..5)"), "dev")
    graph.mutate('query m() { delete Knows where to = "bob" }')
    before = contents(root)
    with pytest.raises(MergeConflictError, match="cardinality_violation"):
        graph.merge("dev")
    assert contents(root) == before
    # Choosing the source restores the edge, so the rule holds.
    graph.merge("dev", strategy="theirs")
    assert len(contents(root)["edge:Knows"]) == 2


def test_dropped_properties_are_counted_by_name(root: Location) -> None:
    MergeSide(AGELESS.replace("note: String?", "")).apply(root, "dev")
    MergeSide(mutations=(UPDATE_BOB, ADD_CAT)).apply(root, MAIN)
    (conflict,) = omnigraph.open(root.uri).merge("dev", dry_run=True).conflicts
    assert conflict.message == "one side dropped node:Person.age (2 rows) and the other wrote to it"


def test_required_property_that_every_row_of_theirs_has(root: Location) -> None:
    MergeSide(RANKED, then=RANKED.replace(" @default(1)", "")).apply(root, "dev")
    MergeSide(mutations=('query m() { insert Company { name: "New" } }',)).apply(root, MAIN)
    omnigraph.open(root.uri).merge("dev")
    assert person(contents(root)) == {"ada": {**ADA, "rank": 1}, "bob": {**BOB, "rank": 1}}


def test_required_column_without_values_is_an_error(root: Location) -> None:
    MergeSide(SCORED, (SCORE_ALL,), then=SCORED.replace("F64?", "F64")).apply(root, "dev")
    old, new = (read_snapshot(root, name).schema.catalog.type_named("Person") for name in (MAIN, "dev"))
    assert old is not None
    assert new is not None
    with pytest.raises(InvariantError, match="score is required"):
        column_plan(old, new, 2, nulls={})
    assert "score" not in column_plan(old, new, 2, nulls={}, remaining=0).fills


def test_revert_of_a_schema_change_is_a_conflict(root: Location) -> None:
    done = evolve(root, RENAMED)
    assert done.commit is not None
    with pytest.raises(MergeConflictError, match="schema_diverged"):
        omnigraph.open(root.uri).revert(done.commit.id)


def test_rule_with_rows_that_the_source_fixed_before(root: Location) -> None:
    """Rows that the source fixed before it added the rule are not checked in their old state."""
    fix = 'query m() { update Person set { age: 5 } where slug = "ada" }'
    MergeSide(BASE.replace("note: String?", "note: String?  @range(age, 0..9)"), (), fix).apply(root, "dev")
    MergeSide(mutations=('query m() { insert Company { name: "New" } }',)).apply(root, MAIN)
    omnigraph.open(root.uri).merge("dev")
    assert contents(root)["node:Person"]["ada"]["age"] == 5


def test_dry_run_and_merge_report_the_schema_steps(root: Location) -> None:
    text = CITY.replace("age: I64?", "years: I64? @rename_from(age)").replace(
        "node Company { name: String @key }\n", ""
    )
    MergeSide(text, ('query m() { insert City { name: "c" } }',)).apply(root, "dev")
    graph = omnigraph.open(root.uri)
    planned, done = graph.merge("dev", dry_run=True), graph.merge("dev")
    for outcome in (planned, done):
        steps = [(step.step.kind, getattr(step.step, "alias", None), step.rows) for step in outcome.schema_steps]
        assert steps == [
            ("drop_type", "node:Company", 1),
            ("rename_property", "node:Person", 2),
            ("add_type", "node:City", 0),
            ("add_type", "edge:LivesIn", 0),
        ]
        assert [(step.table, step.inserted) for step in outcome.tables] == [("node:City", 1)]
    assert done.commit is not None
    assert done.commit.counts["inserted"] == 1
    assert graph.merge("dev").schema_steps == ()


def test_dry_run_with_conflicts_has_result_conflicts(root: Location) -> None:
    ours, theirs, _ = CONFLICTS["both changed a row"]
    ours.apply(root, MAIN)
    theirs.apply(root, "dev")
    planned = omnigraph.open(root.uri).merge("dev", dry_run=True)
    assert (planned.outcome, len(planned.conflicts), len(planned.schema_steps)) == ("conflicts", 1, 1)
