"""Snapshots: at the head, at any earlier version, of any commit, on a branch, and in a moved graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from omnigraph.base.errors import FormatError, NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.compaction import compact_manifest
from omnigraph.graph.manifest.encoding import encode_commit, encode_head, rows_to_table
from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.snapshot import Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location
from tests.graph.publishing import copy_graph, make_graph, new_draft, newest, pins_of, publish_next, target_of, tree
from tests.graph.writers import COMPANY, PERSON, TABLES, read_contents, run
from tests.graph.writers import Change as TableChange
from tests.storage.raw_writes import commit_upsert


def _publish_some(location: Location, times: int) -> dict[CommitId, dict[str, tuple[Pin, int]]]:
    """Return what each commit published."""
    seen = {}
    for number in range(times):
        publish_next(location, TABLES[number % 3])
        snapshot = read_snapshot(location)
        seen[snapshot.head] = pins_of(snapshot)
    return seen


def test_every_version_and_every_commit_is_readable(store_location: Location) -> None:
    first = make_graph(store_location)
    by_version = {1: pins_of(first)}
    by_commit = {first.head: pins_of(first)}
    for number in range(5):
        published = publish_next(store_location, TABLES[number % 3])
        assert published is not None
        snapshot = read_snapshot(store_location)
        assert (snapshot.head, snapshot.version) == (published.id, number + 2)
        by_version[snapshot.version] = by_commit[snapshot.head] = pins_of(snapshot)
    for version, pins in by_version.items():
        old = read_snapshot(store_location, version=version)
        assert (old.version, pins_of(old)) == (version, pins)
    for commit, pins in by_commit.items():
        snapshot, record = read_commit_snapshot(store_location, commit)
        assert (snapshot.head, record.id, pins_of(snapshot)) == (commit, commit, pins)


def test_commits_are_found_across_compactions_of_the_manifest(durable_location: Location) -> None:
    make_graph(durable_location)
    seen = _publish_some(durable_location, 3)
    compacted = compact_manifest(newest(durable_location))
    seen |= _publish_some(durable_location, 2)
    assert compacted.version == 6
    for commit, pins in seen.items():
        assert pins_of(read_commit_snapshot(durable_location, commit)[0]) == pins
    last = read_commit_snapshot(durable_location, list(seen)[2])[0]
    assert last.version == 4


@pytest.mark.parametrize("hint", [1, 3, 4])
def test_version_of_a_commit_is_the_first_with_it_as_head_from_its_hint_on(store_location: Location, hint: int) -> None:
    """Lance may rebase a publish, so a hint may be too low: version 5 made the commit, 6 has the same head."""
    make_graph(store_location)
    _publish_some(store_location, 3)
    record = newest(store_location).find_commit(read_snapshot(store_location).head)
    assert record is not None
    late = replace(record, id=CommitId("LATE"), parent=record.id, manifest_hint=Pin(None, hint))
    dataset = newest(store_location).dataset
    rows = rows_to_table([encode_head(late.id), encode_commit(late)], dataset.schema)
    commit_upsert(dataset, rows, "object_id")
    publish(target_of(read_snapshot(store_location)), ManifestChange())
    publish_next(store_location)
    assert read_commit_snapshot(store_location, late.id)[0].version == 5


def test_versions_before_the_hint_are_not_searched(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    record = newest(store_location).find_commit(snapshot.head)
    assert record is not None
    wrong = replace(record, id=CommitId("WRONG"), manifest_hint=Pin(None, 2))
    publish(target_of(snapshot), ManifestChange(commit=new_draft(), ancestors=(wrong,)))
    publish_next(store_location)
    with pytest.raises(NotFoundError) as caught:
        read_commit_snapshot(store_location, wrong.id)
    assert caught.value.code == "snapshot_collected"


def test_deleted_commit_is_snapshot_collected_and_others_are_readable(durable_location: Location) -> None:
    make_graph(durable_location)
    seen = _publish_some(durable_location, 4)
    native = newest(durable_location).dataset.native_copy()
    native.cleanup_old_versions(older_than=timedelta(0), retain_versions=2)
    is_kept = {version: version in native_versions(durable_location) for version in range(1, 6)}
    assert list(is_kept.values()).count(True) == 2
    for version, commit in enumerate(seen, 2):
        if is_kept[version]:
            assert pins_of(read_commit_snapshot(durable_location, commit)[0]) == seen[commit]
        else:
            with pytest.raises(NotFoundError) as caught:
                read_commit_snapshot(durable_location, commit)
            assert caught.value.code == "snapshot_collected"


def native_versions(location: Location) -> tuple[int, ...]:
    return newest(location).dataset.versions()


def test_commit_is_read_from_a_later_version_with_the_same_head(durable_location: Location) -> None:
    """The version that made it may be deleted while a version that only changed branches is kept."""
    first = make_graph(durable_location)
    target = target_of(first)
    publish(target, ManifestChange())
    native = newest(durable_location).dataset.native_copy()
    native.cleanup_old_versions(older_than=timedelta(0), retain_versions=1)
    assert native_versions(durable_location) == (2,)
    assert read_commit_snapshot(durable_location, first.head)[0].version == 2


def test_unknown_names(store_location: Location) -> None:
    make_graph(store_location)
    with pytest.raises(NotFoundError, match="no branch 'x'") as branch:
        read_snapshot(store_location, "x")
    assert branch.value.code == "branch_missing"
    with pytest.raises(NotFoundError) as commit:
        read_commit_snapshot(store_location, CommitId("NO"))
    assert commit.value.code == "commit_missing"


def test_branch_has_its_own_versions_commits_and_stamp(durable_location: Location) -> None:
    make_graph(durable_location)
    before = next(iter(_publish_some(durable_location, 1)))
    record = create_branch(durable_location, "review/1", "me", read_snapshot(durable_location))
    start = read_snapshot(durable_location, "review/1")
    assert (start.branch, start.head, start.stamp) == (record, before, 1)
    assert start.manifest.dataset.metadata == newest(durable_location).dataset.metadata
    for _ in range(2):
        publish_next(durable_location, COMPANY, branch="review/1")
    after = read_snapshot(durable_location, "review/1")
    main = read_snapshot(durable_location)
    assert (after.tables[COMPANY].pin.version, main.tables[COMPANY].pin.version) == (3, 1)
    assert main.head == before
    middle = read_snapshot(durable_location, "review/1", version=after.version - 1)
    assert middle.tables[COMPANY].pin.version == 2
    assert read_commit_snapshot(durable_location, after.head, "review/1")[0].version == after.version
    old = read_commit_snapshot(durable_location, before, "review/1")[0]
    assert pins_of(old) == pins_of(start)
    with pytest.raises(NotFoundError):
        read_commit_snapshot(durable_location, after.head)


def test_copied_graph_has_main_only(durable_location: Location, request: pytest.FixtureRequest) -> None:
    _fill_with_branch(durable_location)
    elsewhere = replace(durable_location, uri=durable_location.uri.replace("graph.omni", "copy.omni"))
    copy_graph(durable_location, elsewhere)
    assert read_contents(elsewhere) == read_contents(durable_location)
    run(elsewhere, [TableChange(PERSON, insert=("only in the copy",))])
    assert "only in the copy" in read_contents(elsewhere)[PERSON]
    assert "only in the copy" not in read_contents(durable_location)[PERSON]
    before = tree(elsewhere)
    for call in (
        lambda: read_snapshot(elsewhere, "b"),
        lambda: read_commit_snapshot(elsewhere, CommitId("X"), "b"),
        lambda: run(elsewhere, [TableChange(PERSON, insert=("x",))], branch="b"),
    ):
        _require_moved_error(call, durable_location)
    assert tree(elsewhere) == before
    assert read_contents(durable_location, "b")[PERSON].keys() == {"on main", "on b"}


def _fill_with_branch(location: Location) -> Snapshot:
    make_graph(location)
    run(location, [TableChange(PERSON, insert=("on main",))])
    create_branch(location, "b", "me", read_snapshot(location))
    run(location, [TableChange(PERSON, insert=("on b",))], branch="b")
    return read_snapshot(location)


def _require_moved_error(call: object, origin: Location) -> None:
    assert callable(call)
    with pytest.raises(FormatError) as caught:
        call()
    assert caught.value.code == "graph_moved"
    assert caught.value.facts["recorded"] == origin.uri
    assert "graph.fix_location()" in caught.value.hint
