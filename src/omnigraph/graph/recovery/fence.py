"""The fence against paused writers: a Restore that changes nothing and makes Lance refuse what was staged before it.

Lance never refuses a Restore itself. So one that did not land directly above what it restored has hidden
something; the version below it is restored in turn, until nothing lies in between. The caller's `hold` runs
before every Restore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.base.errors import ConflictError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.graph.recovery.history import TableHistory
from omnigraph.storage.lance.commit import commit_restore
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.transactions import read_operations


@dataclass(frozen=True, slots=True)
class Guard:
    """What a Restore needs: the check before it, and the properties that mark it as ours."""

    hold: Callable[[], None]
    properties: Mapping[str, str]


def fence_table(dataset: Dataset, guard: Guard, *, restore: int | None = None) -> Dataset:
    """Commit a Restore of `restore` (None: of HEAD) and make sure that it hides nothing; the handle of the new HEAD.

    The caller chose `restore` for what it saw up to `dataset`. So whatever landed above `dataset` since then is not
    to be hidden either, and the Restore goes through that very handle.
    """
    handle = dataset.newest() if restore is None else dataset
    target = handle.version if restore is None else restore
    for _ in range(limits.FENCE_ATTEMPTS_MAX):
        guard.hold()
        failpoint(Failpoint.FENCE_BEFORE)
        landed = commit_restore(handle, target, guard.properties)
        failpoint(Failpoint.FENCE_AFTER)
        if landed.version == handle.version + 1:
            return landed
        handle, target = landed, landed.version - 1
    raise ConflictError(
        f"other writers kept changing {dataset.uri} while it was fenced",
        code="fence_contention",
        hint="stop the foreign writer, then retry; nothing was lost",
        facts={"uri": dataset.uri},
    )


def read_history(dataset: Dataset, base: int) -> TableHistory:
    """What lies above `base` on the dataset as it was opened."""
    return TableHistory(base, dataset.version, read_operations(dataset, base, dataset.version))


def can_publish(history: TableHistory) -> bool:
    """Whether HEAD may be published in place of the pinned base: the same content, and nothing foreign above it."""
    return not history.foreign_above(history.base) and history.content_of(history.head) == history.base
