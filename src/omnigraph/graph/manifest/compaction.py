"""Keep `__manifest` small, so that the cost of reading it does not grow with the length of history.

In: an open manifest, under the lease of its branch. Out: the manifest in fewer fragments. Compaction changes no row
and needs no intent: a crash leaves a manifest with the same rows. A compaction that loses to a publisher is not an
error; the next writer compacts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.base.clock import Clock
from omnigraph.base.errors import ConflictError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.graph.manifest.reader import Manifest, open_manifest
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat, read_stamp
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance import commit
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, describe_fragments
from omnigraph.storage.location import Location


def needs_compaction(fragment_rows: Iterable[int]) -> bool:
    """Return whether there are too many small fragments. Full fragments are never rewritten and do not count."""
    small = sum(1 for rows in fragment_rows if rows < limits.MANIFEST_ROWS_PER_FRAGMENT)
    return small > limits.MANIFEST_FRAGMENTS_MAX


def compact_manifest(manifest: Manifest, storage_format: StorageFormat = FORMAT) -> Manifest:
    """Compact all fragments but the anchor. Settings that let a commit delete old versions are removed first."""
    try:
        dataset = _compact(_remove_auto_cleanup(manifest.dataset))
    except CommitRaceError:
        dataset = manifest.dataset.newest()
    return Manifest(dataset, read_stamp(dataset, storage_format))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCompaction:
    """What a compaction of the manifest did; nothing unless `committed`.

    `stripped`: settings that let a commit delete old versions were removed.
    """

    version: int
    committed: bool = False
    fragments_removed: int = 0
    fragments_added: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    stripped: bool = False


def plan_manifest_compaction(manifest: Manifest) -> ManifestCompaction:
    """Return what a compaction would do. The size after it is an estimate."""
    fragments, anchor = describe_fragments(manifest.dataset), commit.anchor_fragment(manifest.dataset)
    size = sum(fragment.size_bytes for fragment in fragments.values())
    chosen = [
        fragment
        for number, fragment in fragments.items()
        if number != anchor and (_is_small(fragment) or _is_shrunk(fragment))
    ]
    rows = sum(fragment.rows for fragment in chosen) if _is_worth_it(fragments, anchor) else 0
    return ManifestCompaction(
        version=manifest.version,
        fragments_removed=len(chosen) if rows else 0,
        fragments_added=-(-rows // limits.MANIFEST_ROWS_PER_FRAGMENT),
        bytes_before=size,
        bytes_after=size,
        stripped=commit.has_auto_cleanup(manifest.dataset),
    )


def compact_manifest_fully(
    root: Location, lance_branch: str | None, storage_format: StorageFormat, clock: Clock
) -> ManifestCompaction:
    """Compact a manifest branch while writers publish, with a bounded number of attempts.

    Settings that were removed count as committed even if the compaction after that loses to a publisher.
    """
    stripped = False
    for attempt in range(limits.MANIFEST_COMPACTION_ATTEMPTS_MAX):
        manifest = open_manifest(root, lance_branch=lance_branch, storage_format=storage_format)
        dataset = manifest.dataset
        before = after = describe_fragments(dataset)
        if commit.has_auto_cleanup(dataset) or _is_worth_it(before, commit.anchor_fragment(dataset)):
            try:
                dataset = _remove_auto_cleanup(dataset)
                stripped = stripped or dataset.version != manifest.version
                dataset = _compact(dataset)
            except CommitRaceError:
                clock.sleep(backoff_seconds(attempt) * (0.5 + random.random()))
                continue
            after = describe_fragments(dataset)
        return ManifestCompaction(
            version=dataset.version,
            committed=stripped or dataset.version != manifest.version,
            fragments_removed=len(before.keys() - after.keys()),
            fragments_added=len(after.keys() - before.keys()),
            bytes_before=sum(fragment.size_bytes for fragment in before.values()),
            bytes_after=sum(fragment.size_bytes for fragment in after.values()),
            stripped=stripped,
        )
    raise ConflictError(
        "cannot compact the manifest: other writers published during all "
        f"{limits.MANIFEST_COMPACTION_ATTEMPTS_MAX} attempts",
        code="manifest_contention",
        hint=hint("No data was lost. Run {} again when fewer writers are active.", action("optimize")),
        facts={"attempts": limits.MANIFEST_COMPACTION_ATTEMPTS_MAX, "stripped": stripped},
    )


def _remove_auto_cleanup(dataset: Dataset) -> Dataset:
    failpoint(Failpoint.STRIP_BEFORE)
    return commit.commit_strip_auto_cleanup(dataset) or dataset


def _compact(dataset: Dataset) -> Dataset:
    anchor = commit.anchor_fragment(dataset)
    failpoint(Failpoint.COMPACT_BEFORE)
    outcome = commit.commit_compaction(dataset, limits.MANIFEST_ROWS_PER_FRAGMENT, () if anchor is None else (anchor,))
    failpoint(Failpoint.COMPACT_AFTER)
    return outcome.dataset


def _is_worth_it(fragments: Mapping[int, Fragment], anchor: int | None) -> bool:
    """Return whether Lance would rewrite anything."""
    free = [fragment for number, fragment in fragments.items() if number != anchor]
    return sum(map(_is_small, free)) > 1 or any(map(_is_shrunk, free))


def _is_small(fragment: Fragment) -> bool:
    return fragment.rows < limits.MANIFEST_ROWS_PER_FRAGMENT


def _is_shrunk(fragment: Fragment) -> bool:
    return fragment.deleted_rows > limits.COMPACTION_DELETED_SHARE * (fragment.rows + fragment.deleted_rows)


def backoff_seconds(attempt: int) -> float:
    """Return how long to wait after an attempt that lost to another writer, before jitter."""
    return min(limits.PUBLISHER_BACKOFF_SECONDS_MAX, limits.PUBLISHER_BACKOFF_SECONDS_MIN * float(1 << attempt))
