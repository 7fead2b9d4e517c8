"""Every row of the classification table, by a foreign tool in another process, on main and on a branch, in every mode.

Contents are compared with a model before and after, and a preview changes no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from omnigraph.base.errors import RefusedError
from omnigraph.graph.check import DriftError
from omnigraph.graph.commit import World
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.repair_outcome import RepairAction, TableRepairStats
from omnigraph.storage.location import Location
from tests.graph.crash.observe import read_tree, unsteady
from tests.graph.writers import PERSON, TABLES, Rows, read_contents, run, triple
from tests.maintenance.repairing import DEV, ForeignTool, find_table, repair, seed

SUSPICIOUS, VERIFIED = Classification.SUSPICIOUS, Classification.VERIFIED_MAINTENANCE
UNVERIFIABLE = Classification.UNVERIFIABLE


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a foreign act looks like from here. `after` None: it cannot be published."""

    operations: tuple[str, ...]
    after: Callable[[Rows], Rows] | None
    classification: Classification = SUSPICIOUS
    obstacle: str = ""


def _same(rows: Rows) -> Rows:
    return rows


_MISFIT: Final = "its columns are not those of the schema: "
ACTS: Final = {
    "append": Foreign(("Append",), lambda rows: {**rows, "f1": 1, "f2": 2}),
    "delete": Foreign(("Delete",), lambda rows: {name: age for name, age in rows.items() if name != "a"}),
    "update": Foreign(("Update",), lambda rows: {**rows, "a": 99}),
    "merge_insert": Foreign(("Update",), lambda rows: {**rows, "a": 5, "f": 6}),
    "overwrite": Foreign(("Overwrite",), lambda _: {"a": 7, "z": 8}),
    "compaction": Foreign(("ReserveFragments", "Rewrite"), _same, VERIFIED),
    "index": Foreign(("CreateIndex",), _same),
    "restore": Foreign(("Restore",), lambda rows: {name: rows[name] for name in list(rows)[:-1]}),
    "update_config": Foreign(("UpdateConfig",), _same),
    "collected": Foreign(
        ("Append", "missing", "Append"), lambda rows: {**rows, "f1": 1, "f2": 2, "f3": 3}, UNVERIFIABLE
    ),
    "everything": Foreign(
        ("Append", "Delete", "Restore", "Update", "ReserveFragments", "Rewrite"),
        lambda rows: {**rows, "a": 99, "f1": 1, "f2": 2},
    ),
    "add_column": Foreign(("Merge",), None, obstacle=f"{_MISFIT}it has also extra"),
    "rename_column": Foreign(("Project",), None, obstacle=f"{_MISFIT}it lacks age; it has also years"),
    "drop_column": Foreign(("Project",), None, obstacle=f"{_MISFIT}it lacks age"),
    "cast_column": Foreign(("Merge",), None, obstacle=f"{_MISFIT}it has changed age"),
    "nullable_key": Foreign(("Project",), None, obstacle=f"{_MISFIT}it has changed slug"),
    "duplicate": Foreign(("Append",), None, obstacle="1 rows have the id of another row"),
}


