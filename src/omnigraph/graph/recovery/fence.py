"""Fence a table against paused writers: a Restore that changes nothing, after which Lance rejects older staged commits.

Lance never rejects a Restore itself. So a Restore that did not land directly above the version that it restored has
hidden other commits. Then the version below it is restored in turn, until nothing is in between. The `hold` of the
caller runs before every Restore.
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
    """Commit a Restore of `restore` (None: of HEAD), make sure that it hides nothing, and return the new HEAD.

    The caller chose `restore` for the versions up to `dataset`. Commits above `dataset` must not be hidden either, so
    the Restore is committed through that handle.
    """
    handle = dataset.newest() if restore is None else dataset
    target = handle.version if restore is None else restore
    for _ in range(limits.FENCE_ATTEMPTS_MAX):
        guard.hold()
        failpoint(Failpoint.FENCE_BEFORE)
        restored = commit_restore(handle, target, guard.properties)
        failpoint(Failpoint.FENCE_AFTER)
        if restored.version == handle.version + 1:
            return restored
        handle, target = restored, restored.version - 1
    raise ConflictError(
        f"cannot restore a version of {dataset.uri}: other writers changed it {limits.FENCE_ATTEMPTS_MAX} times",
        code="fence_contention",
        hint="No data was lost. Stop the external writer, then retry.",
        facts={"uri": dataset.uri},
    )


def read_history(dataset: Dataset, base: int) -> TableHistory:
    """Read the versions above `base` of the dataset as it was opened."""
    return TableHistory(base, dataset.version, read_operations(dataset, base, dataset.version))


def can_publish(history: TableHistory) -> bool:
    """Return whether HEAD has the content of the pinned base and no external commit is above the base."""
    return not history.has_external_above(history.base) and history.content_version(history.head) == history.base
