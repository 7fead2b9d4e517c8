"""Branches, writes, merges with and without choices, reverts and compactions in any order, against a model of dicts."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph.api.history import entity_changes
from omnigraph.api.merging import make_resolution
from omnigraph.base.errors import RefusedError
from omnigraph.base.ids import CommitId
from omnigraph.graph.branches import create_branch, delete_branch, source_snapshot
from omnigraph.graph.diff import diff_snapshots
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.merge.run import MergeRequest, MergeResult, RevertRequest, merge_branch, revert_commit
from omnigraph.graph.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location, parse_location
from tests.graph.merge.model import Found, History, ModelCommit, found_conflicts, merge_states
from tests.graph.writers import (
    COMPANY,
    KNOWS,
    PERSON,
    Change,
    Contents,
    apply,
    create,
    read_contents,
    run,
    run_compaction,
    snapshot_contents,
)

BRANCHES = ("x", "y")
NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.integers(0, 2)
ANY_BRANCH = st.sampled_from((MAIN, *BRANCHES))


class Merging(RuleBasedStateMachine):
    """One graph with up to three branches. The model keeps the whole content of every commit."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.location: Location = parse_location(f"{self.folder}/graph.omni")
        self.history = History()
        self.heads: dict[str, str] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize()
    def start(self) -> None:
        create(self.location)
        run(self.location, [Change(PERSON, upsert=(("a", 0), ("b", 0))), Change(KNOWS, upsert=(("a", 0),))])
        self.record(MAIN, read_contents(self.location))

    def record(self, branch: str, state: Contents, *parents: str) -> None:
        head = read_snapshot(self.location, branch).head
        self.history.commits[head] = ModelCommit(parents, state)
        self.heads[branch] = head

    def state(self, branch: str) -> Contents:
        return self.history.commits[self.heads[branch]].state

    def write(self, branch: str, *changes: Change) -> None:
        run(self.location, changes, branch=branch)
        self.record(branch, apply(self.state(branch), changes), self.heads[branch])

    @rule(branch=ANY_BRANCH, name=NAMES, value=VALUES)
    def upsert_node(self, branch: str, name: str, value: int) -> None:
        if branch in self.heads:
            self.write(branch, Change(PERSON, upsert=((name, value),)))

    @rule(branch=ANY_BRANCH, name=NAMES, value=VALUES)
    def upsert_edge(self, branch: str, name: str, value: int) -> None:
        if branch in self.heads and name in self.state(branch)[PERSON]:
            self.write(branch, Change(KNOWS, upsert=((name, value),)))

    @rule(branch=ANY_BRANCH, name=NAMES)
    def delete_node(self, branch: str, name: str) -> None:
        if branch in self.heads and name in self.state(branch)[PERSON]:
            edges = [Change(KNOWS, delete=(name,))] if name in self.state(branch)[KNOWS] else []
            self.write(branch, Change(PERSON, delete=(name,)), *edges)

    @rule(branch=ANY_BRANCH, name=NAMES)
    def delete_edge(self, branch: str, name: str) -> None:
        if branch in self.heads and name in self.state(branch)[KNOWS]:
            self.write(branch, Change(KNOWS, delete=(name,)))

    @rule(branch=ANY_BRANCH, name=NAMES)
    def insert_elsewhere(self, branch: str, name: str) -> None:
        if branch in self.heads and name not in self.state(branch)[COMPANY]:
            self.write(branch, Change(COMPANY, insert=(name,)))

    @rule(name=st.sampled_from(BRANCHES), source=ANY_BRANCH)
    def branch(self, name: str, source: str) -> None:
        if name not in self.heads and source in self.heads:
            create_branch(self.location, name, "tester", source_snapshot(self.location, source))
            self.heads[name] = self.heads[source]

    @rule(source=ANY_BRANCH, into=ANY_BRANCH, side=st.sampled_from([None, None, "ours", "theirs"]))
    def merge(self, source: str, into: str, side: str | None) -> None:
        if source not in self.heads or into not in self.heads:
            return
        ours, theirs = self.heads[into], self.heads[source]
        request = MergeRequest(source, "tester", into, make_resolution(side, None))
        if theirs in self.history.ancestors(ours):
            assert merge_branch(self.location, request).result is MergeResult.ALREADY_UP_TO_DATE
            return
        base = self.history.base({ours}, {theirs})
        wanted, conflicts = merge_states(base, self.state(into), self.state(source))
        if conflicts and side is None:
            with pytest.raises(MergeConflictError) as refused:
                merge_branch(self.location, request)
            assert found_conflicts(refused.value.conflicts) == conflicts
            return
        done = merge_branch(self.location, request)
        if conflicts:
            wanted = read_contents(self.location, into)
            self.check_choice(wanted, conflicts, self.state(source if side == "theirs" else into))
        is_forward = ours in self.history.ancestors(theirs)
        if done.commit is None:
            assert (done.result, is_forward) == (MergeResult.ALREADY_UP_TO_DATE, True)
            assert wanted == self.state(into)
            return
        assert done.result is (MergeResult.FAST_FORWARD if is_forward else MergeResult.MERGED)
        self.record(into, wanted, ours, theirs)

    def check_choice(self, merged: Contents, conflicts: Found, side: Contents) -> None:
        for _, table, name in conflicts:
            assert merged[table].get(name, "absent") == side[table].get(name, "absent")
        assert merged[KNOWS].keys() <= merged[PERSON].keys()

    @rule(branch=ANY_BRANCH, which=st.integers(0, 20))
    def revert(self, branch: str, which: int) -> None:
        if branch not in self.heads:
            return
        line = sorted(self.history.ancestors(self.heads[branch]))
        undone = line[which % len(line)]
        parents = self.history.commits[undone].parents
        if not parents:
            return
        before = self.history.commits[parents[0]].state
        wanted, conflicts = merge_states(self.history.commits[undone].state, self.state(branch), before)
        request = RevertRequest(CommitId(undone), "tester", branch)
        if conflicts:
            with pytest.raises(MergeConflictError) as refused:
                revert_commit(self.location, request)
            assert found_conflicts(refused.value.conflicts) == conflicts
            return
        if revert_commit(self.location, request).commit is None:
            assert wanted == self.state(branch)
        else:
            self.record(branch, wanted, self.heads[branch])

    @rule(left=ANY_BRANCH, right=ANY_BRANCH, one=st.integers(0, 20), two=st.integers(0, 20))
    def compare(self, left: str, right: str, one: int, two: int) -> None:
        if left not in self.heads or right not in self.heads:
            return
        sides = []
        for branch, which in ((left, one), (right, two)):
            line = sorted(self.history.ancestors(self.heads[branch]))
            commit = line[which % len(line)]
            snapshot = read_commit_snapshot(self.location, CommitId(commit), branch)[0]
            sides.append((self.history.commits[commit].state, snapshot))
        (before, first), (after, second) = sides
        found = {
            (change.table, change.id): (change.kind.value, _value(change.before), _value(change.after))
            for change in entity_changes(diff_snapshots(first, second))
        }
        wanted = {}
        for table in before:
            for name in before[table].keys() | after[table].keys():
                old, new = (side[table].get(name, "absent") for side in (before, after))
                if old != new:
                    kind = {old: "inserted", new: "deleted"}.get("absent", "updated")
                    wanted[table, name] = (kind, old, new)
        assert found == wanted

    @rule()
    def compact(self) -> None:
        run_compaction(self.location, [PERSON, KNOWS])
        self.record(MAIN, self.state(MAIN), self.heads[MAIN])

    @precondition(lambda self: len(self.heads) > 1)
    @rule(name=st.sampled_from(BRANCHES))
    def delete(self, name: str) -> None:
        if name in self.heads:
            try:
                delete_branch(self.location, name)
            except RefusedError:
                return
            del self.heads[name]

    @invariant()
    def every_branch_is_as_the_model_has_it(self) -> None:
        for branch, head in self.heads.items():
            assert read_snapshot(self.location, branch).head == head
            assert read_contents(self.location, branch) == self.state(branch), branch

    @invariant()
    def main_never_points_at_a_fork(self) -> None:
        if MAIN in self.heads:
            tables = read_snapshot(self.location).tables.values()
            assert {table.pin.branch for table in tables} == {None}


