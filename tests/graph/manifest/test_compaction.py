"""Compaction of `__manifest`: when it runs, and that every snapshot and every commit is still readable."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.compaction import (
    compact_manifest,
    compact_manifest_fully,
    needs_compaction,
    plan_manifest_compaction,
)
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.storage.lance.commit import commit_compaction
from omnigraph.storage.location import Location
from tests.graph.publishing import make_graph, newest, pins_of, publish_next
from tests.graph.writers import TABLES


def test_needs_compaction() -> None:
    small, full = 2, limits.MANIFEST_ROWS_PER_FRAGMENT
    assert not needs_compaction((small,) * limits.MANIFEST_FRAGMENTS_MAX)
    assert needs_compaction((small,) * (limits.MANIFEST_FRAGMENTS_MAX + 1))
    assert not needs_compaction((*(full,) * 50, *(small,) * limits.MANIFEST_FRAGMENTS_MAX))


def test_writers_compact_the_manifest_and_every_version_is_readable(durable_location: Location) -> None:
    rounds = 2 if durable_location.is_local else 1
    _publish_and_read_back(durable_location, MAIN, rounds * limits.MANIFEST_FRAGMENTS_MAX + 2)


def test_branch_manifest_is_compacted(local_location: Location) -> None:
    make_graph(local_location)
    create_branch(local_location, "b", "me", read_snapshot(local_location))
    _publish_and_read_back(local_location, "b", limits.MANIFEST_FRAGMENTS_MAX + 4)


def _publish_and_read_back(location: Location, branch: str, times: int) -> None:
    if branch == MAIN:
        make_graph(location)
    first = read_snapshot(location, branch)
    by_version = {first.version: pins_of(first)}
    by_commit = {}
    for number in range(times):
        publish_next(location, TABLES[number % 3], branch=branch)
        snapshot = read_snapshot(location, branch)
        assert len(snapshot.manifest.dataset.fragment_rows()) <= limits.MANIFEST_FRAGMENTS_MAX + 1
        by_version[snapshot.version] = by_commit[snapshot.head] = pins_of(snapshot)
    assert snapshot.version > first.version + times, "no compaction happened"
    for version, pins in by_version.items():
        assert pins_of(read_snapshot(location, branch, version=version)) == pins
    for commit, pins in by_commit.items():
        assert pins_of(read_commit_snapshot(location, commit, branch)[0]) == pins
    history = list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    assert len(history) == times + 1


def test_compaction_changes_no_row_and_a_second_run_changes_nothing(store_location: Location) -> None:
    make_graph(store_location)
    for _ in range(4):
        publish_next(store_location)
    before = newest(store_location)
    compacted = compact_manifest(before)
    assert compacted.version > before.version
    assert len(compacted.dataset.fragment_rows()) < len(before.dataset.fragment_rows())
    assert _rows(compacted.dataset.read().to_pylist()) == _rows(before.dataset.read().to_pylist())
    assert compact_manifest(compacted).version == compacted.version


def test_plan_matches_the_rewrite_of_lance(local_location: Location) -> None:
    """Lance rewrites a fragment of ten rows if two are deleted, but not if one is."""
    make_graph(local_location)
    for _ in range(8):
        publish_next(local_location)
    compact_manifest(newest(local_location))
    for is_enough in (False, True):
        dataset = newest(local_location).dataset
        (_, rewritten) = dataset.native.get_fragments()
        assert rewritten.physical_rows == 10
        (victim, *_) = rewritten.to_table(columns=["object_id"])["object_id"].to_pylist()
        dataset.native_copy().delete(f"object_id = '{victim}'")
        manifest = newest(local_location)
        assert plan_manifest_compaction(manifest).fragments_removed == is_enough
        done = commit_compaction(manifest.dataset, limits.MANIFEST_ROWS_PER_FRAGMENT, excluded_fragment_ids=(0,))
        assert done.fragments_removed == is_enough


def test_compaction_that_loses_to_a_publisher_is_not_an_error(local_location: Location) -> None:
    make_graph(local_location)
    for _ in range(3):
        publish_next(local_location)
    stale = newest(local_location)
    compact_manifest(newest(local_location))
    compacted = compact_manifest(stale)
    assert compacted.version == newest(local_location).version
    assert compacted.read_state() == newest(local_location).read_state()


def test_automatic_cleanup_setting_is_removed_before_it_deletes_versions(durable_location: Location) -> None:
    """Lance would delete old versions at the next commit."""
    make_graph(durable_location)
    for _ in range(3):
        publish_next(durable_location)
    before = read_snapshot(durable_location)
    planted: dict[str, str | None] = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    newest(durable_location).dataset.native_copy().update_config(planted)
    versions = set(newest(durable_location).dataset.versions())
    publish_next(durable_location)
    after = newest(durable_location)
    assert after.dataset.config() == {}
    assert versions <= set(after.dataset.versions())
    assert pins_of(read_commit_snapshot(durable_location, before.head)[0]) == pins_of(before)


def test_removed_setting_is_reported_if_the_compaction_after_it_is_lost(local_location: Location) -> None:
    make_graph(local_location)
    for _ in range(3):
        publish_next(local_location)
    planted: dict[str, str | None] = {"lance.auto_cleanup.interval": "1000"}
    newest(local_location).dataset.native_copy().update_config(planted)
    lost: list[int] = []

    def win(effect: str, target: str) -> None:
        if effect == "dataset.compact" and not lost:
            lost.append(0)
            compact_manifest(newest(local_location))

    with observed(win):
        done = compact_manifest_fully(local_location, None, WriteEnvironment().storage_format, WriteEnvironment().clock)
    assert lost
    assert (done.stripped, done.committed) == (True, True)
    assert newest(local_location).dataset.config() == {}


def _rows(rows: list[dict[str, object]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)
