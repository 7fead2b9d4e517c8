"""Which versions and Lance branches of one dataset stay, and in which order the others go. Pure.

In: what there is (versions with their times, Lance branches, tags), what is needed from outside (the pins of retained
snapshots, the ids of live graph branches), and the policy. Out: a `Decision`. It never lets go of the newest version of
a branch that stays, of a version that is needed, tagged or that a staying branch was made from, of anything above the
newest needed version, or of what was current within the last `CLEANUP_AGE_SECONDS_MIN`. See decision 0013.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from omnigraph.graph.records import Pin

_OURS: Final = re.compile(r"b-(?P<manifest>[0-9A-Z]{26})|g-(?P<table>[0-9A-Z]{26})-[0-9A-Z]{26}")

Line = Mapping[int, int]
"""The versions of one Lance branch, each with the time it was made, in microseconds."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may go, as of one moment. Whatever was made after `now_us` is younger than everything.

    With `keep` and `older_than_us` a version goes only if it is outside both. `grace_us` is for what nothing refers to.
    """

    now_us: int
    keep: int | None
    older_than_us: int | None
    grace_us: int
    age_us_min: int

    def is_beyond_age(self, time_us: int) -> bool:
        """Whether something is old enough to go at all."""
        return self.now_us - time_us > self.age_us_min

    def is_beyond_grace(self, time_us: int) -> bool:
        """Whether no write that still may be committed can have made it."""
        return self.now_us - time_us > max(self.grace_us, self.age_us_min)


@dataclass(frozen=True, slots=True)
class Fork:
    """A Lance branch: what it was made from, and when."""

    name: str
    parent: Pin
    made_us: int


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What there is in a dataset. `lines` has the versions of each Lance branch; None is Lance's main."""

    lines: Mapping[str | None, Line]
    forks: Mapping[str, Fork]
    tags: frozenset[Pin]


@dataclass(frozen=True, slots=True)
class Needs:
    """What retained snapshots pin, what the heads of live branches pin, and the ids of live graph branches.

    `floors`: below these versions of Lance branches the policy keeps nothing, because something was dropped for good.
    """

    pins: frozenset[Pin]
    heads: frozenset[Pin]
    live: frozenset[str]
    floors: frozenset[Pin] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """`retained` has the versions that stay, per Lance branch that stays. `doomed_forks` go, in this order.

    `missing` are needed versions that are not there.
    """

    retained: Mapping[str | None, frozenset[int]]
    doomed_forks: tuple[str, ...]
    missing: frozenset[Pin]


def decide(facts: DatasetFacts, needs: Needs, policy: Policy) -> Decision:
    """What stays of a dataset and what goes."""
    kept = _kept_forks(facts, needs, policy)
    floors = needs.pins | needs.heads | facts.tags | {facts.forks[name].parent for name in kept}
    lines = {branch: line for branch, line in facts.lines.items() if branch is None or branch in kept}
    retained = {
        branch: _retained(
            line, frozenset(p.version for p in floors if p.branch == branch), needs, policy, branch
        )
        for branch, line in lines.items()
    }
    missing = frozenset(pin for pin in floors if pin.version not in retained.get(pin.branch, frozenset()))
    doomed = [name for name in facts.forks if name not in kept]
    ordered = sorted(doomed, key=lambda name: (-_depth(facts.forks, name), name))
    return Decision(retained, tuple(ordered), missing)


def policy_keeps(line: Line, policy: Policy, floor: int = 0) -> frozenset[int]:
    """The versions of a Lance branch that stay whoever needs them; those below `floor` only while they are young."""
    ordered = sorted(line)
    kept = set(ordered[-1:])
    if policy.keep is not None:
        kept.update(ordered[-policy.keep :] if policy.keep else ())
    if policy.older_than_us is not None:
        kept.update(
            version for version, time_us in line.items() if policy.now_us - time_us <= policy.older_than_us
        )
    kept = {version for version in kept if version >= floor}
    # A reader or a writer that began a moment ago may hold what was current then, however old it is.
    kept.update(older for older, newer in pairwise(ordered) if not policy.is_beyond_age(line[newer]))
    kept.update(version for version, time_us in line.items() if not policy.is_beyond_age(time_us))
    return frozenset(kept)


def owner_of(fork: str) -> str | None:
    """The id of the graph branch that a Lance branch was made for; None when it is not one of ours."""
    found = _OURS.fullmatch(fork)
    return None if found is None else found["manifest"] or found["table"]


def _retained(
    line: Line, floors: frozenset[int], needs: Needs, policy: Policy, branch: str | None
) -> frozenset[int]:
    heads = [pin.version for pin in needs.heads if pin.branch == branch]
    above = {version for version in line if heads and version > max(heads)}
    floor = max((pin.version for pin in needs.floors if pin.branch == branch), default=0)
    return frozenset(policy_keeps(line, policy, floor) | (floors & line.keys()) | above)


def _kept_forks(facts: DatasetFacts, needs: Needs, policy: Policy) -> frozenset[str]:
    needed = {pin.branch for pin in needs.pins | needs.heads | facts.tags}
    kept = {
        name
        for name, fork in facts.forks.items()
        if name in needed or _is_excused(fork, facts.lines.get(name, {}), needs, policy)
    }
    for name in tuple(kept):
        parent = facts.forks[name].parent.branch
        while parent is not None and parent in facts.forks and parent not in kept:
            kept.add(parent)
            parent = facts.forks[parent].parent.branch
    return frozenset(kept)


def _is_excused(fork: Fork, line: Line, needs: Needs, policy: Policy) -> bool:
    """Whether a fork that nothing pins stays: a foreign one, a young one, or one that a live branch may yet publish."""
    owner = owner_of(fork.name)
    newest_us = max((fork.made_us, *line.values()))
    if owner is None or not policy.is_beyond_age(newest_us):
        return True
    return owner in needs.live and not policy.is_beyond_grace(newest_us)


def _depth(forks: Mapping[str, Fork], name: str) -> int:
    depth, parent = 0, forks[name].parent.branch
    while parent is not None and parent in forks and depth < len(forks):
        depth, parent = depth + 1, forks[parent].parent.branch
    return depth