def _value(image: dict[str, Any] | None) -> Any:
    """The one changing value of an image, as the model has it."""
    if image is None:
        return "absent"
    data = image["data"]
    return data.get("age", data.get("since"))


def _check(machine: type[Any], examples: int, steps: int) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


def test_any_order_of_branches_writes_merges_and_reverts() -> None:
    _check(Merging, 12, 14)


@pytest.mark.soak
def test_many_more_orders() -> None:
    _check(Merging, 300, 40)


def test_criss_cross(local_location: Location) -> None:
    """Two bases, each with the newer half: neither alone would do."""
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 0), ("b", 0)))])
    create_branch(local_location, "x", "tester", source_snapshot(local_location))
    run(local_location, [Change(PERSON, upsert=(("a", 1),))])
    run(local_location, [Change(PERSON, upsert=(("b", 1),))], branch="x")
    main, x = read_snapshot(local_location).head, read_snapshot(local_location, "x").head
    merge_branch(local_location, MergeRequest(x, "tester"))
    merge_branch(local_location, MergeRequest(main, "tester", "x"))
    run(local_location, [Change(PERSON, upsert=(("b", 2),))])
    run(local_location, [Change(PERSON, upsert=(("a", 2),))], branch="x")
    merge_branch(local_location, MergeRequest("x", "tester"))
    assert read_contents(local_location)[PERSON] == {"a": 2, "b": 2}
    old = read_commit_snapshot(local_location, x)[0]
    assert snapshot_contents(old)[PERSON] == {"a": 0, "b": 1}
