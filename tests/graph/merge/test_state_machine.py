"""Branches, writes, schema changes, merges with and without choices, reverts, optimize, cleanup, crashes in any order.

The model keeps whole graphs as dicts. After a crash the write is recovered, as the next process does, and is then
applied or not. States that cleanup deleted cannot be read, but every branch can still be merged.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
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

from omnigraph.api.graph import Graph
from omnigraph.base.errors import NotFoundError, RefusedError, UsageError
from omnigraph.base.ids import CommitId
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.diff import SchemaDiffError, diff_snapshots
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.merge.request import make_resolution
from omnigraph.graph.merge.run import MergeOutcome, MergeRequest, merge_branch, revert_commit
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.conftest import S3Server
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.merge.model import ConflictSet, History, ModelCommit, conflict_set
from tests.graph.merge.schemas import (
    DIVERGED,
    FACTS,
    FIRST,
    apply_graph,
    entity_value,
    expected_changes,
    merge_graphs,
    next_facts,
    own_types,
    read_graph,
    reported_conflicts,
    schema_text,
    with_facts,
)
from tests.graph.writers import COMPANY, KNOWS, PERSON, Change, Contents, create, run
from tests.maintenance.cleaning import Place, TomorrowClock
from tests.pipeline.in_place import in_place

BRANCHES = ("x", "y")
NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.integers(0, 2)
ANY_BRANCH = st.sampled_from((MAIN, *BRANCHES))
SCHEMA_CHANGES = st.sampled_from(
    ["property", "default", "later default", "require", "require", "relax", "type", "rename"]
)
DEATHS = st.one_of(st.just(0), st.just(0), st.integers(1, 26))
"""The durable call at which the writer stops; 0: it does not stop."""


class MergeMachine(RuleBasedStateMachine):
    """One graph with up to three branches. The model keeps the whole content of every commit."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.location = self.make_location()
        self.environment = short_lease_environment(PatientClock())
        self.history = History(merge=merge_graphs)
        self.names = 0  # the last number in a name of a schema change
        self.heads: dict[str, str] = {}
        self.old: set[str] = set()  # commits that a cleanup may have deleted

    def make_location(self) -> Location:
        return parse_location(f"{self.folder}/graph.omni")

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize()
    def start(self) -> None:
        create(self.location)
        run(self.location, [Change(PERSON, upsert=(("a", 0), ("b", 0))), Change(KNOWS, upsert=(("a", 0),))])
        self.record(MAIN, self.read(MAIN, FIRST))
        create_branch(self.location, "x", "tester", read_snapshot(self.location))
        self.heads["x"] = self.heads[MAIN]

    def near(self, branch: str) -> str:
        """Return the branch, or main if it does not exist."""
        return branch if branch in self.heads else MAIN

    def read(self, branch: str, facts: Mapping[str, Any]) -> Contents:
        return read_graph(read_snapshot(self.location, branch), facts)

    def record(self, branch: str, state: Contents, *parents: str) -> None:
        head = read_snapshot(self.location, branch).head
        self.history.commits[head] = ModelCommit(parents, state)
        self.heads[branch] = head

    def state(self, branch: str) -> Contents:
        return self.history.commits[self.heads[branch]].state

    def attempt(self, branch: str, act: Callable[[], object], death: int, expected: ModelCommit) -> None:
        """Run something that may crash, and find out whether it was applied."""
        if not Victim(death).run(act):
            self.recover(branch)
        snapshot = read_snapshot(self.location, branch)
        if snapshot.head == self.heads[branch]:
            return
        made = snapshot.manifest.find_commit(snapshot.head)
        assert made is not None
        if made.actor == "tester":
            self.record(branch, expected.state, *expected.parents)
        else:  # a recovery or an optimize, which change no content
            self.record(branch, self.state(branch), self.heads[branch])

    def recover(self, branch: str) -> None:
        """Wait until the leases of the dead writer expire; then an open recovers."""
        store = ObjectStore(self.location)
        for lease in (None, read_snapshot(self.location, branch).branch.id):
            acquire_lease(store, lease, "waiting", self.environment.terms).release()
        recover_on_open(self.location, branch, self.environment)

    def write(self, branch: str, *changes: Change, death: int = 0) -> None:
        expected = ModelCommit((self.heads[branch],), apply_graph(self.state(branch), changes))
        act = lambda: run(self.location, changes, branch=branch, environment=self.environment)  # noqa: E731
        self.attempt(branch, act, death, expected)

    @rule(branch=ANY_BRANCH, name=NAMES, value=VALUES, death=DEATHS)
    def upsert_node(self, branch: str, name: str, value: int, death: int) -> None:
        self.write(self.near(branch), Change(PERSON, upsert=((name, value),)), death=death)

    @rule(branch=ANY_BRANCH, name=NAMES, value=VALUES)
    def upsert_edge(self, branch: str, name: str, value: int) -> None:
        branch = self.near(branch)
        if name in self.state(branch)[PERSON]:
            self.write(branch, Change(KNOWS, upsert=((name, value),)))

    @rule(branch=ANY_BRANCH, name=NAMES)
    def delete_node(self, branch: str, name: str) -> None:
        branch = self.near(branch)
        if name in self.state(branch)[PERSON]:
            edges = [Change(KNOWS, delete=(name,))] if name in self.state(branch)[KNOWS] else []
            self.write(branch, Change(PERSON, delete=(name,)), *edges)

    @rule(branch=ANY_BRANCH, name=NAMES)
    def delete_edge(self, branch: str, name: str) -> None:
        branch = self.near(branch)
        if name in self.state(branch)[KNOWS]:
            self.write(branch, Change(KNOWS, delete=(name,)))

    @rule(branch=ANY_BRANCH, name=NAMES, which=st.integers(0, 3))
    def insert_elsewhere(self, branch: str, name: str, which: int) -> None:
        branch = self.near(branch)
        tables = [COMPANY, *own_types(self.state(branch))]
        table = tables[which % len(tables)]
        if name not in self.state(branch)[table]:
            self.write(branch, Change(table, insert=(name,)))

    @rule(branch=ANY_BRANCH, kind=SCHEMA_CHANGES, death=DEATHS)
    def change_schema(self, branch: str, kind: str, death: int) -> None:
        branch = self.near(branch)
        self.names += 1
        state = self.state(branch)
        facts = next_facts(state[FACTS], kind, self.names)
        request = SchemaRequest(source=schema_text(facts, state[FACTS]), actor="tester")
        act = lambda: apply_schema(self.location, branch, request, in_place, self.environment)  # noqa: E731
        self.attempt(branch, act, death, ModelCommit((self.heads[branch],), with_facts(state, facts)))

    @rule(name=st.sampled_from(BRANCHES), source=ANY_BRANCH, death=DEATHS)
    def branch(self, name: str, source: str, death: int) -> None:
        if name not in self.heads:
            source = self.near(source)
            start = read_snapshot(self.location, source)
            survived = Victim(death).run(lambda: create_branch(self.location, name, "tester", start, self.environment))
            assert not survived or name in self.live()
            if name in self.live():
                self.heads[name] = self.heads[source]

    def live(self) -> set[str]:
        return set(read_snapshot(self.location).state.branches)

    @rule(source=ANY_BRANCH, into=ANY_BRANCH, side=st.sampled_from([None, None, "ours", "theirs"]), death=DEATHS)
    def merge(self, source: str, into: str, side: str | None, death: int) -> None:
        source, into = self.near(source), self.near(into)
        ours, theirs = self.heads[into], self.heads[source]
        request = MergeRequest(source=source, actor="tester", target=into, resolution=make_resolution(side, None))
        if source == into:
            with pytest.raises(UsageError, match="into itself"):
                merge_branch(self.location, request, self.environment)
            return
        if theirs in self.history.ancestors(ours):
            done = merge_branch(self.location, request, self.environment)
            assert done.outcome is MergeOutcome.ALREADY_UP_TO_DATE
            return
        base = self.history.base({ours}, {theirs})
        expected, conflicts = merge_graphs(base, self.state(into), self.state(source))
        conflicts = reported_conflicts(conflicts)
        if conflicts and (side is None or conflicts == DIVERGED):
            with pytest.raises(MergeConflictError) as caught:
                merge_branch(self.location, request, self.environment)
            assert conflict_set(caught.value.conflicts) == conflicts
            return
        if death and not conflicts:
            act = lambda: merge_branch(self.location, request, self.environment)  # noqa: E731
            self.attempt(into, act, death, ModelCommit((ours, theirs), expected))
            return
        done = merge_branch(self.location, request, self.environment)
        if conflicts:
            expected = self.read(into, expected[FACTS])
            chosen = self.state(source if side == "theirs" else into)
            self.check_choice(expected, conflicts, with_facts(chosen, expected[FACTS]))
        is_forward = ours in self.history.ancestors(theirs)
        if done.commit is None:
            assert (done.outcome, is_forward) == (MergeOutcome.ALREADY_UP_TO_DATE, True)
            assert expected == self.state(into)
            return
        assert done.outcome is (MergeOutcome.FAST_FORWARD if is_forward else MergeOutcome.MERGED)
        self.record(into, expected, ours, theirs)

    @rule(kinds=st.lists(SCHEMA_CHANGES, min_size=1, max_size=2), name=NAMES, into_main=st.booleans(), death=DEATHS)
    def diverge_and_merge(self, kinds: list[str], name: str, into_main: bool, death: int) -> None:
        """Run a rare sequence: one side or both change the schema, one writes, and they are merged."""
        other = next((branch for branch in self.heads if branch != MAIN), MAIN)
        for branch, kind in zip((other, MAIN), kinds, strict=False):
            self.change_schema(branch, kind, 0)
        self.upsert_node(other, name, len(kinds), 0)
        self.merge(*((other, MAIN) if into_main else (MAIN, other)), None, death)

    def check_choice(self, merged: Contents, conflicts: ConflictSet, side: Contents) -> None:
        for _, table, name in conflicts:
            assert merged[table].get(name, "absent") == side[table].get(name, "absent")
        assert merged[KNOWS].keys() <= merged[PERSON].keys()

    def check_deleted(self, error: NotFoundError, *commits: str) -> None:
        assert error.code == "snapshot_collected"
        assert self.old & set(commits)

    @rule(branch=ANY_BRANCH, which=st.integers(0, 20), death=DEATHS)
    def revert(self, branch: str, which: int, death: int) -> None:
        branch = self.near(branch)
        line = sorted(self.history.ancestors(self.heads[branch]))
        commit = line[which % len(line)]
        parents = self.history.commits[commit].parents
        if not parents:
            return
        before = self.history.commits[parents[0]].state
        state = self.history.commits[commit].state
        expected, conflicts = merge_graphs(state, self.state(branch), before)
        conflicts = reported_conflicts(conflicts) if before[FACTS] == state[FACTS] else DIVERGED
        request = MergeRequest(source=CommitId(commit), actor="tester", target=branch)
        try:
            revert_commit(self.location, replace(request, dry_run=True))
        except NotFoundError as error:
            self.check_deleted(error, commit, parents[0])
            return
        if conflicts:
            with pytest.raises(MergeConflictError) as caught:
                revert_commit(self.location, request, self.environment)
            assert conflict_set(caught.value.conflicts) == conflicts
            return
        before_it = self.heads[branch]
        act = lambda: revert_commit(self.location, request, self.environment)  # noqa: E731
        self.attempt(branch, act, death, ModelCommit((before_it,), expected))
        assert death or self.heads[branch] != before_it or expected == self.state(branch)

    @rule(left=ANY_BRANCH, right=ANY_BRANCH, left_index=st.integers(0, 20), right_index=st.integers(0, 20))
    def compare(self, left: str, right: str, left_index: int, right_index: int) -> None:
        sides = []
        for branch, which in ((self.near(left), left_index), (self.near(right), right_index)):
            line = sorted(self.history.ancestors(self.heads[branch]))
            commit = line[which % len(line)]
            try:
                snapshot = read_commit_snapshot(self.location, CommitId(commit), branch)[0]
            except NotFoundError as error:
                self.check_deleted(error, commit)
                return
            sides.append((self.history.commits[commit].state, snapshot))
        (before, first), (after, second) = sides
        expected = expected_changes(before, after)
        if expected is None:
            with pytest.raises(SchemaDiffError):
                list(diff_snapshots(first, second))
            return
        changes = {
            (change.table, change.id): (
                change.kind.value,
                *(_value(change.table, image, after[FACTS]) for image in (change.before, change.after)),
            )
            for change in diff_snapshots(first, second)
        }
        assert changes == expected

    @rule(branch=ANY_BRANCH, death=DEATHS)
    def optimize(self, branch: str, death: int) -> None:
        branch = self.near(branch)
        same = ModelCommit((self.heads[branch],), self.state(branch))
        options = OptimizeOptions(tables=frozenset({PERSON, KNOWS}), environment=self.environment)
        graph = Graph(self.location, branch=branch)
        self.attempt(branch, lambda: optimize_all_tables(graph, options, in_place), death, same)

    @rule(keep=st.sampled_from([1, 1, 3]), death=st.one_of(st.just(0), st.integers(1, 40)))
    def cleanup(self, keep: int, death: int) -> None:
        """Clean up with a clock at which everything is old."""
        environment = replace(self.environment, clock=TomorrowClock())
        options = CleanupPolicyOptions(keep_versions=keep, confirm=True)
        self.old |= self.history.commits.keys() - set(self.heads.values())
        if not Victim(death).run(lambda: cleanup_all_tables(Place(self.location), options, environment=environment)):
            for branch in self.heads:
                self.recover(branch)

    @precondition(lambda self: len(self.heads) > 1)
    @rule(name=st.sampled_from(BRANCHES), death=DEATHS)
    def delete(self, name: str, death: int) -> None:
        if name in self.heads:
            try:
                survived = Victim(death).run(lambda: delete_branch(self.location, name, self.environment))
            except RefusedError:
                return
            assert not survived or name not in self.live()
            if name not in self.live():
                del self.heads[name]

    @invariant()
    def every_branch_equals_the_model(self) -> None:
        for branch, head in self.heads.items():
            assert read_snapshot(self.location, branch).head == head
            assert self.read(branch, self.state(branch)[FACTS]) == self.state(branch), branch

    @invariant()
    def main_has_no_fork(self) -> None:
        if MAIN in self.heads:
            tables = read_snapshot(self.location).tables.values()
            assert {table.pin.branch for table in tables} == {None}


def _value(table: str, image: dict[str, Any] | None, facts: Mapping[str, Any]) -> Any:
    """Return the value of a row in the model."""
    return "absent" if image is None else entity_value(table, {**image, **image["data"]}, facts)


def _check(machine: type[Any], examples: int, steps: int) -> None:
    options = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=options)


def test_random_order_of_operations() -> None:
    _check(MergeMachine, 10, 12)


@pytest.mark.soak
def test_random_order_of_operations_at_length() -> None:
    _check(MergeMachine, 300, 40)


@pytest.mark.soak
def test_random_order_of_operations_on_s3(s3_server: S3Server) -> None:
    class OnS3(MergeMachine):
        def make_location(self) -> Location:
            return s3_server.location(f"{uuid.uuid4().hex}/graph.omni")

    _check(OnS3, 12, 14)
