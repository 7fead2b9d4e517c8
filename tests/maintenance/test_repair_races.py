"""Repair together with running writers, killed writers, and external tools that continue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.base.errors import RefusedError
from omnigraph.base.failpoints import Failpoint, observed
from omnigraph.base.ids import new_ulid
from omnigraph.graph.branches import delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.maintenance.drift import WRITE_IN_PROGRESS, Classification
from omnigraph.maintenance.repair import BRANCH_DELETED, RepairAction, RepairOptions, repair_all_tables
from omnigraph.storage.lance.commit import commit_restore
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import find_leftovers, read_tree
from tests.graph.writers import COMPANY, KNOWS, PERSON, read_contents, run, triple
from tests.maintenance.repairing import ExternalTool, find_table, repair, seed


def once(is_trigger: Callable[[str, str], bool], act: Callable[[], None]) -> Callable[[str, str], None]:
    """Return an observer that acts immediately before the first durable call that is a trigger."""
    done: list[int] = []

    def observe(effect: str, target: str) -> None:
        if not done and is_trigger(effect, target):
            done.append(1)
            act()

    return observe


def test_running_write_is_not_drift(local_location: Location) -> None:
    seed(local_location)
    previews: list[int] = []

    def preview() -> None:
        """Three heads have moved, and the manifest has not."""
        files = read_tree(local_location)
        for flags in ((), ("confirm", "force"), ("confirm", "discard")):
            rows = repair(local_location, *flags)
            assert {row.error for row in rows.values()} == {WRITE_IN_PROGRESS}
            assert {row.action for row in rows.values()} <= {RepairAction.PREVIEW, RepairAction.REFUSED}
        assert read_tree(local_location) == files
        previews.append(1)

    with observed(once(lambda effect, target: effect == "dataset.commit" and MANIFEST in target, preview)):
        run(local_location, triple(["e"]))
    assert previews
    assert {row.action for row in repair(local_location).values()} == {RepairAction.NO_OP}


def test_a_pending_intent_belongs_to_recovery(killer: Killer) -> None:
    location = killer.prepare_graph("load")
    killer.kill("load", location, Failpoint.COMMIT_AFTER, 1)
    files = read_tree(location)
    for flags in ((), ("confirm",), ("confirm", "force"), ("confirm", "discard")):
        options: dict[str, Any] = dict.fromkeys(flags, True)
        with pytest.raises(RefusedError) as refused:
            repair_all_tables(Graph(location), RepairOptions(**options))
        assert refused.value.code == "recovery_pending"
    assert read_tree(location) == files
    omnigraph.open(location.uri)
    assert {row.action for row in repair(location).values()} == {RepairAction.NO_OP}


def test_partial_write_below_an_external_change_is_never_published(killer: Killer, tool: ExternalTool) -> None:
    location = killer.prepare_graph("load")
    before = read_contents(location)
    killer.kill("load", location, Failpoint.COMMIT_AFTER, 1)
    tool.act("append", location)
    recover_on_open(location, MAIN)
    row = repair(location, "confirm", "force")[MAIN, PERSON]
    assert (row.classification, row.action) == (Classification.SUSPICIOUS, RepairAction.REFUSED)
    assert row.error is not None
    assert row.error.endswith("was rolled back by recovery")
    assert repair(location, "confirm", "discard")[MAIN, PERSON].action is RepairAction.DISCARDED
    assert read_contents(location) == before
    run(location, triple(["again"]))
    assert find_leftovers(location, WriteEnvironment()) == []


@pytest.mark.parametrize("flags", [("confirm", "force"), ("confirm", "discard")])
@pytest.mark.parametrize("time", ["before it is read", "after the inspection"])
def test_branch_deleted_while_repair_runs_is_skipped(
    flags: tuple[str, ...], time: str, local_location: Location, tool: ExternalTool
) -> None:
    """Its row reports it, and the other branches are repaired."""
    seed(local_location, "dev", "other")
    for branch in (MAIN, "dev", "other"):
        tool.act("append", local_location, branch=branch)
    ids = {name: record.id for name, record in read_snapshot(local_location).state.branches.items()}
    busy = ids[MAIN] if time == "before it is read" else ids["dev"]

    def is_lease(effect: str, target: str) -> bool:
        return effect == "object.create" and busy in target

    def delete_dev() -> None:
        delete_branch(local_location, "dev")

    with observed(once(is_lease, delete_dev)):
        rows = repair(local_location, *flags)
    done = RepairAction.FORCED if "force" in flags else RepairAction.DISCARDED
    assert {rows[branch, PERSON].action for branch in (MAIN, "other")} == {done}
    of_dev = {table: row for (branch, table), row in rows.items() if branch == "dev"}
    assert of_dev.keys() == {MANIFEST}
    assert (of_dev[MANIFEST].action, of_dev[MANIFEST].error) == (RepairAction.SKIPPED, BRANCH_DELETED)
    assert {row.action for row in repair(local_location).values()} == {RepairAction.NO_OP}


@pytest.mark.parametrize("flags", [("confirm", "force"), ("confirm", "discard")])
def test_head_that_moves_after_the_inspection(
    flags: tuple[str, ...], local_location: Location, tool: ExternalTool
) -> None:
    seed(local_location)
    before = read_contents(local_location)
    tool.act("append", local_location)
    with observed(once(lambda effect, _: effect == "object.create", lambda: tool.act("delete", local_location))):
        row = repair(local_location, *flags)[MAIN, PERSON]
    assert row.action is RepairAction.REFUSED
    assert row.error is not None
    assert row.error.startswith("the head of node:Person changed during the write: expected ")
    assert read_contents(local_location) == before
    row = repair(local_location)[MAIN, PERSON]
    assert (row.rows_added, row.rows_updated, row.rows_deleted) == (2, 0, 1)


def test_pin_that_moves_after_the_inspection(local_location: Location, tool: ExternalTool) -> None:
    """Of two concurrent repairs one succeeds, and the other reports the conflict."""
    seed(local_location)
    tool.act("compaction", local_location)
    with observed(
        once(lambda effect, _: effect == "object.create", lambda: _healed(repair(local_location, "confirm")))
    ):
        row = repair(local_location, "confirm")[MAIN, PERSON]
    assert row.action is RepairAction.REFUSED
    assert row.error is not None
    assert row.error.startswith("node:Person changed during the write: expected ")
    assert repair(local_location)[MAIN, PERSON].action is RepairAction.NO_OP


def _healed(rows: object) -> None:
    assert isinstance(rows, dict)
    assert rows[MAIN, PERSON].action is RepairAction.HEALED


def test_external_change_below_the_restore_is_kept(local_location: Location, tool: ExternalTool) -> None:
    seed(local_location)
    before = read_contents(local_location)
    tool.act("append", local_location)

    def is_restore(effect: str, target: str) -> bool:
        return effect == "dataset.commit" and MANIFEST not in target

    with observed(once(is_restore, lambda: tool.act("delete", local_location))):
        row = repair(local_location, "confirm", "discard")[MAIN, PERSON]
    assert row.action is RepairAction.REFUSED
    assert read_contents(local_location) == before
    row = repair(local_location)[MAIN, PERSON]
    assert (row.rows_added, row.rows_updated, row.rows_deleted) == (2, 0, 1)
    assert repair(local_location, "confirm", "discard")[MAIN, PERSON].action is RepairAction.DISCARDED
    assert read_contents(local_location) == before


def test_killed_after_the_first_of_two_discards(killer: Killer, tool: ExternalTool) -> None:
    location = killer.prepare_graph("load")
    before = read_contents(location)
    tool.act("delete", location)
    tool.act("delete", location, KNOWS)
    killer.kill("repair_discard", location, Failpoint.COMMIT_BEFORE, 2)
    recover_on_open(location, MAIN)
    assert read_contents(location) == before
    left = [row for row in repair(location).values() if row.action is RepairAction.PREVIEW]
    assert [(row.table_key, row.rows_deleted) for row in left] == [(KNOWS, 1)]
    assert repair(location, "confirm", "discard")[MAIN, KNOWS].action is RepairAction.DISCARDED
    assert read_contents(location) == before
    run(location, triple(["again"]))


def test_fence_does_not_make_maintenance_suspicious(killer: Killer, tool: ExternalTool) -> None:
    location = killer.prepare_graph("load")
    tool.act("compaction", location)
    killer.kill("repair_discard", location, Failpoint.ARM_AFTER)
    recover_on_open(location, MAIN)
    row = repair(location, "confirm")[MAIN, PERSON]
    assert row.operations == ("ReserveFragments", "Rewrite", "Restore")
    assert (row.classification, row.action) == (Classification.VERIFIED_MAINTENANCE, RepairAction.HEALED)


def test_versions_that_omnigraph_left_above_the_pin_are_undone(local_location: Location) -> None:
    seed(local_location)
    before = read_contents(local_location)
    table = find_table(local_location)
    dataset = open_dataset(local_location.child(table.path))
    commit_restore(dataset, table.pin.version - 1, operation_properties(new_ulid(), new_ulid(), "load"))
    row = repair(local_location)[MAIN, PERSON]
    assert (row.classification, row.action) == (Classification.VERIFIED_MAINTENANCE, RepairAction.PREVIEW)
    row = repair(local_location, "confirm")[MAIN, PERSON]
    assert (row.action, row.error) == (RepairAction.HEALED, None)
    assert read_contents(local_location) == before
    assert find_leftovers(local_location, WriteEnvironment()) == []


def test_unreadable_table_does_not_stop_the_others(local_location: Location, tool: ExternalTool) -> None:
    seed(local_location)
    before = read_contents(local_location)
    for alias in (PERSON, KNOWS):
        tool.act("compaction", local_location, alias)
    folder = Path(local_location.uri, find_table(local_location, COMPANY).path, "_versions")
    aside = folder.rename(folder.with_name("aside"))
    rows = repair(local_location, "confirm")
    assert [rows[MAIN, alias].action for alias in (PERSON, KNOWS)] == [RepairAction.HEALED] * 2
    assert rows[MAIN, PERSON].commit == rows[MAIN, KNOWS].commit == read_snapshot(local_location).head
    broken = rows[MAIN, COMPANY]
    assert (broken.classification, broken.action) == (Classification.UNVERIFIABLE, RepairAction.REFUSED)
    assert broken.error
    assert broken.lance_head_version is None
    for flags in (("confirm", "force"), ("confirm", "discard")):
        assert repair(local_location, *flags)[MAIN, COMPANY].action is RepairAction.REFUSED
    aside.rename(folder)
    assert {row.action for row in repair(local_location, "confirm").values()} == {RepairAction.NO_OP}
    assert read_contents(local_location) == before


def test_missing_published_version_can_only_be_forced(local_location: Location, tool: ExternalTool) -> None:
    seed(local_location)
    before = read_contents(local_location)
    tool.act("append", local_location)
    tool.act("collect_all", local_location)
    row = repair(local_location)[MAIN, PERSON]
    assert (row.classification, row.rows_added) == (Classification.SUSPICIOUS, None)
    assert repair(local_location, "confirm", "discard")[MAIN, PERSON].action is RepairAction.REFUSED
    assert repair(local_location, "confirm", "force")[MAIN, PERSON].action is RepairAction.FORCED
    assert read_contents(local_location) == {**before, PERSON: {**before[PERSON], "f1": 1, "f2": 2}}


@pytest.mark.parametrize(
    ("act", "flags", "action"),
    [
        ("compaction", ("confirm",), RepairAction.HEALED),
        ("merge_insert", ("confirm", "force"), RepairAction.FORCED),
        ("overwrite", ("confirm", "discard"), RepairAction.DISCARDED),
    ],
)
def test_on_s3(
    act: str, flags: tuple[str, ...], action: RepairAction, s3_location: Location, tool: ExternalTool
) -> None:
    seed(s3_location)
    before = read_contents(s3_location)
    tool.act(act, s3_location)
    assert repair(s3_location)[MAIN, PERSON].action is RepairAction.PREVIEW
    assert repair(s3_location, *flags)[MAIN, PERSON].action is action
    changed = {"a": 5, "f": 6} if action is RepairAction.FORCED else {}
    assert read_contents(s3_location) == {**before, PERSON: {**before[PERSON], **changed}}
    run(s3_location, triple(["again"]))
