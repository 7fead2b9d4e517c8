"""Every classification, by changes of an external tool in another process, on main and on a branch, in every mode.

Contents are compared with a model before and after. A preview changes no file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lance
import pytest

from omnigraph.api.graph import Graph, init
from omnigraph.base.errors import NotFoundError, RefusedError, StorageError, UsageError
from omnigraph.base.failpoints import observed
from omnigraph.cli.hints import render_hint
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.check import DriftError
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.maintenance.repair import RepairAction, TableRepairStats
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.durability import IncompleteFileError
from omnigraph.storage.lance.indexes import Indexed
from omnigraph.storage.location import Location, parse_location
from tests.graph.crash.observe import find_leftovers, read_tree
from tests.graph.writers import PERSON, TABLES, Rows, read_contents, run, triple
from tests.maintenance.graphs import in_place
from tests.maintenance.repairing import DEV, ExternalTool, find_table, repair, seed
from tests.pipeline.in_place import load_here

SUSPICIOUS, VERIFIED = Classification.SUSPICIOUS, Classification.VERIFIED_MAINTENANCE
UNVERIFIABLE = Classification.UNVERIFIABLE


@dataclass(frozen=True, slots=True)
class ExternalChange:
    """What repair reports about an external change. `after` None: it cannot be published."""

    operations: tuple[str, ...]
    after: Callable[[Rows], Rows] | None
    classification: Classification = SUSPICIOUS
    obstacle: str = ""


def _same(rows: Rows) -> Rows:
    return rows


_MISFIT: Final = "its columns do not match the schema: "
CHANGES: Final = {
    "append": ExternalChange(("Append",), lambda rows: {**rows, "f1": 1, "f2": 2}),
    "delete": ExternalChange(("Delete",), lambda rows: {name: age for name, age in rows.items() if name != "a"}),
    "update": ExternalChange(("Update",), lambda rows: {**rows, "a": 99}),
    "merge_insert": ExternalChange(("Update",), lambda rows: {**rows, "a": 5, "f": 6}),
    "overwrite": ExternalChange(("Overwrite",), lambda _: {"a": 7, "z": 8}),
    "compaction": ExternalChange(("ReserveFragments", "Rewrite"), _same, VERIFIED),
    "index": ExternalChange(("CreateIndex",), _same),
    "restore": ExternalChange(("Restore",), lambda rows: {name: rows[name] for name in list(rows)[:-1]}),
    "update_config": ExternalChange(("UpdateConfig",), _same),
    "collected": ExternalChange(
        ("Append", "missing", "Append"), lambda rows: {**rows, "f1": 1, "f2": 2, "f3": 3}, UNVERIFIABLE
    ),
    "everything": ExternalChange(
        ("Append", "Delete", "Restore", "Update", "ReserveFragments", "Rewrite"),
        lambda rows: {**rows, "a": 99, "f1": 1, "f2": 2},
    ),
    "add_column": ExternalChange(("Merge",), None, obstacle=f"{_MISFIT}unexpected extra"),
    "rename_column": ExternalChange(("Project",), None, obstacle=f"{_MISFIT}missing age; unexpected years"),
    "drop_column": ExternalChange(("Project",), None, obstacle=f"{_MISFIT}missing age"),
    "cast_column": ExternalChange(("Merge",), None, obstacle=f"{_MISFIT}changed age"),
    "nullable_key": ExternalChange(("Project",), None, obstacle=f"{_MISFIT}changed slug"),
    "duplicate": ExternalChange(("Append",), None, obstacle="1 row has the id of another row"),
}


# On a branch the rest is for `make soak`: the classification does not depend on the branch.
ON_A_BRANCH: Final = frozenset({"append", "merge_insert", "compaction", "restore", "collected", "drop_column"})
CELLS: Final = [
    *(pytest.param(name, MAIN) for name in CHANGES),
    *(pytest.param(name, DEV, marks=[] if name in ON_A_BRANCH else [pytest.mark.soak]) for name in CHANGES),
]


@pytest.mark.parametrize(("name", "branch"), CELLS)
def test_external_changes(name: str, branch: str, tool: ExternalTool, local_location: Location) -> None:
    location, change = local_location, CHANGES[name]
    seed(location, *([DEV] if branch == DEV else []))
    before = read_contents(location, branch)
    main_before = read_contents(location) if branch == DEV else {}
    tool.act(name, location, branch=branch)
    _check_preview(location, branch, change, before[PERSON])
    if change.classification is VERIFIED:
        _check_repair(location, branch, ("confirm",), RepairAction.HEALED, "omnigraph:repair")
        assert read_contents(location, branch) == before
        run(location, triple(["more"]), branch=branch)
        before = read_contents(location, branch)
        tool.act(name, location, branch=branch)
    else:
        with pytest.raises(DriftError):
            run(location, triple(["e"]), branch=branch)
        reason = change.obstacle or "an external tool changed it: `--confirm --force` publishes the change"
        _check_refusal(location, branch, ("confirm",), reason)
    _check_repair(location, branch, ("confirm", "discard"), RepairAction.DISCARDED, "omnigraph:repair")
    assert read_contents(location, branch) == before
    tool.act(name, location, branch=branch)
    if change.after is None:
        _check_refusal(location, branch, ("confirm", "force"), change.obstacle)
        _check_repair(location, branch, ("confirm", "discard"), RepairAction.DISCARDED, "omnigraph:repair")
    elif change.classification is VERIFIED:
        _check_repair(location, branch, ("confirm", "force"), RepairAction.HEALED, "omnigraph:repair")
    else:
        _check_repair(location, branch, ("confirm", "force"), RepairAction.FORCED, "omnigraph:repair:force")
        before = {**before, PERSON: change.after(before[PERSON])}
    assert read_contents(location, branch) == before
    run(location, triple(["again"]), branch=branch)
    assert find_leftovers(location, WriteEnvironment()) == []
    if branch == DEV:
        assert read_contents(location) == main_before


def _check_preview(location: Location, branch: str, change: ExternalChange, before: Rows) -> None:
    """A preview reports everything and changes nothing."""
    files, published = read_tree(location), find_table(location, branch=branch)
    rows = repair(location)
    assert read_tree(location) == files
    assert list(rows)[: len(TABLES)] == [(MAIN, "node:Company"), (MAIN, PERSON), (MAIN, "edge:Knows")]
    row = rows.pop((branch, PERSON))
    assert {other.action for other in rows.values()} == {RepairAction.NO_OP}
    assert {other.classification for other in rows.values()} == {Classification.NO_DRIFT}
    assert (row.classification, row.action) == (change.classification, RepairAction.PREVIEW)
    assert row.operations == change.operations
    assert row.manifest_version == published.pin.version
    assert row.lance_head_version == published.pin.version + len(change.operations)
    assert row.can_be_published == (not change.obstacle)
    expected_error = f"it cannot be published: {change.obstacle}; `unverified='discard'` discards it"
    assert row.error == (expected_error if change.obstacle else None)
    if change.after is not None:
        assert _counts(row) == _difference(before, change.after(before))


def _difference(before: Rows, after: Rows) -> tuple[int, int, int]:
    updated = [name for name in before.keys() & after.keys() if before[name] != after[name]]
    return len(after.keys() - before.keys()), len(updated), len(before.keys() - after.keys())


def _counts(row: TableRepairStats) -> tuple[int | None, int | None, int | None]:
    return row.rows_added, row.rows_updated, row.rows_deleted


def _check_repair(location: Location, branch: str, flags: tuple[str, ...], action: RepairAction, actor: str) -> None:
    """Repair makes one commit on this branch only, and the next repair has nothing to do."""
    heads = {name: read_snapshot(location, name).head for name in read_snapshot(location).state.branches}
    row = repair(location, *flags)[branch, PERSON]
    assert (row.action, row.error) == (action, None)
    snapshot = read_snapshot(location, branch)
    newest = next(iter(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()))
    assert (newest.id, newest.actor, newest.operation) == (row.commit, actor, "repair")
    assert newest.parent == heads[branch]
    assert len(newest.tables) == 1
    published = snapshot.tables[PERSON].pin.version
    assert (row.manifest_version, row.lance_head_version) == (published, published)
    others = {name: read_snapshot(location, name).head for name in heads if name != branch}
    assert others == {name: head for name, head in heads.items() if name != branch}
    again = repair(location, *flags)
    assert {row.action for row in again.values()} == {RepairAction.NO_OP}
    assert read_snapshot(location, branch).head == newest.id
    assert find_leftovers(location, WriteEnvironment()) == []


def _check_refusal(location: Location, branch: str, flags: tuple[str, ...], reason: str) -> None:
    files = read_tree(location)
    row = repair(location, *flags)[branch, PERSON]
    assert row.action is RepairAction.REFUSED
    assert row.reason is not None
    assert render_hint(row.reason).startswith(reason)
    assert "--" not in str(row.error)
    assert read_tree(location) == files


def test_maintenance_of_indexed_fragments(tool: ExternalTool, local_location: Location) -> None:
    """Lance itself cannot read such a transaction again."""
    seed(local_location)
    ensure_indices(local_location, MAIN, in_place)
    before = read_contents(local_location)
    tool.act("compaction", local_location)
    row = repair(local_location, "confirm")[MAIN, PERSON]
    assert (row.classification, row.action) == (VERIFIED, RepairAction.HEALED)
    assert read_contents(local_location) == before
    covered = [
        column for column in Graph(local_location).index_status() if column.table_key == PERSON and column.declared
    ]
    assert {column.coverage for column in covered} == {Indexed()}
    result = Graph(local_location).query('query q() { match { $p: Person { slug: "a" } } return { $p.age } }')
    assert result.to_pylist() == [{"p.age": 1}]


def test_settings_that_collect_versions_are_never_published(tool: ExternalTool, local_location: Location) -> None:
    seed(local_location)
    before = read_contents(local_location)
    tool.act("append", local_location)
    tool.act("greedy_config", local_location)
    row = repair(local_location, "confirm", "force")[MAIN, PERSON]
    assert (row.action, row.error) == (RepairAction.FORCED, None)
    pin = find_table(local_location).pin
    table = local_location.child(find_table(local_location).path)
    assert open_dataset(table).config() == {}
    assert open_dataset(table).version == pin.version
    for name in ("e", "f", "g"):
        run(local_location, triple([name]))
    assert pin.version in open_dataset(table).versions()
    added = {"f1": 1, "f2": 2, "e": None, "f": None, "g": None}
    assert read_contents(local_location)[PERSON] == {**before[PERSON], **added}


def test_truncated_file_is_not_published(tool: ExternalTool, local_location: Location) -> None:
    seed(local_location)
    table = find_table(local_location)
    before = set(Path(local_location.child(table.path).uri).rglob("*.lance"))
    tool.act("index", local_location)
    (file, *_) = sorted(set(Path(local_location.child(table.path).uri).rglob("*.lance")) - before)
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(IncompleteFileError) as raised:
        repair(local_location, "confirm", "force")
    assert str(file) in raised.value.message
    assert find_table(local_location) == table


def test_one_commit_for_all_tables_of_a_branch(tool: ExternalTool, local_location: Location) -> None:
    """One forced table makes a forced commit; rearranged files are healed in the same commit."""
    seed(local_location, DEV)
    for branch in (MAIN, DEV):
        tool.act("append", local_location, branch=branch)
        tool.act("compaction", local_location, "edge:Knows", branch=branch)
    rows = repair(local_location, "confirm", "force")
    for branch in (MAIN, DEV):
        assert rows[branch, PERSON].action is RepairAction.FORCED
        assert rows[branch, "edge:Knows"].action is RepairAction.HEALED
        snapshot = read_snapshot(local_location, branch)
        assert rows[branch, PERSON].commit == rows[branch, "edge:Knows"].commit == snapshot.head
        commit = snapshot.manifest.find_commit(snapshot.head)
        assert commit is not None
        assert (commit.actor, len(commit.tables)) == ("omnigraph:repair:force", 2)
    assert rows[MAIN, PERSON].commit != rows[DEV, PERSON].commit


def test_only_chosen_tables_of_chosen_branches(tool: ExternalTool, local_location: Location) -> None:
    seed(local_location, DEV)
    for branch in (MAIN, DEV):
        tool.act("append", local_location, branch=branch)
    graph = Graph(local_location)
    assert {(row.branch, row.table_key) for row in graph.repair(types=["Person"]).tables} == {
        (MAIN, PERSON),
        (DEV, PERSON),
    }
    result = graph.repair(unverified="discard", types=["node:Person"], branches=[DEV], dry_run=False, actor="eve")
    assert [(row.branch, row.table_key, row.action) for row in result.tables] == [(DEV, PERSON, RepairAction.DISCARDED)]
    assert Graph(local_location, branch=DEV).log()[0].actor == "eve"
    assert {row.branch for row in graph.repair().tables if row.action is RepairAction.PREVIEW} == {MAIN}
    for invalid in ({"types": ["Persn"]}, {"branches": ["nowhere"]}):
        with pytest.raises(NotFoundError):
            graph.repair(**invalid)  # type: ignore[arg-type]


def test_store_fails_at_the_second_branch(tool: ExternalTool, local_location: Location) -> None:
    """The commit of the first branch is kept, and the error names it."""
    seed(local_location, DEV)
    for branch in (MAIN, DEV):
        tool.act("compaction", local_location, branch=branch)
    before = read_snapshot(local_location).head

    def fail_on_dev(effect: str, target: str) -> None:
        if read_snapshot(local_location).head != before:
            raise StorageError("the store does not answer", code="unavailable")

    with observed(fail_on_dev), pytest.raises(StorageError) as failed:
        repair(local_location, "confirm")
    done = read_snapshot(local_location).head
    assert failed.value.facts["repaired"] == {MAIN: done}
    assert failed.value.message == f"the store does not answer; already repaired: main (commit {done})"
    assert failed.value.hint == "The repaired branches are published. Run it again for the others."
    rows = repair(local_location, "confirm")
    assert (rows[MAIN, PERSON].action, rows[DEV, PERSON].action) == (RepairAction.NO_OP, RepairAction.HEALED)


def test_blobs_are_compared_by_their_bytes(local_location: Location, tmp_path: Path) -> None:
    """Compaction moves blobs to other positions, and an update may keep their length."""
    init(local_location.uri, "node Photo { name: String @key  image: Blob? }")
    for name in ("a", "b", "c"):
        file = tmp_path / f"{name}.jsonl"
        file.write_text(f'{{"type":"Photo","data":{{"name":"{name}","image":"base64:YWJj"}}}}')
        load_here(local_location, str(file))
    table = read_snapshot(local_location).tables["node:Photo"]
    native = lance.dataset(local_location.child(table.path).lance_uri)
    native.optimize.compact_files()
    native.delete("id = 'c'")
    row = repair(local_location)[MAIN, "node:Photo"]
    assert _counts(row) == (0, 0, 1)


def test_moved_graph_is_repaired_on_main(tool: ExternalTool, local_location: Location) -> None:
    """Lance branches have absolute paths, so the other branch can no longer be read."""
    seed(local_location, DEV)
    moved = parse_location(shutil.move(local_location.uri, f"{local_location.uri}-moved"))
    tool.act("compaction", moved)
    rows = repair(moved, "confirm")
    assert rows[MAIN, PERSON].action is RepairAction.HEALED
    assert (rows[DEV, MANIFEST].action, rows[DEV, MANIFEST].lance_head_version) == (RepairAction.REFUSED, None)
    assert "the graph was created at" in str(rows[DEV, MANIFEST].error)


def test_read_only_graph(local_location: Location) -> None:
    seed(local_location)
    graph = Graph(local_location, read_only=True)
    assert len(graph.repair().tables) == len(TABLES)
    with pytest.raises(UsageError):
        graph.repair(dry_run=False)


def test_flags_that_exclude_each_other(local_location: Location) -> None:
    seed(local_location)
    for flags in (("force",), ("discard",)):
        with pytest.raises(RefusedError) as refused:
            repair(local_location, *flags)
        assert refused.value.code == "confirmation_missing"
