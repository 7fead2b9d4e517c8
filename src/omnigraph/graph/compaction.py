"""Keeps `__manifest` small: the cost of reading it must not follow the length of history.

Content-preserving and without an intent: it changes no row, so a crash in the middle leaves a manifest that says the
same. The caller holds the branch's lease; losing to a live publisher is no error, the next writer does it.
"""

from __future__ import annotations

from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.limits import MANIFEST_FRAGMENTS_MAX, MANIFEST_ROWS_PER_FRAGMENT
from omnigraph.graph.manifest import Manifest
from omnigraph.graph.stamp import FORMAT, Format, read_stamp
from omnigraph.storage.commit import AUTO_CLEANUP_PREFIX, commit_compaction, commit_strip_auto_cleanup
from omnigraph.storage.failures import CommitRaceError
from omnigraph.storage.replacement import anchor_of


def needs_compaction(fragment_row_counts: tuple[int, ...]) -> bool:
    """Whether enough small fragments have piled up; full ones are never rewritten, so they do not count."""
    small = sum(1 for rows in fragment_row_counts if rows < MANIFEST_ROWS_PER_FRAGMENT)
    return small > MANIFEST_FRAGMENTS_MAX


def can_lose_versions(manifest: Manifest) -> bool:
    """Whether a foreign setting lets the next commit collect old versions."""
    return any(key.startswith(AUTO_CLEANUP_PREFIX) for key in manifest.dataset.config())


def compact_manifest(manifest: Manifest, rules: Format = FORMAT) -> Manifest:
    """Compact now, all but the anchor. Settings that would let a commit collect old versions are removed first."""
    failpoint(Failpoint.STRIP_BEFORE)
    try:
        stripped = commit_strip_auto_cleanup(manifest.dataset)
        dataset = manifest.dataset.newest() if stripped else manifest.dataset
        anchor = anchor_of(dataset)
        failpoint(Failpoint.COMPACT_BEFORE)
        outcome = commit_compaction(dataset, MANIFEST_ROWS_PER_FRAGMENT, () if anchor is None else (anchor,))
    except CommitRaceError:
        newest = manifest.dataset.newest()
        return Manifest(newest, read_stamp(newest, rules))
    failpoint(Failpoint.COMPACT_AFTER)
    return Manifest(outcome.dataset, read_stamp(outcome.dataset, rules))
