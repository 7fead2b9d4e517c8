"""Which files of one dataset are deleted, and in which order: a join of a listing with what versions reference. Pure.

In: the files of a listing, the decision about versions and forks, and the files that retained and other versions need.
Out: `DeletableFile`s in the order of deletion: forks, children before parents; then the manifests of old versions; then
files that only those needed; then orphans, which no version needs and which are beyond the grace. Within each of them
manifests are first, so that a partial deletion leaves no version that looks complete. Files that Lance did not write
are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from omnigraph.maintenance.cleanup.retention import Needs, RetentionDecision, RetentionPolicy, owner_of
from omnigraph.storage.files import StoredFile
from omnigraph.storage.lance import layout


class Reason(Enum):
    """Why a file is deleted, in the order of deletion."""

    FORK = "fork"
    """It belongs to a Lance branch that no live branch needs."""
    VERSION = "version"
    """It is the manifest of a version that is not retained."""
    UNREACHED = "unreached"
    """Only versions that are not retained reference it."""
    ORPHAN = "orphan"
    """No version references it."""
    DATASET = "dataset"
    """No retained snapshot has its dataset."""
    LEFTOVER = "leftover"
    """An operation that was killed left it outside of datasets."""


_ORDER: Final = {reason: position for position, reason in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class DeletableFile:
    """A file to delete: its path below the dataset, and the Lance branch that it belongs to."""

    path: str
    size_bytes: int
    reason: Reason
    branch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRules:
    """The rules for the files of a dataset that is retained.

    `retained` and `referenced` are the groups of files that retained versions and all versions need.
    """

    decision: RetentionDecision
    retained: frozenset[str]
    referenced: frozenset[str]
    needs: Needs
    policy: RetentionPolicy

    def find_deletable(self, files: Sequence[StoredFile]) -> tuple[DeletableFile, ...]:
        """Return the files to delete, in order."""
        forks = {name: position for position, name in enumerate(self.decision.deletable_forks)}
        deletable: list[tuple[tuple[int, int, int], DeletableFile]] = []
        for file in files:
            branch, rest = layout.split_branch(file.path)
            fork = layout.referenced_branch(file.path) if branch is None and forks else branch
            if fork in forks:
                within = layout.REFERENCES_LAST if branch is None else layout.manifests_first(rest)
                order = (forks[fork], within, 0)
                deletable.append((order, DeletableFile(file.path, file.size_bytes, Reason.FORK, fork)))
            elif (reason := self._reason(file, branch, rest)) is not None:
                order = (len(forks), _ORDER[reason], layout.manifests_first(rest))
                deletable.append((order, DeletableFile(file.path, file.size_bytes, reason, branch)))
        return tuple(file for _, file in sorted(deletable, key=lambda entry: (entry[0], entry[1].path)))

    def _reason(self, file: StoredFile, branch: str | None, rest: str) -> Reason | None:
        """Return why a file is deleted; None if it is kept."""
        if branch not in self.decision.retained:
            return self._reason_without_ref(file, branch)
        version = layout.manifest_version(rest)
        if version is not None:
            return None if version in self.decision.retained[branch] else Reason.VERSION
        group = rest if layout.is_unfinished(rest) else layout.file_group(rest)
        if group is None or layout.file_group_key(branch, group) in self.retained:
            return None
        if layout.file_group_key(branch, group) in self.referenced:
            return Reason.UNREACHED
        return Reason.ORPHAN if self.policy.is_beyond_grace(file.modified_us) else None

    def _reason_without_ref(self, file: StoredFile, branch: str | None) -> Reason | None:
        """Return the reason for a file of a Lance branch without a ref, which was partially created or deleted."""
        owner = None if branch is None else owner_of(branch)
        is_deleted = owner is not None and owner not in self.needs.live
        is_old = self.policy.is_beyond_age if is_deleted else self.policy.is_beyond_grace
        return Reason.ORPHAN if is_old(file.modified_us) else None


def find_all_deletable(
    files: Sequence[StoredFile], policy: RetentionPolicy, *, is_in_manifest: bool
) -> tuple[DeletableFile, ...]:
    """Return all files of a dataset that no retained snapshot has, or none while one of them is young.

    A writer may be creating a dataset that no manifest names, so its files must be beyond the grace.
    """
    is_old = policy.is_beyond_age if is_in_manifest else policy.is_beyond_grace
    if not all(is_old(file.modified_us) for file in files):
        return ()
    reason = Reason.DATASET if is_in_manifest else Reason.ORPHAN
    ordered = sorted(files, key=lambda file: (layout.manifests_first(layout.split_branch(file.path)[1]), file.path))
    return tuple(
        DeletableFile(file.path, file.size_bytes, reason, layout.split_branch(file.path)[0]) for file in ordered
    )


def version_times(files: Iterable[StoredFile]) -> dict[str | None, dict[int, int]]:
    """Return the versions of every Lance branch with their times, from a listing alone."""
    times_by_branch: dict[str | None, dict[int, int]] = {None: {}}
    for file in files:
        if layout.VERSIONS_DIRECTORY not in file.path:
            continue
        branch, rest = layout.split_branch(file.path)
        version = layout.manifest_version(rest)
        if version is not None:
            times_by_branch.setdefault(branch, {})[version] = file.modified_us
    return times_by_branch


def ref_times(files: Iterable[StoredFile]) -> dict[str, int]:
    """Return when each Lance branch was created."""
    refs = ((layout.referenced_branch(file.path), file.modified_us) for file in files)
    return {name: time_us for name, time_us in refs if name is not None}


def is_manifest(file: DeletableFile) -> bool:
    """Whether the file is the manifest of a version."""
    return layout.split_branch(file.path)[1].startswith(layout.VERSIONS_DIRECTORY)


def emptied_directory(file: DeletableFile) -> str | None:
    """Return the directory below the dataset that is empty after the deletion; None if there is none."""
    if file.reason is Reason.LEFTOVER:
        return file.path.partition("/")[0]
    if file.reason is Reason.FORK and file.path.startswith(layout.BRANCHES_DIRECTORY):
        return f"{layout.BRANCHES_DIRECTORY}{file.branch}"
    if file.path.count("/") == 1:  # in a directory of Lance itself, which is kept
        return None
    branch, rest = layout.split_branch(file.path)
    group = layout.file_group(rest)
    return layout.file_group_key(branch, group) if group is not None and rest.startswith(f"{group}/") else None
