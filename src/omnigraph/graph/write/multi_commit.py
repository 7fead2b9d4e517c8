"""What Lance commits by itself under the lease, and the proof that nothing else happened meanwhile.

In: finished files: rewritten fragments, segments of indexes. Out: the run of a loose effect, which only `graph/commit`
calls, between Arm and Publish. It changes no content. A crash in the middle leaves some of its versions behind, and
recovery publishes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import OperationId
from omnigraph.graph.coordination.intent import LOOSE_OPERATIONS, WriterKind
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.write.states import MultiCommitEffect, MultiCommitRun
from omnigraph.storage.lance.commit import AUTO_CLEANUP_PREFIX, DisplacedCommitError, commit_staged
from omnigraph.storage.lance.compaction import FragmentRewrite, stage_rewrite
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import StagedFile, fragment_files, index_files
from omnigraph.storage.lance.indexes import IndexSegment, IndexSpec, commit_index_segments, stage_segment_drop
from omnigraph.storage.lance.stage import stage_settings_removal


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """What to commit to one table, in this order: strip automatic cleanup, drop segments of indexes, put rewritten
    groups in place, publish the segments of some indexes.
    """

    strip: bool
    dropped: frozenset[str]
    groups: Sequence[FragmentRewrite]
    segments: Mapping[IndexSpec, Sequence[IndexSegment]]

    def files(self) -> tuple[StagedFile, ...]:
        """The files that workers wrote for it."""
        rewritten = (fragment for group in self.groups for fragment in group.new)
        indexes = (part.native for parts in self.segments.values() for part in parts)
        return (*fragment_files(rewritten), *(file for index in indexes for file in index_files(index)))


def upkeep_run(upkeep: TableMaintenance, properties: Mapping[str, str]) -> MultiCommitRun:
    """Commits it: a version for the strip, the drop, the rewrite and each index. Between them answers stay right."""

    def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
        stripped = stage_settings_removal(handle, AUTO_CLEANUP_PREFIX) if upkeep.strip else None
        if stripped is not None:
            hold()
            failpoint(Failpoint.TABLE_STRIP_BEFORE)
            handle = commit_staged(handle, stripped.with_properties(properties))
        if upkeep.dropped:
            hold()
            staged = stage_segment_drop(handle, upkeep.dropped).with_properties(properties)
            failpoint(Failpoint.INDEX_DROP_BEFORE)
            handle = commit_staged(handle, staged)
        if upkeep.groups:
            hold()
            staged = stage_rewrite(handle, upkeep.groups).with_properties(properties)
            failpoint(Failpoint.REWRITE_BEFORE)
            handle = commit_staged(handle, staged)
            failpoint(Failpoint.REWRITE_AFTER)
        for spec, parts in upkeep.segments.items():
            hold()
            failpoint(Failpoint.INDEX_BEFORE)
            handle = commit_index_segments(handle, spec, parts)
            failpoint(Failpoint.INDEX_AFTER)
        return handle

    return run


def refuse_displaced(
    effect: MultiCommitEffect, kind: WriterKind, operation: OperationId, committed: Dataset
) -> None:
    """Raise when anything but what the kind may do lies between the base and what was committed."""
    history = read_history(committed, effect.base.version)
    if not history.only(LOOSE_OPERATIONS[kind], operation):
        raise DisplacedCommitError(
            f"a foreign change landed at {committed.uri} between check and commit",
            code="commit_displaced",
            hint="run `omnigraph repair`",
            facts={"uri": committed.uri, "base": effect.base.version, "actual": committed.version},
        )
