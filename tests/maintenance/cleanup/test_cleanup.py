"""Cleanup of real graphs: needed versions can be read, other files are deleted, and the preview lists them."""

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
from omnigraph.graph.branches import create_branch, create_branch_with_write, delete_branch
from omnigraph.graph.manifest.layout import GRAPH_INDEX, MANIFEST, SCRATCH
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.commit import WriteRequest
from omnigraph.graph.write.stage import WritableTable
from omnigraph.maintenance.cleanup.options import (
    CleanupPolicyOptions,
    TableCleanupStats,
    format_duration,
    parse_duration,
    sum_kept,
)
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
    """Return a graph with six commits, a day apart."""
    aging = Aging(local_location)
    create(local_location)
    for name in "abcde":
        aging.later(DAY)
        run(local_location, triple([name]), environment=aging.environment)
    aging.later(DAY)
    return aging


def cleaned(aging: Aging, options: CleanupPolicyOptions) -> list[TableCleanupStats]:
    """Preview, delete, and check that exactly the files of the preview were deleted."""
    planned = aging.preview(options)
    before = aging.files()
    done = cleanup_all_tables(Place(aging.location), replace(options, confirm=True), environment=aging.environment)
    deleted = before - aging.files()
    assert sorted(files_of(planned)) == sorted(deleted)
    assert done == planned
    return done


def row(rows: list[TableCleanupStats], table: str, branch: str = "main") -> TableCleanupStats:
    (stats,) = [stats for stats in rows if (stats.table_key, stats.branch) == (table, branch)]
    return stats


def test_preview_changes_nothing(aging: Aging) -> None:
    before = aging.files(locks=True)
    rows = aging.preview(KEEP_ONE)
    assert aging.files(locks=True) == before
    assert [stats.table_key for stats in rows] == [*sorted(TABLES, key=display_order), MANIFEST]
    assert {stats.old_versions_removed for stats in rows} == {5}


def test_old_versions_are_deleted_with_their_files(aging: Aging) -> None:
    run(aging.location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))], environment=aging.environment)
    run_compaction(aging.location, TABLES, aging.environment)
    aging.later(DAY)
    expected = read_contents(aging.location)
    rows = cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location) == expected
    assert row(rows, PERSON).old_versions_removed == 8
    assert row(rows, PERSON).bytes_removed > 0
    assert len([file for file in aging.files() if "/data/" in file and not file.startswith(MANIFEST)]) == 3
    assert files_of(cleaned(aging, KEEP_ONE)) == []
    run(aging.location, triple(["after"]), environment=aging.environment)
    assert read_contents(aging.location)[COMPANY].keys() == {*"abcde", "after"}


@pytest.mark.parametrize(
    ("options", "retained"),
    [
        (CleanupPolicyOptions(keep_versions=3), 3),
        (CleanupPolicyOptions(older_than=timedelta(days=4)), 4),
        (CleanupPolicyOptions(keep_versions=3, older_than=timedelta(days=4)), 4),
        (CleanupPolicyOptions(keep_versions=5, older_than=timedelta(days=4)), 5),
        (CleanupPolicyOptions(older_than=timedelta(0)), 1),
        (CleanupPolicyOptions(keep_versions=100), 6),
    ],
)
def test_the_policy_decides_what_can_be_read(aging: Aging, options: CleanupPolicyOptions, retained: int) -> None:
    before = every_snapshot(aging.location)
    cleaned(aging, options)
    after = every_snapshot(aging.location)
    assert len(after) == retained
    assert {key: before[key] for key in after} == after


def test_young_and_recently_current_versions_are_kept(local_location: Location) -> None:
    aging = Aging(local_location)
    create(local_location)
    aging.later(DAY)
    run(local_location, triple(["a"]), environment=aging.environment)
    aging.later(9 * MINUTE)
    assert files_of(cleaned(aging, KEEP_ONE)) == []
    aging.later(2 * MINUTE)
    assert len(files_of(cleaned(aging, KEEP_ONE))) > 0


