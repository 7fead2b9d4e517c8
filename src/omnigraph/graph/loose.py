"""What Lance commits by itself under the lease, and the proof that nothing else happened meanwhile.

In: finished files, such as segments of indexes. Out: the run of a loose effect, which only `graph/commit` calls,
between Arm and Publish. It changes no content. A crash in the middle leaves some of its versions behind, and recovery
publishes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import OperationId
from omnigraph.graph.intent import LOOSE_OPERATIONS, WriterKind
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.staged import LooseEffect, LooseRun
from omnigraph.storage.commit import DisplacedCommitError
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.indexes import IndexSegment, IndexSpec, commit_index_segments


def index_run(segments: Mapping[IndexSpec, Sequence[IndexSegment]]) -> LooseRun:
    """Publishes the segments of some indexes of one table, one version per index."""

    def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
        for spec, parts in segments.items():
            hold()
            failpoint(Failpoint.INDEX_BEFORE)
            handle = commit_index_segments(handle, spec, parts)
            failpoint(Failpoint.INDEX_AFTER)
        return handle

    return run


def refuse_displaced(
    effect: LooseEffect, kind: WriterKind, operation: OperationId, committed: Dataset
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
