"""Decides which versions and Lance branches of one dataset are retained, and the order to delete the others. Pure.

In: the versions with their times, Lance branches and tags of a dataset; what is needed from outside (the pins of
retained snapshots, the ids of live graph branches); and the policy. Out: a `RetentionDecision`. It never deletes the
newest version of a retained branch, a version that is needed or tagged or that a retained branch was created from, a
version above the newest needed one, or one that was current within the last `CLEANUP_AGE_SECONDS_MIN`. A version that
is retained although the policy names it has a `KeepReason`. See decision 0013.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Final

from omnigraph.graph.manifest.records import Pin

_FORK_NAME: Final = re.compile(r"b-(?P<manifest>[0-9A-Z]{26})|g-(?P<table>[0-9A-Z]{26})-[0-9A-Z]{26}")

VersionTimes = Mapping[int, int]
"""The versions of one Lance branch, each with the time of its creation in microseconds."""


class KeepReason(StrEnum):
    """Why a version is kept although the policy would delete it. The first one that applies counts."""

    BRANCH = "branch"
    """A live branch reads it, or a Lance branch was created from it."""
    TAG = "tag"
    """A Lance tag names it."""
    MERGE_BASE = "merge_base"
    """It belongs to a commit that is the merge base of two live branches."""
    SNAPSHOT = "snapshot"
    """A retained commit reads it."""
    UNPUBLISHED = "unpublished"
    """It is above the published version."""
    YOUNG = "young"
    """It is younger than ten minutes, or was current within them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What may be deleted, as of a time. Files created after `now_us` are too young in every case.

    With `keep` and `older_than_us` a version is deleted only if neither keeps it. `grace_us` is the minimum age of
    unreferenced files, `age_us_min` that of all files.
    """

    now_us: int
    keep: int | None
    older_than_us: int | None
    grace_us: int
    age_us_min: int

    def is_beyond_age(self, time_us: int) -> bool:
        """Return whether a file is old enough to be deleted at all."""
        return self.now_us - time_us > self.age_us_min

    def is_beyond_grace(self, time_us: int) -> bool:
        """Return whether no running write can have created the file."""
        return self.now_us - time_us > max(self.grace_us, self.age_us_min)


@dataclass(frozen=True, slots=True)
class Fork:
    """A Lance branch: the version it was created from, and when."""

    name: str
    parent: Pin
    created_us: int


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """The state of a dataset. `version_times` has the versions of each Lance branch; None is Lance's main."""

    version_times: Mapping[str | None, VersionTimes]
    forks: Mapping[str, Fork]
    tags: frozenset[Pin]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the graph needs of a dataset: pins of retained snapshots and of the heads of live branches; their ids.

    `floors`: the policy keeps nothing below these versions, because a schema change dropped something permanently.
    `published` are the versions of commits, which `keep` counts; None: every version. `reasons`: why pins are needed,
    if not by a retained commit.
    """

    pins: frozenset[Pin]
    heads: frozenset[Pin]
    live: frozenset[str]
    floors: frozenset[Pin] = frozenset()
    published: frozenset[Pin] | None = None
    reasons: Mapping[Pin, KeepReason] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """`retained` has the retained versions per retained Lance branch. `deletable_forks` are deleted in this order.

    `missing` are needed versions that do not exist. `reasons`: the retained versions that the policy would delete.
    """

    retained: Mapping[str | None, frozenset[int]]
    deletable_forks: tuple[str, ...]
    missing: frozenset[Pin]
    reasons: Mapping[Pin, KeepReason] = field(default_factory=dict)


def decide(facts: DatasetFacts, needs: Needs, policy: RetentionPolicy) -> RetentionDecision:
    """Decide which versions and forks of a dataset to retain and which to delete."""
    retained_forks = _retained_forks(facts, needs, policy)
    parents = frozenset(facts.forks[name].parent for name in retained_forks)
    needed_pins = needs.pins | needs.heads | facts.tags | parents
    retained: dict[str | None, frozenset[int]] = {}
    reasons: dict[Pin, KeepReason] = {}
    for branch, times in facts.version_times.items():
        if branch is not None and branch not in retained_forks:
            continue
        by_policy = _policy_versions(times, needs, policy, branch)
        unpublished = _unpublished_versions(times, needs, branch)
        needed = frozenset(pin.version for pin in needed_pins if pin.branch == branch) & times.keys()
        retained[branch] = by_policy | needed | unpublished | young_versions(times, policy)
        for version in retained[branch] - by_policy:
            pin = Pin(branch, version)
            if pin in needs.heads or pin in parents:
                reasons[pin] = KeepReason.BRANCH
            elif pin in facts.tags:
                reasons[pin] = KeepReason.TAG
            elif pin in needs.pins:
                reasons[pin] = needs.reasons.get(pin, KeepReason.SNAPSHOT)
            else:
                reasons[pin] = KeepReason.UNPUBLISHED if version in unpublished else KeepReason.YOUNG
    missing = frozenset(pin for pin in needed_pins if pin.version not in retained.get(pin.branch, frozenset()))
    deletable = [name for name in facts.forks if name not in retained_forks]
    ordered = sorted(deletable, key=lambda name: (-_depth(facts.forks, name), name))
    return RetentionDecision(retained, tuple(ordered), missing, reasons)


def kept_by_policy(
    times: VersionTimes, policy: RetentionPolicy, floor: int = 0, published: frozenset[int] | None = None
) -> frozenset[int]:
    """Return the versions of a Lance branch that the policy keeps: the newest, and those of its two options.

    It keeps none below `floor`. `published` are the versions that count for `keep`; None: all of them.
    """
    ordered = sorted(times)
    retained = set(ordered[-1:])
    if policy.keep is not None:
        counted = ordered if published is None else sorted(published & times.keys())
        retained.update(counted[-policy.keep :] if policy.keep else ())
    if policy.older_than_us is not None:
        retained.update(
            version for version, time_us in times.items() if policy.now_us - time_us <= policy.older_than_us
        )
    return frozenset(version for version in retained if version >= floor)


def young_versions(times: VersionTimes, policy: RetentionPolicy) -> frozenset[int]:
    """Return the versions that are too young to be deleted, or were current within that time.

    A reader or a writer that began recently may use the version that was current then, however old that version is.
    """
    current = {older for older, newer in pairwise(sorted(times)) if not policy.is_beyond_age(times[newer])}
    return frozenset(current | {version for version, time in times.items() if not policy.is_beyond_age(time)})


def owner_of(fork: str) -> str | None:
    """Return the id of the graph branch that a Lance branch belongs to; None if an external tool created it."""
    match = _FORK_NAME.fullmatch(fork)
    return None if match is None else match["manifest"] or match["table"]


def _policy_versions(times: VersionTimes, needs: Needs, policy: RetentionPolicy, branch: str | None) -> frozenset[int]:
    floor = max((pin.version for pin in needs.floors if pin.branch == branch), default=0)
    published = needs.published
    counted = None if published is None else frozenset(pin.version for pin in published if pin.branch == branch)
    return kept_by_policy(times, policy, floor, counted)


def _unpublished_versions(times: VersionTimes, needs: Needs, branch: str | None) -> frozenset[int]:
    heads = [pin.version for pin in needs.heads if pin.branch == branch]
    return frozenset(version for version in times if heads and version > max(heads))


def _retained_forks(facts: DatasetFacts, needs: Needs, policy: RetentionPolicy) -> frozenset[str]:
    needed = {pin.branch for pin in needs.pins | needs.heads | facts.tags}
    retained = {
        name
        for name, fork in facts.forks.items()
        if name in needed or _is_protected(fork, facts.version_times.get(name, {}), needs, policy)
    }
    for name in tuple(retained):
        parent = facts.forks[name].parent.branch
        while parent is not None and parent in facts.forks and parent not in retained:
            retained.add(parent)
            parent = facts.forks[parent].parent.branch
    return frozenset(retained)


def _is_protected(fork: Fork, times: VersionTimes, needs: Needs, policy: RetentionPolicy) -> bool:
    """Return whether to retain a fork without pins: of an external tool, young, or one that a writer may publish."""
    owner = owner_of(fork.name)
    newest_us = max((fork.created_us, *times.values()))
    if owner is None or not policy.is_beyond_age(newest_us):
        return True
    return owner in needs.live and not policy.is_beyond_grace(newest_us)


def _depth(forks: Mapping[str, Fork], name: str) -> int:
    depth, parent = 0, forks[name].parent.branch
    while parent is not None and parent in forks and depth < len(forks):
        depth, parent = depth + 1, forks[parent].parent.branch
    return depth