def test_branch_without_writes_keeps_what_it_reads(aging: Aging) -> None:
    create_branch(aging.location, "dev", "tester", read_snapshot(aging.location), aging.environment)
    dev = read_contents(aging.location, "dev")
    for name in "xyz":
        aging.later(DAY)
        run(aging.location, triple([name]), environment=aging.environment)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location, "dev") == dev
    run(aging.location, triple(["more"]), branch="dev", environment=aging.environment)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    assert read_contents(aging.location, "dev")[PERSON].keys() == {*"abcde", "more"}


def test_forks_of_forks_are_deleted_with_their_branches(aging: Aging) -> None:
    location = aging.location
    create_branch(location, "one", "tester", read_snapshot(location), aging.environment)
    run(location, triple(["one"]), branch="one", environment=aging.environment)
    create_branch(location, "two", "tester", read_snapshot(location, "one"), aging.environment)
    run(location, triple(["two"]), branch="two", environment=aging.environment)
    run(location, triple(["more"]), branch="one", environment=aging.environment)
    run_compaction(location, TABLES, aging.environment)
    aging.later(DAY)
    expected = {name: read_contents(location, name) for name in ("main", "one", "two")}
    rows = cleaned(aging, KEEP_ONE)
    assert {name: read_contents(location, name) for name in expected} == expected
    assert row(rows, PERSON, "one").old_versions_removed == 1
    delete_branch(location, "two", aging.environment)
    delete_branch(location, "one", aging.environment)
    aging.later(DAY)
    rows = cleaned(aging, KEEP_ONE)
    assert {stats.orphan_branches_removed for stats in rows} == {2}
    assert read_contents(location) == expected["main"]
    assert not [file for file in aging.files() if "/tree/" in file or "/_refs/branches" in file]
    assert not list(Path(location.uri).glob("*/*/tree/*"))


@pytest.mark.parametrize("base", ["main", "dev"])
def test_versions_of_a_branch_created_by_a_load_are_reported_for_it(aging: Aging, base: str) -> None:
    """The load forks tables before the branch exists, so the names of the forks have the id of the base."""
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.environment)
    load = WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_changes(triple(["new"])))
    create_branch_with_write(location, "new", base, load, aging.environment)
    fork = read_snapshot(location, "new").tables[PERSON].pin.branch
    assert fork is not None
    assert fork.startswith(f"g-{read_snapshot(location, base).branch.id}-")
    for name in "xyz":
        aging.later(DAY)
        run(location, triple([name]), branch="new", environment=aging.environment)
    aging.later(DAY)
    rows = cleaned(aging, KEEP_ONE)
    for alias in TABLES:
        branch_row = row(rows, alias, "new")
        assert branch_row.old_versions_removed == 4, "the fork itself, the load and two of three writes"
        assert all(f"/tree/{fork}/" in file for file in branch_row.files if "/_versions/" in file)
        assert not any("/tree/" in file for file in row(rows, alias).files)
    assert {stats.branch for stats in rows if stats.table_key in TABLES} == {"main", "new"}


def test_merge_base_can_still_be_read(aging: Aging) -> None:
    """Even if the policy does not keep it on the branch itself."""
    location = aging.location
    commit = read_snapshot(location).head
    create_branch(location, "dev", "tester", read_snapshot(location), aging.environment)
    base = read_contents(location)
    for branch in ("dev", "main", "dev", "main"):
        aging.later(DAY)
        run(location, [Change(PERSON, upsert=(("a", 7),))], branch=branch, environment=aging.environment)
    aging.later(DAY)
    cleaned(aging, KEEP_ONE)
    snapshot = read_reference(location, commit)
    assert snapshot_contents(snapshot) == base


def test_unpublished_fork_is_deleted_only_after_the_grace(aging: Aging) -> None:
    location = aging.location
    branch = create_branch(location, "dev", "tester", read_snapshot(location), aging.environment)
    table = read_snapshot(location, "dev").tables[PERSON]
    name = f"g-{branch.id}-{'0' * 26}"
    commit_branch(open_dataset(location.child(table.path)), name)
    aging.later(2 * DAY)
    assert row(cleaned(aging, KEEP_ONE), PERSON).orphan_branches_removed == 0
    aging.later(2 * DAY)
    assert row(cleaned(aging, KEEP_ONE), PERSON, "dev").orphan_branches_removed == 1


