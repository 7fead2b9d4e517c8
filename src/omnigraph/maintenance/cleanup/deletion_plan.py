"""Which files of one dataset go, and in which order: a join of a listing with what versions reach. Pure.

In: the files there are, the decision about versions and forks, and the files that retained and other versions need.
Out: `DeletableFile`s in the order in which they have to go: forks, children before parents; then the manifests of old
versions; then what only those needed; then orphans, which no version needs and which are beyond the grace. Within
whatever goes, manifests go first, so nothing half deleted looks whole. A file that is none of Lance's is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from omnigraph.maintenance.cleanup.retention import Decision, Needs, Policy, owner_of
from omnigraph.storage.files import StoredFile
from omnigraph.storage.lance.layout import (
    BRANCHES_DIRECTORY,
    REFERENCES_LAST,
    UNFINISHED_FILE,
    VERSIONS_DIRECTORY,
    file_group,
    file_group_key,
    file_group_keys,
    manifest_version,
    manifests_first,
    referenced_branch,
    split_branch,
)


class Reason(Enum):
    """Why a file goes. The order here is the order in which they go."""

    FORK = "fork"
    VERSION = "version"
    UNREACHED = "unreached"
    ORPHAN = "orphan"
    DATASET = "dataset"
    LEFTOVER = "leftover"


_ORDER: Final = {why: place for place, why in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class DeletableFile:
    """A file that goes: its path below the dataset, and the Lance branch that it belongs to."""

    path: str
    size_bytes: int
    why: Reason
    branch: str | None


@dataclass(frozen=True, slots=True)
class Reach:
    """What versions need, as paths below the dataset: retained ones, and any that there are."""

    retained: frozenset[str]
    known: frozenset[str]


def find_doomed(
    files: Sequence[StoredFile], decision: Decision, reach: Reach, needs: Needs, policy: Policy
) -> tuple[DeletableFile, ...]:
    """What goes of a dataset that stays, in order."""
    forks = {name: place for place, name in enumerate(decision.doomed_forks)}
    judge = _Judge(decision, file_group_keys(reach.retained), file_group_keys(reach.known), needs, policy)
    found: list[tuple[tuple[int, int, int], DeletableFile]] = []
    for file in files:
        branch, rest = split_branch(file.path)
        fork = referenced_branch(file.path) if branch is None and forks else branch
        if fork in forks:
            within = REFERENCES_LAST if branch is None else manifests_first(rest)
            found.append(
                ((forks[fork], within, 0), DeletableFile(file.path, file.size_bytes, Reason.FORK, fork))
            )
        elif (why := judge.why(file, branch, rest)) is not None:
            order = (len(forks), _ORDER[why], manifests_first(rest))
            found.append((order, DeletableFile(file.path, file.size_bytes, why, branch)))
    return tuple(file for _, file in sorted(found, key=lambda entry: (entry[0], entry[1].path)))


def find_all_doomed(
    files: Sequence[StoredFile], policy: Policy, *, is_known: bool
) -> tuple[DeletableFile, ...]:
    """Everything of a dataset that no retained snapshot has, or nothing while a part of it is young.

    One that no manifest knows may be in the making, so it has to be beyond the grace.
    """
    is_old = policy.is_beyond_age if is_known else policy.is_beyond_grace
    if not all(is_old(file.modified_us) for file in files):
        return ()
    why = Reason.DATASET if is_known else Reason.ORPHAN
    ordered = sorted(files, key=lambda file: (manifests_first(split_branch(file.path)[1]), file.path))
    return tuple(
        DeletableFile(file.path, file.size_bytes, why, split_branch(file.path)[0]) for file in ordered
    )


def read_lines(files: Iterable[StoredFile]) -> dict[str | None, dict[int, int]]:
    """The versions of every Lance branch with their times, from a listing alone."""
    lines: dict[str | None, dict[int, int]] = {None: {}}
    for file in files:
        branch, rest = split_branch(file.path)
        version = manifest_version(rest)
        if version is not None:
            lines.setdefault(branch, {})[version] = file.modified_us
    return lines


def ref_times(files: Iterable[StoredFile]) -> dict[str, int]:
    """When each Lance branch was made."""
    refs = ((referenced_branch(file.path), file.modified_us) for file in files)
    return {name: time_us for name, time_us in refs if name is not None}


def is_manifest(file: DeletableFile) -> bool:
    """Whether it is what makes a version one."""
    return split_branch(file.path)[1].startswith(VERSIONS_DIRECTORY)


def folder_of(file: DeletableFile) -> str | None:
    """The folder below the dataset that is empty once everything of the file's kind is gone; None when none is."""
    if file.why is Reason.LEFTOVER:
        return file.path.partition("/")[0]
    if file.why is Reason.FORK and file.path.startswith(BRANCHES_DIRECTORY):
        return f"{BRANCHES_DIRECTORY}{file.branch}"
    branch, rest = split_branch(file.path)
    unit = file_group(rest)
    return file_group_key(branch, unit) if unit is not None and rest.startswith(f"{unit}/") else None


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges the files of what stays. `retained` and `known` are units that retained and any versions need."""

    decision: Decision
    retained: frozenset[str]
    known: frozenset[str]
    needs: Needs
    policy: Policy

    def why(self, file: StoredFile, branch: str | None, rest: str) -> Reason | None:
        """Why a file goes; None when it stays."""
        if branch not in self.decision.retained:
            return self._why_without_ref(file, branch)
        version = manifest_version(rest)
        if version is not None:
            return None if version in self.decision.retained[branch] else Reason.VERSION
        unit = rest if "#" in rest and UNFINISHED_FILE.fullmatch(rest) else file_group(rest)
        if unit is None or file_group_key(branch, unit) in self.retained:
            return None
        if file_group_key(branch, unit) in self.known:
            return Reason.UNREACHED
        return Reason.ORPHAN if self.policy.is_beyond_grace(file.modified_us) else None

    def _why_without_ref(self, file: StoredFile, branch: str | None) -> Reason | None:
        """A file of a Lance branch that has no ref: it was made half, or deleted half."""
        owner = None if branch is None else owner_of(branch)
        is_gone = owner is not None and owner not in self.needs.live
        is_old = self.policy.is_beyond_age if is_gone else self.policy.is_beyond_grace
        return Reason.ORPHAN if is_old(file.modified_us) else None
