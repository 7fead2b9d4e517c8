"""Compaction of `__manifest`: when, and that every snapshot and every commit can still be read."""

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


def test_when_it_is_needed() -> None:
    small, full = 2, limits.MANIFEST_ROWS_PER_FRAGMENT
    assert not needs_compaction((small,) * limits.MANIFEST_FRAGMENTS_MAX)
    assert needs_compaction((small,) * (limits.MANIFEST_FRAGMENTS_MAX + 1))
    assert not needs_compaction((*(full,) * 50, *(small,) * limits.MANIFEST_FRAGMENTS_MAX))


def test_writers_keep_the_manifest_small_and_everything_readable(durable_location: Location) -> None:
    rounds = 2 if durable_location.is_local else 1
    _publish_and_read_back(durable_location, MAIN, rounds * limits.MANIFEST_FRAGMENTS_MAX + 2)


def test_a_branch_is_kept_small_too(local_location: Location) -> None:
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


def test_compacting_changes_no_row_and_twice_changes_nothing(store_location: Location) -> None:
    make_graph(store_location)
    for _ in range(4):
        publish_next(store_location)
    before = newest(store_location)
    compacted = compact_manifest(before)
    assert compacted.version > before.version
    assert len(compacted.dataset.fragment_rows()) < len(before.dataset.fragment_rows())
    assert _rows(compacted.dataset.read().to_pylist()) == _rows(before.dataset.read().to_pylist())
    assert compact_manifest(compacted).version == compacted.version


def test_a_rewrite_is_planned_where_lance_makes_one(local_location: Location) -> None:
    """Of ten rows one deleted is not enough, two are."""
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
        done = commit_compaction(
            manifest.dataset, limits.MANIFEST_ROWS_PER_FRAGMENT, excluded_fragment_ids=(0,)
        )
        assert done.fragments_removed == is_enough


def test_losing_to_a_publisher_is_no_error(local_location: Location) -> None:
    make_graph(local_location)
    for _ in range(3):
        publish_next(local_location)
    stale = newest(local_location)
    compact_manifest(newest(local_location))
    seen = compact_manifest(stale)
    assert seen.version == newest(local_location).version
    assert seen.read_state() == newest(local_location).read_state()


def test_a_planted_automatic_cleanup_is_removed_before_it_can_delete(durable_location: Location) -> None:
    """Lance would collect old versions at the very next commit."""
    make_graph(durable_location)
    for _ in range(3):
        publish_next(durable_location)
    kept = read_snapshot(durable_location)
    planted: dict[str, str | None] = {
        "lance.auto_cleanup.interval": "1",
        "lance.auto_cleanup.older_than": "0s",
    }
    newest(durable_location).dataset.native_copy().update_config(planted)
    versions = set(newest(durable_location).dataset.versions())
    publish_next(durable_location)
    after = newest(durable_location)
    assert after.dataset.config() == {}
    assert versions <= set(after.dataset.versions())
    assert pins_of(read_commit_snapshot(durable_location, kept.head)[0]) == pins_of(kept)


def test_a_strip_is_told_although_the_compaction_after_it_was_lost(local_location: Location) -> None:
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
        done = compact_manifest_fully(
            local_location, None, WriteEnvironment().rules, WriteEnvironment().clock
        )
    assert lost
    assert (done.stripped, done.committed) == (True, True)
    assert newest(local_location).dataset.config() == {}


def _rows(rows: list[dict[str, object]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)