@pytest.mark.parametrize("branch", [MAIN, DEV])
@pytest.mark.parametrize("name", ACTS)
def test_foreign_changes(name: str, branch: str, tool: ForeignTool, local_location: Location) -> None:
    location, act = local_location, ACTS[name]
    seed(location, *([DEV] if branch == DEV else []))
    before = read_contents(location, branch)
    beside = read_contents(location) if branch == DEV else {}
    tool.act(name, location, branch=branch)
    _look(location, branch, act, before[PERSON])
    if act.classification is VERIFIED:
        _act(location, branch, ("confirm",), RepairAction.HEALED, "omnigraph:repair")
        assert read_contents(location, branch) == before
        run(location, triple(["more"]), branch=branch)
        before = read_contents(location, branch)
        tool.act(name, location, branch=branch)
    else:
        with pytest.raises(DriftError):
            run(location, triple(["e"]), branch=branch)
        _refused(location, branch, ("confirm",), act.obstacle or "a foreign change: --force publishes it")
    _act(location, branch, ("confirm", "discard"), RepairAction.DISCARDED, "omnigraph:repair")
    assert read_contents(location, branch) == before
    tool.act(name, location, branch=branch)
    if act.after is None:
        _refused(location, branch, ("confirm", "force"), act.obstacle)
        _act(location, branch, ("confirm", "discard"), RepairAction.DISCARDED, "omnigraph:repair")
    elif act.classification is VERIFIED:
        _act(location, branch, ("confirm", "force"), RepairAction.HEALED, "omnigraph:repair")
    else:
        _act(location, branch, ("confirm", "force"), RepairAction.FORCED, "omnigraph:repair:force")
        before = {**before, PERSON: act.after(before[PERSON])}
    assert read_contents(location, branch) == before
    run(location, triple(["again"]), branch=branch)
    assert unsteady(location, World()) == []
    if branch == DEV:
        assert read_contents(location) == beside


def _look(location: Location, branch: str, act: Foreign, before: Rows) -> None:
    """A preview tells everything and changes nothing."""
    files, published = read_tree(location), find_table(location, branch=branch)
    rows = repair(location)
    assert read_tree(location) == files
    assert list(rows)[: len(TABLES)] == [(MAIN, "node:Company"), (MAIN, PERSON), (MAIN, "edge:Knows")]
    found = rows.pop((branch, PERSON))
    assert {row.action for row in rows.values()} == {RepairAction.NO_OP}
    assert {row.classification for row in rows.values()} == {Classification.NO_DRIFT}
    assert (found.classification, found.action) == (act.classification, RepairAction.PREVIEW)
    assert found.operations == act.operations
    assert found.manifest_version == published.pin.version
    assert found.lance_head_version == published.pin.version + len(act.operations)
    assert found.error == (act.obstacle or None)
    if act.after is not None:
        assert _counts(found) == _difference(before, act.after(before))


def _difference(before: Rows, after: Rows) -> tuple[int, int, int]:
    updated = [name for name in before.keys() & after.keys() if before[name] != after[name]]
    return len(after.keys() - before.keys()), len(updated), len(before.keys() - after.keys())


def _counts(row: TableRepairStats) -> tuple[int | None, int | None, int | None]:
    return row.rows_added, row.rows_updated, row.rows_deleted


def _act(location: Location, branch: str, flags: tuple[str, ...], action: RepairAction, actor: str) -> None:
    """One commit on this branch, none elsewhere, and the next look finds nothing to do."""
    heads = {name: read_snapshot(location, name).head for name in read_snapshot(location).state.branches}
    row = repair(location, *flags)[branch, PERSON]
    assert (row.action, row.error) == (action, None)
    snapshot = read_snapshot(location, branch)
    newest = next(iter(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()))
    assert (newest.id, newest.actor, newest.operation) == (row.commit, actor, "repair")
    assert newest.parent == heads[branch]
    assert len(newest.tables) == 1
    others = {name: read_snapshot(location, name).head for name in heads if name != branch}
    assert others == {name: head for name, head in heads.items() if name != branch}
    again = repair(location, *flags)
    assert {one.action for one in again.values()} == {RepairAction.NO_OP}
    assert read_snapshot(location, branch).head == newest.id
    assert unsteady(location, World()) == []


def _refused(location: Location, branch: str, flags: tuple[str, ...], why: str) -> None:
    files = read_tree(location)
    row = repair(location, *flags)[branch, PERSON]
    assert row.action is RepairAction.REFUSED
    assert row.error is not None
    assert row.error.startswith(why)
    assert read_tree(location) == files


def test_the_flags_that_do_not_go_together(local_location: Location) -> None:
    seed(local_location)
    for flags in (("force",), ("discard",)):
        with pytest.raises(RefusedError) as refused:
            repair(local_location, *flags)
        assert refused.value.code == "confirmation_missing"
