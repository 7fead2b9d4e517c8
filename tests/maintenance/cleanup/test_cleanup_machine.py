"""Any order of writes, branches, drops, crashes, cleanups and time: retained snapshots keep their contents.

Each snapshot is recorded when it appears. After every step each existing manifest version is opened and compared. A
cleanup that finished deleted exactly the files of its preview; one that crashed deleted nothing else. In the end, when
everything is old and nothing is kept, only needed files are on disk.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from omnigraph.base.errors import RefusedError
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.records import TombstoneRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.location import parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import Victim
from tests.graph.writers import (
    COMPANY,
    KNOWS,
    PERSON,
    TABLES,
    Change,
    Contents,
    create,
    read_contents,
    run,
    run_compaction,
)
from tests.maintenance.cleaning import DAY, MINUTE, Aging, Place, errors_of, every_snapshot, files_of
from tests.maintenance.reachable import unneeded

NAMES = st.sampled_from([f"n{number}" for number in range(6)])
BRANCHES = st.sampled_from([MAIN, MAIN, "dev", "exp"])
DEATHS = st.one_of(st.just(0), st.just(0), st.integers(1, 24))
POLICIES = st.builds(
    CleanupPolicyOptions, st.sampled_from([1, 2, 4]), st.sampled_from([None, timedelta(0), timedelta(days=2)])
)


class Cleanups(RuleBasedStateMachine):
    """A graph, and every snapshot that it ever had."""

    folder: str
    aging: Aging

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[str, int], Contents] = {}
        self.heads: dict[str, Contents] = {}

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="omnigraph-cleanups-")
        self.aging = Aging(parse_location(f"{self.folder}/g.omni"))
        create(self.aging.location)
        self.note()

    @rule(branch=BRANCHES, values=st.dictionaries(NAMES, st.integers(0, 9), min_size=1), death=DEATHS)
    def upsert(self, branch: str, values: dict[str, int], death: int) -> None:
        rows = tuple(sorted(values.items()))
        self.write(branch, [Change(PERSON, upsert=rows), Change(KNOWS, upsert=rows[:1])], death)

    @rule(branch=BRANCHES, name=NAMES, death=DEATHS)
    def delete(self, branch: str, name: str, death: int) -> None:
        if name in self.heads.get(branch, {}).get(PERSON, {}) and not self.has_pending_intent():
            self.write(branch, [Change(PERSON, delete=(name,))], death)

    @rule(death=DEATHS)
    def compact(self, death: int) -> None:
        live = [alias for alias in TABLES if alias in self.heads[MAIN]]
        Victim(death).run(lambda: run_compaction(self.aging.location, live, self.aging.environment))
        self.note()

    @rule(name=st.sampled_from(["dev", "exp"]), source=BRANCHES, death=DEATHS)
    def branch(self, name: str, source: str, death: int) -> None:
        if name not in self.heads and source in self.heads:
            start = read_snapshot(self.aging.location, source)
            Victim(death).run(lambda: create_branch(self.aging.location, name, "tester", start, self.aging.environment))
            self.note()

    @rule(name=st.sampled_from(["dev", "exp"]), death=DEATHS)
    def unbranch(self, name: str, death: int) -> None:
        if name in self.heads:
            with suppress(RefusedError):  # another branch was created from it
                Victim(death).run(lambda: delete_branch(self.aging.location, name, self.aging.environment))
            self.note()

    @rule(branch=BRANCHES)
    def drop(self, branch: str) -> None:
        """Drop a type: its table remains on disk, but no later snapshot of the branch has it."""
        if COMPANY not in self.heads.get(branch, {}):
            return
        snapshot = read_snapshot(self.aging.location, branch)
        record = snapshot.branch
        table = snapshot.tables[COMPANY]
        target = PublishTarget(self.aging.location, record.name, record.id, record.lance_branch)
        draft = CommitDraft(
            id=CommitId(new_ulid()),
            operation=WriteOperation.SCHEMA_APPLY,
            operation_id=OperationId(new_ulid()),
            actor="tester",
            created_us=0,
        )
        stone = TombstoneRecord(table.id, table.alias, table.pin.version)
        publish(target, ManifestChange(commit=draft, tombstones=(stone,)))
        self.note()

    @rule(branch=BRANCHES)
    def recover(self, branch: str) -> None:
        if branch in self.heads:
            branch_id = read_snapshot(self.aging.location, branch).branch.id
            store = ObjectStore(self.aging.location)
            acquire_lease(store, branch_id, "waiting", self.aging.environment.terms).release()
            recover_on_open(self.aging.location, branch, self.aging.environment)
            self.note()

    @rule(seconds=st.sampled_from([MINUTE, 11 * MINUTE, DAY, 3.1 * DAY]))
    def later(self, seconds: float) -> None:
        self.aging.later(seconds)

    @rule(options=POLICIES, death=st.one_of(st.just(0), st.integers(1, 60)))
    def cleanup(self, options: CleanupPolicyOptions, death: int) -> None:
        self.aging.later(0)
        confirmed = replace(options, confirm=True)
        place, environment = Place(self.aging.location), self.aging.environment
        before = self.aging.files()
        if self.has_pending_intent():
            with pytest.raises(RefusedError, match="recovery"):
                Victim(0).run(lambda: cleanup_all_tables(place, confirmed, environment=environment))
            assert self.aging.files() == before
            return
        planned = self.aging.preview(options)
        survived = Victim(death).run(lambda: cleanup_all_tables(place, confirmed, environment=environment))
        assert errors_of(planned) == {}
        deleted = before - self.aging.files()
        assert deleted <= set(files_of(planned))
        assert not survived or deleted == set(files_of(planned))
        self.note()

    @invariant()
    def retained_snapshots_keep_their_contents(self) -> None:
        if self.heads:
            for key, contents in every_snapshot(self.aging.location).items():
                assert contents == self.seen[self.key(key)]

    def teardown(self) -> None:
        if not self.heads:
            return
        try:
            self.check_only_needed_files_remain()
        finally:
            shutil.rmtree(self.folder)

    def check_only_needed_files_remain(self) -> None:
        for name in self.heads:
            self.recover(name)
        expected = dict(self.heads)
        keep_one = CleanupPolicyOptions(1, timedelta(0))
        for _ in range(2):  # the fence of the first cleanup is a version that the second one deletes
            self.aging.later(30 * DAY)
            self.cleanup(keep_one, 0)
        assert files_of(self.aging.preview(keep_one)) == []
        assert unneeded(self.aging.location) == []
        assert {name: read_contents(self.aging.location, name) for name in expected} == expected
        for name in expected:
            run(
                self.aging.location,
                [Change(PERSON, upsert=(("last", 1),))],
                branch=name,
                environment=self.aging.environment,
            )

    def write(self, branch: str, changes: list[Change], death: int) -> None:
        if branch in self.heads:
            environment = self.aging.environment
            Victim(death).run(lambda: run(self.aging.location, changes, branch=branch, environment=environment))
            self.note()

    def has_pending_intent(self) -> bool:
        return bool(ObjectStore(self.aging.location).list(RECOVERY))

    def note(self) -> None:
        """Record new snapshots; recorded ones are compared after every step."""
        self.heads = {
            name: read_contents(self.aging.location, name) for name in read_snapshot(self.aging.location).state.branches
        }
        for key, contents in every_snapshot(self.aging.location).items():
            self.seen.setdefault(self.key(key), contents)

    def key(self, branch_version: tuple[str, int]) -> tuple[str, int]:
        """Return the id of the branch and the version: a branch created again with the same name is a different one."""
        name, version = branch_version
        return str(read_snapshot(self.aging.location).state.branches[name].id), version


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


TestCleanups: Any = Cleanups.TestCase
TestCleanups.settings = _settings(8, 10)
TestManyCleanups: Any = pytest.mark.soak(type("TestManyCleanups", (Cleanups.TestCase,), {}))
TestManyCleanups.settings = _settings(300, 25)