def test_unreferenced_files_are_deleted_after_the_grace(aging: Aging) -> None:
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
    assert [stats.table_key for stats in rows if stats.files] == [GRAPH_INDEX]
    aging.later(1.1 * DAY)
    rows = cleaned(aging, KEEP_ONE)
    assert (row(rows, PERSON).orphan_files_removed, row(rows, SCRATCH).orphan_files_removed) == (5, 1)
    assert aging.files() - steady == {f"{GRAPH_INDEX}/{adjacency}/main-{table.pin.version}.adj"}
    assert not Path(location.uri, table.path, "_indices/u").exists()


def test_unknown_table_directory_is_deleted_after_the_grace(aging: Aging) -> None:
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
def test_invalid_options(local_location: Location, options: CleanupPolicyOptions, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        cleanup_all_tables(Place(local_location), options)
    assert caught.value.code == code
    if code == "cleanup_grace":
        assert str(caught.value).splitlines()[0].endswith("got 47h")


@pytest.mark.parametrize("text", ["0s", "90s", "15m", "36h", "1d", "2w"])
def test_durations_are_shown_as_they_are_written(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


def test_warning_about_few_versions() -> None:
    assert CleanupPolicyOptions(keep_versions=3).warnings() == ()
    assert len(CleanupPolicyOptions(keep_versions=2).warnings()) == 1


def test_unreadable_table_does_not_stop_the_others(aging: Aging) -> None:
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


def test_missing_version_of_a_live_branch(aging: Aging) -> None:
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.environment)
    table = read_snapshot(location).tables[PERSON]
    run(location, triple(["x"]), environment=aging.environment)
    aging.later(DAY)
    Path(location.uri, table.path, f"_versions/{2**64 - 1 - table.pin.version:020d}.manifest").unlink()
    before = aging.files()
    with pytest.raises(FormatError) as caught:
        cleanup_all_tables(Place(location), CleanupPolicyOptions(1, confirm=True), environment=aging.environment)
    assert caught.value.code == "pinned_version_missing"
    assert aging.files() == before


def test_missing_version_of_a_tag(aging: Aging) -> None:
    place = aging.location.child(_path(aging, PERSON))
    open_dataset(place).native.tags.create("kept", 3)
    aging.later(DAY)
    Path(place.uri, f"_versions/{2**64 - 1 - 3:020d}.manifest").unlink()
    before = aging.files()
    with pytest.raises(FormatError) as caught:
        cleanup_all_tables(Place(aging.location), CleanupPolicyOptions(1, confirm=True), environment=aging.environment)
    assert caught.value.code == "pinned_version_missing"
    assert aging.files() == before


@pytest.mark.parametrize("confirm", [False, True])
def test_drifted_table_is_skipped_and_the_others_are_cleaned(
    aging: Aging, confirm: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = read_snapshot(aging.location).tables[PERSON]
    open_dataset(aging.location.child(table.path)).native.update_config({"external": "1"})
    aging.later(DAY)
    before = aging.files()
    with caplog.at_level(logging.INFO, "omnigraph.cleanup"):
        rows = cleanup_all_tables(
            Place(aging.location), CleanupPolicyOptions(1, confirm=confirm), environment=aging.environment
        )
    error = row(rows, PERSON).error
    assert error is not None
    assert error.startswith("drift: ")
    assert error.endswith("run `graph.repair()`")
    assert row(rows, PERSON).files == ()
    assert {stats.old_versions_removed for stats in rows if stats.table_key != PERSON} == {5}
    assert before - aging.files() == (set(files_of(rows)) if confirm else set())
    events = {record.getMessage(): record for record in caplog.records}
    (failed,) = [record for record in events.values() if record.levelno == logging.ERROR]
    facts = vars(failed)["facts"]
    assert (facts["table"], facts["error"]) == (PERSON, error)
    assert (f"cleaned up {COMPANY}" in events) is confirm
    assert f"cleaned up {PERSON}" not in events


def test_keep_counts_published_versions(aging: Aging) -> None:
    """Versions that compaction commits in between do not count."""
    commits = [commit.id for commit in read_snapshot(aging.location).manifest.read_commits()]
    for name in "xy":
        run_compaction(aging.location, TABLES, aging.environment)
        aging.later(DAY)
        run(aging.location, triple([name]), environment=aging.environment)
        aging.later(DAY)
    run_compaction(aging.location, TABLES, aging.environment)
    aging.later(DAY)
    before = _readable(aging)
    cleaned(aging, CleanupPolicyOptions(keep_versions=4))
    after = _readable(aging)
    assert len(before) == len(commits) + 5
    assert after == dict(list(before.items())[-4:])
    assert list(after) == [commit.id for commit in _lineage(aging)][-4:]


def test_log_of_a_failed_table(aging: Aging, caplog: pytest.LogCaptureFixture) -> None:
    """Planning fails, because a version cannot be read."""
    path = _path(aging, PERSON)
    manifest = Path(aging.location.uri, path, f"_versions/{2**64 - 1 - 2:020d}.manifest")
    manifest.write_bytes(b"")
    os.utime(manifest, (aging.clock.seconds - 3 * DAY,) * 2)
    with caplog.at_level(logging.INFO, "omnigraph.cleanup"):
        cleanup_all_tables(Place(aging.location), CleanupPolicyOptions(1, confirm=True), environment=aging.environment)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [vars(record)["facts"]["table"] for record in errors] == [PERSON]
    assert "cleaned up node:Person" not in caplog.messages
    assert "cleaned up node:Company" in caplog.messages


def test_reasons_of_kept_versions(aging: Aging) -> None:
    """A branch that reads an old version, a tag, and young versions; each version counts once."""
    location = aging.location
    create_branch(location, "dev", "tester", read_snapshot(location), aging.environment)
    open_dataset(location.child(_path(aging, COMPANY))).native.tags.create("kept", 2)
    aging.later(DAY)
    for name in "xyz":
        run(location, triple([name]), environment=aging.environment)
        aging.later(DAY)
    assert _kept(cleaned(aging, KEEP_ONE)) == {
        PERSON: {"branch": 1},
        COMPANY: {"branch": 1, "tag": 1},
        KNOWS: {"branch": 1},
        MANIFEST: {"branch": 1},
    }
    run(location, triple(["dev"]), branch="dev", environment=aging.environment)
    run(location, triple(["young"]), environment=aging.environment)
    rows = cleaned(aging, KEEP_ONE)
    assert _kept(rows)[PERSON]["young"] > 0
    assert sum(retained.versions for retained in sum_kept(rows)) == sum(
        sum(stats.values()) for stats in _kept(rows).values()
    )


def test_marker_of_an_unfinished_init(aging: Aging) -> None:
    """It is deleted with the tables that it names, after the grace."""
    store = ObjectStore(aging.location)
    store.create("__init/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", b"{}")
    aging.later(DAY)
    assert "__init" not in {stats.table_key for stats in cleaned(aging, KEEP_ONE)}
    aging.later(3 * DAY)
    assert row(cleaned(aging, KEEP_ONE), "__init").orphan_files_removed == 1
    assert not Path(aging.location.uri, "__init").exists()


def _kept(rows: list[TableCleanupStats]) -> dict[str, dict[str, int]]:
    return {
        stats.table_key: {str(retained.reason): retained.versions for retained in stats.retained}
        for stats in rows
        if stats.retained
    }


def _lineage(aging: Aging) -> list[CommitRecord]:
    commits = read_snapshot(aging.location).manifest.read_commits()
    return sorted(commits, key=lambda commit: commit.manifest_hint.version)


def _readable(aging: Aging) -> dict[str, Contents]:
    """Return the contents of every readable commit, the oldest first."""
    contents = {}
    for commit in _lineage(aging):
        with suppress(OmnigraphError):
            contents[str(commit.id)] = snapshot_contents(Graph(aging.location).snapshot(as_of=commit.id))
    return contents


@pytest.mark.parametrize("confirm", [False, True])
def test_pending_recovery_is_refused(aging: Aging, confirm: bool) -> None:
    ObjectStore(aging.location).create("__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", b"{}")
    before = aging.files()
    with pytest.raises(RefusedError) as caught:
        cleanup_all_tables(
            Place(aging.location), CleanupPolicyOptions(1, confirm=confirm), environment=aging.environment
        )
    assert caught.value.code == "recovery_pending"
    assert aging.files() == before


def _path(aging: Aging, alias: str) -> str:
    return read_snapshot(aging.location).tables[alias].path
