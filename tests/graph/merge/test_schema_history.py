"""Merges and reverts across earlier schema changes: other bases, other defaults, commits from before a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.storage.location import Location
from tests.graph.crash.observe import find_leftovers
from tests.graph.merge.schema_sides import (
    ADA,
    AGELESS,
    BASE,
    BOB,
    NOTED,
    RANKED,
    RENAMED,
    SCORED,
    TOWN,
    UPDATE_BOB,
    forked,
    person,
)
from tests.maintenance.evolving import contents, evolve


@pytest.fixture
def root(tmp_path: Path) -> Location:
    return forked(tmp_path)


REVERTS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "another type": (TOWN, {"ada": ADA, "bob": BOB}),
    "a renamed property": (RENAMED, {"ada": {"years": 36, "note": "n"}, "bob": {"years": 7, "note": None}}),
    "a new property": (RANKED, {"ada": {**ADA, "rank": 1}, "bob": {**BOB, "rank": 1}}),
    "a default for null": (NOTED, {"ada": ADA, "bob": {"age": 7, "note": "x"}}),
    "a dropped property that it did not write": (
        BASE.replace("note: String?", ""),
        {"ada": {"age": 36}, "bob": {"age": 7}},
    ),
    "a dropped property that it wrote": (AGELESS, None),
    "a rule that earlier rows break": (BASE.replace("note: String?", "note: String?  @range(age, 8..99)"), None),
}


@pytest.mark.parametrize(("text", "expected"), REVERTS.values(), ids=REVERTS.keys())
def test_revert_across_a_schema_change(root: Location, text: str, expected: dict[str, Any] | None) -> None:
    graph = omnigraph.open(root.uri)
    done = graph.mutate(UPDATE_BOB)
    assert done.commit is not None
    evolve(root, text)
    if expected is not None:
        graph.revert(done.commit.id)
        assert person(contents(root)) == expected
        assert find_leftovers(root, WriteEnvironment()) == []
        return
    before = contents(root)
    with pytest.raises(MergeConflictError) as caught:
        graph.revert(done.commit.id)
    (conflict,) = caught.value.conflicts
    if text == AGELESS:
        assert conflict.message == "the commit wrote to node:Person.age (1 row), which was dropped since"
        assert conflict.plans[0]
    else:
        assert conflict.kind == "value_constraint_violation"
    assert contents(root) == before


def test_revert_of_a_write_to_a_dropped_type(root: Location) -> None:
    done = omnigraph.open(root.uri).mutate('query m() { insert Company { name: "New" } }')
    assert done.commit is not None
    evolve(root, BASE.replace("node Company { name: String @key }\n", ""))
    with pytest.raises(MergeConflictError, match="schema_diverged") as caught:
        omnigraph.open(root.uri).revert(done.commit.id)
    assert caught.value.conflicts[0].message == "the commit wrote to node:Company, which was dropped since"


def test_criss_cross_schemas(root: Location) -> None:
    """Two bases with different schemas: the common base is their merge."""
    evolve(root, RANKED)
    evolve(root, SCORED, "dev")
    main, dev = read_snapshot(root).head, read_snapshot(root, "dev").head
    graph, other = omnigraph.open(root.uri), omnigraph.open(root.uri, "dev")
    graph.merge(dev)
    other.merge(main)
    graph.mutate('query m() { update Person set { rank: 4 } where slug = "ada" }')
    other.mutate('query m() { update Person set { score: 0.5 } where slug = "bob" }')
    both = "note: String?  rank: I64 @default(1)  score: F64?"
    evolve(root, BASE.replace("note: String?", f"{both}  town: String?"), "dev")
    outcome = graph.merge("dev")
    assert [step.step.kind for step in outcome.schema_steps] == ["add_property"]
    expected = {
        "ada": {**ADA, "rank": 4, "score": None, "town": None},
        "bob": {**BOB, "rank": 1, "score": 0.5, "town": None},
    }
    assert person(contents(root)) == expected
    # A property that one side drops is dropped, because the other wrote it before the merge.
    evolve(root, BASE.replace("note: String?", "rank: I64 @default(1)  score: F64?  town: String?"), "dev")
    other.merge(MAIN)
    assert person(contents(root, "dev"))["ada"] == {"age": 36, "rank": 4, "score": None, "town": None}


LATER_DEFAULT = BASE.replace("note: String?", 'note: String?  p: String? @default("x")')


@pytest.mark.parametrize("into", [MAIN, "dev"])
def test_later_default_changes_no_row(root: Location, into: str) -> None:
    """The rows of one side have no value in its new property, whatever its current default."""
    evolve(root, LATER_DEFAULT.replace(' @default("x")', ""))
    evolve(root, LATER_DEFAULT)
    omnigraph.open(root.uri, "dev").mutate(UPDATE_BOB)
    omnigraph.open(root.uri, into).merge("dev" if into == MAIN else MAIN)
    expected = {"ada": {**ADA, "p": None}, "bob": {"age": 8, "note": None, "p": None}}
    assert person(contents(root, into)) == expected
