"""Run the commits that Lance makes by itself under the lease, and check that no other commits were made.

In: finished files: rewritten fragments and segments of indexes. Out: the run of a `MultiCommitEffect`, which only
`write/commit.py` calls, between Arm and Publish. It changes no content. A crash leaves some of the versions, and
recovery publishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import OperationId
from omnigraph.graph.coordination.intent import MULTI_COMMIT_OPERATIONS
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.write.states import MultiCommitEffect, MultiCommitRun
from omnigraph.storage.lance.commit import AUTO_CLEANUP_PREFIX, commit_staged, displaced_commit
from omnigraph.storage.lance.compaction import FragmentRewrite, stage_rewrite
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import StagedFile, fragment_files, index_files
from omnigraph.storage.lance.indexes import IndexSpec, StagedSegment, commit_index_segments, stage_segment_drop
from omnigraph.storage.lance.stage import stage_settings_removal


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """The commits to one table, in this order.

    Remove the settings of automatic cleanup, drop segments of indexes, commit rewritten fragments, publish index
    segments.
    """

    strip: bool
    dropped: frozenset[str]
    groups: Sequence[FragmentRewrite]
    segments: Mapping[IndexSpec, Sequence[StagedSegment]]

    def files(self) -> tuple[StagedFile, ...]:
        """Return the files that workers wrote for it."""
        rewritten = (fragment for group in self.groups for fragment in group.new)
        indexes = (part.native for parts in self.segments.values() for part in parts)
        return (*fragment_files(rewritten), *(file for index in indexes for file in index_files(index)))


def make_maintenance_run(maintenance: TableMaintenance, properties: Mapping[str, str]) -> MultiCommitRun:
    """Return a function that commits the maintenance of a table.

    It makes one version for the removed settings, the dropped segments, the rewrite and each index. Queries return the
    same rows at each of these versions.
    """

    def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
        stripped = stage_settings_removal(handle, AUTO_CLEANUP_PREFIX) if maintenance.strip else None
        if stripped is not None:
            hold()
            failpoint(Failpoint.TABLE_STRIP_BEFORE)
            handle = commit_staged(handle, stripped.with_properties(properties))
        if maintenance.dropped:
            hold()
            staged = stage_segment_drop(handle, maintenance.dropped).with_properties(properties)
            failpoint(Failpoint.INDEX_DROP_BEFORE)
            handle = commit_staged(handle, staged)
        if maintenance.groups:
            hold()
            staged = stage_rewrite(handle, maintenance.groups).with_properties(properties)
            failpoint(Failpoint.REWRITE_BEFORE)
            handle = commit_staged(handle, staged)
            failpoint(Failpoint.REWRITE_AFTER)
        for spec, parts in maintenance.segments.items():
            hold()
            failpoint(Failpoint.INDEX_BEFORE)
            handle = commit_index_segments(handle, spec, parts)
            failpoint(Failpoint.INDEX_AFTER)
        return handle

    return run


def require_only_own_commits(
    effect: MultiCommitEffect, kind: WriteOperation, operation: OperationId, committed: Dataset
) -> None:
    """Raise if a version above the base is neither ours nor an operation that this kind of writer may run."""
    history = read_history(committed, effect.base.version)
    if not history.has_only(MULTI_COMMIT_OPERATIONS[kind], operation):
        raise displaced_commit(committed, effect.base.version)
