"""Cleanup on real graphs: what is needed stays and can be read, the rest goes, and the preview said so."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.errors import FormatError, OmnigraphError, RefusedError, UsageError
from omnigraph.graph.branches import create_branch, create_branch_with, delete_branch
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.layout import GRAPH_INDEX, MANIFEST, SCRATCH
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.commit import WriteRequest
from omnigraph.graph.write.stage import WritableTable
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats, sum_kept
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.schema.catalog import display_order
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import (
    COMPANY,
    KNOWS,
    PERSON,
    TABLES,
    Change,
    Contents,
    create,
    read_contents,
    rows_table,
    run,
    run_compaction,
    snapshot_contents,
    stage_changes,
    triple,
)
from tests.maintenance.cleaning import DAY, MINUTE, Aging, Place, errors_of, every_snapshot, files_of
from tests.storage.raw_writes import stage_append

KEEP_ONE = CleanupPolicyOptions(keep_versions=1)


@pytest.fixture
def aging(local_location: Location) -> Aging:
    """A graph of six commits, a day apart."""
    aging = Aging(local_location)
    create(local_location)
    for name in "abcde":
        aging.later(DAY)
        run(local_location, triple([name]), world=aging.world)
    aging.later(DAY)
    return aging


def cleaned(aging: Aging, options: CleanupPolicyOptions) -> list[TableCleanupStats]:
    """Preview, delete, and compare: exactly the files of the preview went."""
    wanted = aging.preview(options)
    before = aging.files()
    done = cleanup_all_tables(Place(aging.location), replace(options, confirm=True), world=aging.world)
    gone = before - aging.files()
    assert sorted(files_of(wanted)) == sorted(gone)
    assert done == wanted
    return done


def row(rows: list[TableCleanupStats], table: str, branch: str = "main") -> TableCleanupStats:
    (found,) = [row for row in rows if (row.table_key, row.branch) == (table, branch)]
    return found


def test_a_preview_changes_nothing(aging: Aging) -> None:
    before = aging.files(locks=True)
    rows = aging.preview(KEEP_ONE)
    assert aging.files(locks=True) == before
    assert [found.table_key for found in rows] == [*sorted(TABLES, key=display_order), MANIFEST]
    assert {found.old_versions_removed for found in rows} == {5}


def test_old_versions_go_with_what_only_they_needed(aging: Aging) -> None:
    run(aging.location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))], world=aging.world)
    run_compaction(aging.location, TABLES, aging.world)
    aging.later(DAY)
    wanted = read_contents(aging.location)
    rows = cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location) == wanted
    assert row(rows, PERSON).old_versions_removed == 8
    assert row(rows, PERSON).bytes_removed > 0
    assert len([file for file in aging.files() if "/data/" in file and not file.startswith(MANIFEST)]) == 3
    assert files_of(cleaned(aging, KEEP_ONE)) == []
    run(aging.location, triple(["after"]), world=aging.world)
    assert read_contents(aging.location)[COMPANY].keys() == {*"abcde", "after"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (CleanupPolicyOptions(keep_versions=3), 3),
        (CleanupPolicyOptions(older_than=timedelta(days=4)), 4),
        (CleanupPolicyOptions(keep_versions=3, older_than=timedelta(days=4)), 4),
        (CleanupPolicyOptions(keep_versions=5, older_than=timedelta(days=4)), 5),
        (CleanupPolicyOptions(older_than=timedelta(0)), 1),
        (CleanupPolicyOptions(keep_versions=100), 6),
    ],
)
def test_the_policy_decides_what_can_be_read(aging: Aging, options: CleanupPolicyOptions, kept: int) -> None:
    before = every_snapshot(aging.location)
    cleaned(aging, options)
    after = every_snapshot(aging.location)
    assert len(after) == kept
    assert {key: before[key] for key in after} == after


def test_nothing_young_goes_nor_what_was_current_a_moment_ago(local_location: Location) -> None:
    aging = Aging(local_location)
    create(local_location)
    aging.later(DAY)
    run(local_location, triple(["a"]), world=aging.world)
    aging.later(9 * MINUTE)
    assert files_of(cleaned(aging, KEEP_ONE)) == []
    aging.later(2 * MINUTE)
    assert len(files_of(cleaned(aging, KEEP_ONE))) > 0


def test_a_branch_that_wrote_nothing_keeps_what_it_reads(aging: Aging) -> None:
    create_branch(aging.location, "dev", "tester", read_snapshot(aging.location), aging.world)
    dev = read_contents(aging.location, "dev")
    for name in "xyz":
        aging.later(DAY)
        run(aging.location, triple([name]), world=aging.world)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location, "dev") == dev
    run(aging.location, triple(["more"]), branch="dev", world=aging.world)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location, "dev")[PERSON].keys() == {*"abcde", "more"}


def test_forks_of_forks_read_on_and_go_with_their_branches(aging: Aging) -> None:
    location = aging.location
    create_branch(location, "one", "tester", read_snapshot(location), aging.world)
    run(location, triple(["one"]), branch="one", world=aging.world)
    create_branch(location, "two", "tester", read_snapshot(location, "one"), aging.world)
    run(location, triple(["two"]), branch="two", world=aging.world)
    run(location, triple(["more"]), branch="one", world=aging.world)
    run_compaction(location, TABLES, aging.world)
    aging.later(DAY)
    wanted = {name: read_contents(location, name) for name in ("main", "one", "two")}
    rows = cleaned(aging, KEEP_ONE)
    assert {name: read_contents(location, name) for name in wanted} == wanted
    assert row(rows, PERSON, "one").old_versions_removed == 1
    delete_branch(location, "two", aging.world)
    delete_branch(location, "one", aging.world)
    aging.later(DAY)
    rows = cleaned(aging, KEEP_ONE)
    assert {found.orphan_branches_removed for found in rows} == {2}
    assert read_contents(location) == wanted["main"]
    assert not [file for file in aging.files() if "/tree/" in file or "/_refs/branches" in file]
    assert not list(Path(location.uri).glob("*/*/tree/*"))


@pytest.mark.parametrize("base", ["main", "dev"])
def test_versions_of_a_branch_that_a_load_created_are_reported_for_that_branch(
    aging: Aging, base: str
) -> None:
    """The load forks tables before the branch exists, so the forks have the id of the base in their names."""
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.world)
    load = WriteRequest(WriterKind.LOAD, "tester", stage_changes(triple(["new"])))
    create_branch_with(location, "new", base, load, aging.world)
    fork = read_snapshot(location, "new").tables[PERSON].pin.branch
    assert fork is not None
    assert fork.startswith(f"g-{read_snapshot(location, base).branch.id}-")
    for name in "xyz":
        aging.later(DAY)
        run(location, triple([name]), branch="new", world=aging.world)
    aging.later(DAY)
    rows = cleaned(aging, KEEP_ONE)
    for alias in TABLES:
        told = row(rows, alias, "new")
        assert told.old_versions_removed == 4, "the fork itself, the load and two of three writes"
        assert all(f"/tree/{fork}/" in file for file in told.files if "/_versions/" in file)
        assert not any("/tree/" in file for file in row(rows, alias).files)
    assert {found.branch for found in rows if found.table_key in TABLES} == {"main", "new"}


def test_a_commit_that_two_branches_part_at_can_still_be_read(aging: Aging) -> None:
    """Also when it is long gone from the branch itself by the policy."""
    location = aging.location
    commit = read_snapshot(location).head
    create_branch(location, "dev", "tester", read_snapshot(location), aging.world)
    base = read_contents(location)
    for branch in ("dev", "main", "dev", "main"):
        aging.later(DAY)
        run(location, [Change(PERSON, upsert=(("a", 7),))], branch=branch, world=aging.world)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    snapshot = read_reference(location, commit)
    assert snapshot_contents(snapshot) == base


def test_a_fork_that_may_yet_be_published_stays_and_an_abandoned_one_goes(aging: Aging) -> None:
    location = aging.location
    branch = create_branch(location, "dev", "tester", read_snapshot(location), aging.world)
    table = read_snapshot(location, "dev").tables[PERSON]
    name = f"g-{branch.id}-{'0' * 26}"
    commit_branch(open_dataset(location.child(table.path)), name)
    aging.later(2 * DAY)
    assert row(cleaned(aging, KEEP_ONE), PERSON).orphan_branches_removed == 0
    aging.later(2 * DAY)
    assert row(cleaned(aging, KEEP_ONE), PERSON, "dev").orphan_branches_removed == 1


def test_files_that_nothing_refers_to_go_after_the_grace(aging: Aging) -> None:
    location = aging.location
    cleaned(aging, KEEP_ONE)
    steady = aging.files()
    table = read_snapshot(location).tables[PERSON]
    dataset = open_dataset(location.child(table.path))
    stage_append(dataset, rows_table(WritableTable(table, dataset, None), [("orphan", 1)]))
    for path in ("data/cut.lance#1", "_transactions/9-x.txn", "_indices/u/page.lance", "_deletions/1.arrow"):
        file = Path(location.uri, table.path, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    ObjectStore(location).create(f"{SCRATCH}/01/keys-1", b"x")
    adjacency = table.path.partition("/")[2]
    ObjectStore(location).create(f"{GRAPH_INDEX}/{adjacency}/main-1.adj", b"x")
    ObjectStore(location).create(f"{GRAPH_INDEX}/{adjacency}/main-{table.pin.version}.adj", b"x")
    aging.later(2 * DAY)
    rows = cleaned(aging, KEEP_ONE)
    assert [found.table_key for found in rows if found.files] == [GRAPH_INDEX]
    aging.later(1.1 * DAY)
    rows = cleaned(aging, KEEP_ONE)
    assert (row(rows, PERSON).orphan_files_removed, row(rows, SCRATCH).orphan_files_removed) == (5, 1)
    assert aging.files() - steady == {f"{GRAPH_INDEX}/{adjacency}/main-{table.pin.version}.adj"}
    assert not Path(location.uri, table.path, "_indices/u").exists()


def test_a_folder_that_no_manifest_knows_goes_after_the_grace(aging: Aging) -> None:
    steady = aging.files()
    place = aging.location.child(f"nodes/{'0' * 16}-{'f' * 16}")
    ObjectStore(place).create("data/x.lance", b"x")
    aging.later(2 * DAY)
    options = CleanupPolicyOptions(keep_versions=100)
    assert files_of(cleaned(aging, options)) == []
    aging.later(2 * DAY)
    assert len(files_of(cleaned(aging, options))) == 1
    assert aging.files() == steady
    assert not Path(place.uri).exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (CleanupPolicyOptions(), "cleanup_policy_missing"),
        (CleanupPolicyOptions(keep_versions=0), "cleanup_keep"),
        (CleanupPolicyOptions(older_than=timedelta(seconds=-1)), "cleanup_older_than"),
        (CleanupPolicyOptions(1, orphans_older_than=timedelta(hours=47)), "cleanup_grace"),
    ],
)
def test_what_must_not_be_asked_for(
    local_location: Location, options: CleanupPolicyOptions, code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        cleanup_all_tables(Place(local_location), options)
    assert caught.value.code == code


def test_few_versions_are_warned_of() -> None:
    assert CleanupPolicyOptions(keep_versions=3).warnings() == ()
    assert len(CleanupPolicyOptions(keep_versions=2).warnings()) == 1


def test_a_table_that_cannot_be_read_costs_no_other(aging: Aging) -> None:
    table = read_snapshot(aging.location).tables[PERSON]
    manifest = Path(aging.location.uri, table.path, f"_versions/{2**64 - 1 - 2:020d}.manifest")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:10])
    os.utime(manifest, (aging.clock.seconds - 3 * DAY,) * 2)
    rows = cleaned(aging, KEEP_ONE)
    assert list(errors_of(rows)) == [PERSON]
    assert row(rows, PERSON).files == ()
    assert row(rows, COMPANY).old_versions_removed == 5
    manifest.write_bytes(whole)
    os.utime(manifest, (aging.clock.seconds - 3 * DAY,) * 2)
    rows = cleaned(aging, KEEP_ONE)
    assert errors_of(rows) == {}
    assert row(rows, PERSON).old_versions_removed == 5
    assert files_of(aging.preview(KEEP_ONE)) == []


def test_a_version_that_a_live_branch_reads_is_missing(aging: Aging) -> None:
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.world)
    table = read_snapshot(location).tables[PERSON]
    run(location, triple(["x"]), world=aging.world)
    aging.later(DAY)
    Path(location.uri, table.path, f"_versions/{2**64 - 1 - table.pin.version:020d}.manifest").unlink()
    before = aging.files()
    with pytest.raises(FormatError) as caught:
        cleanup_all_tables(Place(location), CleanupPolicyOptions(1, confirm=True), world=aging.world)
    assert caught.value.code == "pinned_version_missing"
    assert aging.files() == before


def test_a_version_that_a_tag_names_is_missing(aging: Aging) -> None:
    place = aging.location.child(_path(aging, PERSON))
    open_dataset(place).native.tags.create("kept", 3)
    aging.later(DAY)
    Path(place.uri, f"_versions/{2**64 - 1 - 3:020d}.manifest").unlink()
    before = aging.files()
    with pytest.raises(FormatError) as caught:
        cleanup_all_tables(Place(aging.location), CleanupPolicyOptions(1, confirm=True), world=aging.world)
    assert caught.value.code == "pinned_version_missing"
    assert aging.files() == before


@pytest.mark.parametrize("confirm", [False, True])
def test_a_table_that_drifted_is_left_alone_and_the_others_are_cleaned(
    aging: Aging, confirm: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = read_snapshot(aging.location).tables[PERSON]
    open_dataset(aging.location.child(table.path)).native.update_config({"foreign": "1"})
    aging.later(DAY)
    before = aging.files()
    with caplog.at_level(logging.INFO, "omnigraph.cleanup"):
        rows = cleanup_all_tables(
            Place(aging.location), CleanupPolicyOptions(1, confirm=confirm), world=aging.world
        )
    error = row(rows, PERSON).error
    assert error is not None
    assert error.startswith("drift: ")
    assert error.endswith("run `omnigraph repair`")
    assert row(rows, PERSON).files == ()
    assert {found.old_versions_removed for found in rows if found.table_key != PERSON} == {5}
    assert before - aging.files() == (set(files_of(rows)) if confirm else set())
    events = {record.getMessage(): record for record in caplog.records}
    (failed,) = [record for record in events.values() if record.levelno == logging.ERROR]
    facts = vars(failed)["facts"]
    assert (facts["table"], facts["error"]) == (PERSON, error)
    assert (f"cleaned up {COMPANY}" in events) is confirm
    assert f"cleaned up {PERSON}" not in events


def test_keep_counts_what_commits_published(aging: Aging) -> None:
    """Compaction commits versions of its own in between; they do not use up the number."""
    commits = [commit.id for commit in read_snapshot(aging.location).manifest.read_commits()]
    for name in "xy":
        run_compaction(aging.location, TABLES, aging.world)
        aging.later(DAY)
        run(aging.location, triple([name]), world=aging.world)
        aging.later(DAY)
    run_compaction(aging.location, TABLES, aging.world)
    aging.later(DAY)
    before = _readable(aging)
    cleaned(aging, CleanupPolicyOptions(keep_versions=4))
    after = _readable(aging)
    assert len(before) == len(commits) + 5
    assert after == dict(list(before.items())[-4:])
    assert list(after) == [commit.id for commit in _lineage(aging)][-4:]


def test_a_failed_table_and_its_log(aging: Aging, caplog: pytest.LogCaptureFixture) -> None:
    """Planning fails, because a version cannot be read."""
    path = _path(aging, PERSON)
    manifest = Path(aging.location.uri, path, f"_versions/{2**64 - 1 - 2:020d}.manifest")
    manifest.write_bytes(b"")
    os.utime(manifest, (aging.clock.seconds - 3 * DAY,) * 2)
    with caplog.at_level(logging.INFO, "omnigraph.cleanup"):
        cleanup_all_tables(Place(aging.location), CleanupPolicyOptions(1, confirm=True), world=aging.world)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [vars(record)["facts"]["table"] for record in errors] == [PERSON]
    assert "cleaned up node:Person" not in caplog.messages
    assert "cleaned up node:Company" in caplog.messages


def test_what_is_kept_although_the_policy_names_it(aging: Aging) -> None:
    """A branch that reads an old version, a tag, and what is young; each counts once."""
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.world)
    open_dataset(location.child(_path(aging, COMPANY))).native.tags.create("kept", 2)
    aging.later(DAY)
    for name in "xyz":
        run(location, triple([name]), world=aging.world)
        aging.later(DAY)
    assert _kept(cleaned(aging, KEEP_ONE)) == {
        PERSON: {"branch": 1},
        COMPANY: {"branch": 1, "tag": 1},
        KNOWS: {"branch": 1},
        MANIFEST: {"branch": 1},
    }
    run(location, triple(["dev"]), branch="dev", world=aging.world)
    run(location, triple(["young"]), world=aging.world)
    rows = cleaned(aging, KEEP_ONE)
    assert _kept(rows)[PERSON]["young"] > 0
    assert sum(kept.versions for kept in sum_kept(rows)) == sum(
        sum(found.values()) for found in _kept(rows).values()
    )


def test_the_marker_of_an_init_that_is_not_known_to_have_ended(aging: Aging) -> None:
    """It is deleted with the tables that it names once they are beyond the grace."""
    store = ObjectStore(aging.location)
    store.create("__init/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", b"{}")
    aging.later(DAY)
    assert "__init" not in {found.table_key for found in cleaned(aging, KEEP_ONE)}
    aging.later(3 * DAY)
    assert row(cleaned(aging, KEEP_ONE), "__init").orphan_files_removed == 1
    assert not Path(aging.location.uri, "__init").exists()


def _kept(rows: list[TableCleanupStats]) -> dict[str, dict[str, int]]:
    return {
        found.table_key: {str(kept.reason): kept.versions for kept in found.kept}
        for found in rows
        if found.kept
    }


def _lineage(aging: Aging) -> list[CommitRecord]:
    found = read_snapshot(aging.location).manifest.read_commits()
    return sorted(found, key=lambda commit: commit.manifest_hint.version)


def _readable(aging: Aging) -> dict[str, Contents]:
    """The contents of every commit that can be read, the oldest first."""
    found = {}
    for commit in _lineage(aging):
        with suppress(OmnigraphError):
            found[str(commit.id)] = snapshot_contents(Graph(aging.location).snapshot(as_of=commit.id))
    return found


@pytest.mark.parametrize("confirm", [False, True])
def test_a_write_that_waits_for_recovery_comes_first(aging: Aging, confirm: bool) -> None:
    ObjectStore(aging.location).create("__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", b"{}")
    before = aging.files()
    with pytest.raises(RefusedError) as caught:
        cleanup_all_tables(Place(aging.location), CleanupPolicyOptions(1, confirm=confirm), world=aging.world)
    assert caught.value.code == "recovery_pending"
    assert aging.files() == before


def _path(aging: Aging, alias: str) -> str:
    return read_snapshot(aging.location).tables[alias].path
