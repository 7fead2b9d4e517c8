"""Writes, deaths, recoveries, compactions, held snapshots and time travel in any order, compared with a model.

The model has the contents of every commit of every branch. The durable call at which a writer dies decides the outcome
of its write: if every table has moved, it is rolled forward; otherwise it is rolled back.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omnigraph.base.ids import CommitId
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.crash.observe import find_leftovers
from tests.graph.writers import (
    COMPANY,
    KNOWS,
    PERSON,
    TABLES,
    Change,
    Contents,
    apply,
    create,
    run,
    run_compaction,
    snapshot_contents,
)

DEV = "dev"
EFFECTS_MAX = 26
NAMES = st.sampled_from([f"n{number}" for number in range(8)])
# Most deaths are between Arm and Release, where an error has the worst effect.
DEATHS = st.one_of(st.just(0), st.integers(7, 14), st.integers(1, EFFECTS_MAX))


@dataclass(slots=True)
class ModelBranch:
    """The contents that readers see now, and after the recovery of a pending write."""

    visible: Contents
    pending: Contents | None = None
    commits: dict[CommitId, Contents] = field(default_factory=dict)

    def apply_pending(self) -> None:
        if self.pending is not None:
            self.visible, self.pending = self.pending, None


class WritePath(RuleBasedStateMachine):
    """A graph and its model."""

    folder: str
    location: Location
    with_branches = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = PatientClock()
        self.environment = short_lease_environment(self.clock)
        self.branches: dict[str, ModelBranch] = {}
        self.held: list[tuple[Snapshot, Contents]] = []

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="omnigraph-machine-")
        self.location = parse_location(f"{self.folder}/g.omni")
        create(self.location)
        self.branches[MAIN] = ModelBranch({alias: {} for alias in TABLES})
        self.remember_commit(MAIN)

    @rule(branch=st.sampled_from([MAIN, DEV]), names=st.sets(NAMES, min_size=1, max_size=3), death=DEATHS)
    def append(self, branch: str, names: set[str], death: int) -> None:
        """Insert new ids into every table, so that their counts are equal unless a row is lost."""
        model = self.model(branch)
        base = model.visible if model.pending is None else model.pending
        fresh = tuple(sorted(name for name in names if all(name not in base[alias] for alias in TABLES)))
        if fresh:
            self.write(branch, [Change(alias, insert=fresh) for alias in TABLES], death)

    @rule(
        branch=st.sampled_from([MAIN, DEV]),
        values=st.dictionaries(NAMES, st.integers(0, 99), min_size=1, max_size=3),
        death=DEATHS,
    )
    def upsert(self, branch: str, values: dict[str, int], death: int) -> None:
        rows = tuple(sorted(values.items()))
        self.write(branch, [Change(PERSON, upsert=rows), Change(KNOWS, upsert=rows)], death)

    @rule(branch=st.sampled_from([MAIN, DEV]), name=NAMES, death=DEATHS)
    def delete(self, branch: str, name: str, death: int) -> None:
        model = self.model(branch)
        base = model.visible if model.pending is None else model.pending
        # The rows of a pending write do not exist yet when the delete is staged.
        tables = [alias for alias in (PERSON, COMPANY) if name in base[alias] and name in model.visible[alias]]
        if tables:
            self.write(branch, [Change(alias, delete=(name,)) for alias in tables], death)

    @rule(death=DEATHS)
    def compact(self, death: int) -> None:
        model = self.branches[MAIN]
        victim = Victim(death)
        has_survived = victim.run(lambda: run_compaction(self.location, TABLES, self.environment))
        if has_survived or victim.published_before_arming:
            model.apply_pending()
        self.remember_commit(MAIN)

    @rule(branch=st.sampled_from([MAIN, DEV]), death=DEATHS)
    def recover(self, branch: str, death: int) -> None:
        """Wait until the lease of the dead writer is over, then recover by an open."""
        model = self.model(branch)
        name = branch if branch in self.branches else MAIN
        branch_id = read_snapshot(self.location, name).branch.id
        acquire_lease(ObjectStore(self.location), branch_id, "waiting", self.environment.terms).release()
        victim = Victim(death)
        has_survived = victim.run(lambda: recover_on_open(self.location, name, self.environment))
        if has_survived or victim.published_before_arming:
            model.apply_pending()
        self.remember_commit(name)

    @rule(branch=st.sampled_from([MAIN, DEV]))
    def hold(self, branch: str) -> None:
        name = branch if branch in self.branches else MAIN
        self.held.append((read_snapshot(self.location, name), self.branches[name].visible))

    @precondition(lambda self: self.with_branches and DEV not in self.branches)
    @rule()
    def branch(self) -> None:
        main = self.branches[MAIN]
        create_branch(self.location, DEV, "tester", read_snapshot(self.location), self.environment)
        self.branches[DEV] = ModelBranch(main.visible, None, dict(main.commits))

    @invariant()
    def readers_see_whole_commits(self) -> None:
        for name, model in self.branches.items():
            assert snapshot_contents(read_snapshot(self.location, name)) == model.visible

    def teardown(self) -> None:
        if not self.branches:
            return
        try:
            self.check_everything()
        finally:
            shutil.rmtree(self.folder)

    def check_everything(self) -> None:
        """Check that held snapshots and all commits are unchanged, and that every branch can be written."""
        for snapshot, contents in self.held:
            assert snapshot_contents(snapshot) == contents
        for name, model in self.branches.items():
            self.write(name, [Change(PERSON, upsert=(("last", 1),))], 0)
            for commit, contents in model.commits.items():
                snapshot, _ = read_commit_snapshot(self.location, commit, name)
                assert snapshot_contents(snapshot) == contents
            newest = read_snapshot(self.location, name)
            lineage = make_lineage(newest.head, newest.manifest.read_commits())
            assert set(model.commits) <= {commit.id for commit in lineage.history()}
        assert find_leftovers(self.location, self.environment) == []

    def write(self, branch: str, changes: list[Change], death: int) -> None:
        name = branch if branch in self.branches else MAIN
        model = self.branches[name]
        nothing_to_recover = not ObjectStore(self.location).list(RECOVERY)
        victim = Victim(death)
        has_survived = victim.run(lambda: run(self.location, changes, branch=name, environment=self.environment))
        assert not (nothing_to_recover and victim.moved_before_arming), "a head moved before the intent was written"
        if has_survived or victim.published_before_arming:
            model.apply_pending()
        if victim.tables_committed:
            model.apply_pending()
        after = apply(model.visible, changes)
        if has_survived or victim.published:
            model.visible = after
        elif victim.tables_committed == len(changes):
            model.pending = after
        self.remember_commit(name)

    def model(self, branch: str) -> ModelBranch:
        return self.branches.get(branch, self.branches[MAIN])

    def remember_commit(self, name: str) -> None:
        """Remember the contents of the newest commit, for time travel."""
        head = read_snapshot(self.location, name).head
        self.branches[name].commits.setdefault(head, self.branches[name].visible)


class BranchingWritePath(WritePath):
    """`WritePath` with a second branch, whose tables are forked by its first write."""

    with_branches = True


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


TestWritePath: Any = WritePath.TestCase
TestWritePath.settings = _settings(25, 5)
TestBranchingWritePath: Any = BranchingWritePath.TestCase
TestBranchingWritePath.settings = _settings(15, 6)


TestLongWritePath: Any = pytest.mark.soak(type("TestLongWritePath", (BranchingWritePath.TestCase,), {}))
TestLongWritePath.settings = _settings(1_500, 25)
