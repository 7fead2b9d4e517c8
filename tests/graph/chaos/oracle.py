"""What a graph must contain after a chaos run: every acknowledged write, no rejected one, and no partial one.

In: the attempts of all writers with their outcomes. Out: violations. A write with an unknown outcome, such as one of a
killed process, leaves both states possible until the graph is checked; then the state that was read is the only one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

EXTERNAL: Final = "external-"
"""The prefix of rows that an external tool inserts: they have no tag and no edge."""


class Outcome(Enum):
    """What a writer knows about its write."""

    ACKNOWLEDGED = "acknowledged"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class GraphContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader finds on a branch: the items with their values, and the keys of tags and edges."""

    items: dict[str, int]
    tags: list[str]
    edges: list[tuple[str, str]]


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What the inspecting process found after all writers had ended."""

    contents: GraphContents
    branches: dict[str, GraphContents]
    commits: list[str]
    problems: list[str]
    """What recovery, doctor and the last write reported."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write of one or more items: the state of each before, and after it."""

    before: Mapping[str, int | None]
    after: Mapping[str, int | None]


@dataclass(slots=True)
class Oracle:
    """The possible states of every item: its value, or None if it does not exist."""

    states: dict[str, set[int | None]] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    branch_items: dict[str, set[str]] = field(default_factory=dict)
    """Acknowledged items of branches that no writer has tried to delete."""
    counts: Counter[str] = field(default_factory=Counter)
    _open: list[Attempt] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, changes: Mapping[str, int | None]) -> Attempt:
        """Note a write before it is sent. The state of each item must be certain."""
        with self._lock:
            before = {}
            for slug in changes:
                (before[slug],) = self.states.get(slug, {None})
            for slug, value in changes.items():
                self.states[slug] = {before[slug], value}
            attempt = Attempt(before, dict(changes))
            self._open.append(attempt)
            return attempt

    def end(self, attempt: Attempt, outcome: Outcome, commit: str | None = None) -> None:
        """Note the outcome of a write. The states of an unknown one stay open."""
        with self._lock:
            if outcome is Outcome.UNKNOWN:
                return
            self._open.remove(attempt)
            states = attempt.after if outcome is Outcome.ACKNOWLEDGED else attempt.before
            for slug, value in states.items():
                self.states[slug] = {value}
            if outcome is Outcome.ACKNOWLEDGED and commit is not None:
                self.commits.add(commit)

    def count(self, kind: str, outcome: Outcome | None = None) -> None:
        """Count a write with its outcome, or an event without one."""
        with self._lock:
            self.counts[kind if outcome is None else f"{kind} {outcome.value}"] += 1

    def is_certain(self, slug: str) -> bool:
        return len(self.states.get(slug, {None})) == 1

    def note_branch(self, branch: str, slug: str) -> None:
        with self._lock:
            self.branch_items.setdefault(branch, set()).add(slug)

    def forget_branch(self, branch: str) -> None:
        """Note that a writer tries to delete the branch."""
        with self._lock, suppress(KeyError):
            del self.branch_items[branch]

    def check(self, inspection: Inspection) -> list[str]:
        """Return the violations, and take what was read as the only possible state."""
        violations = [*inspection.problems]
        items = inspection.contents.items
        for slug in sorted(set(items) | set(self.states)):
            allowed = self.states.get(slug, {None})
            if items.get(slug) not in allowed:
                violations.append(f"item {slug}: expected one of {sorted(map(str, allowed))}, got {items.get(slug)}")
        violations += _check_parts("main", inspection.contents)
        for attempt in self._open:
            read = {slug: items.get(slug) for slug in attempt.after}
            if read not in (attempt.before, attempt.after):
                violations.append(f"partial write: expected {attempt.before} or {attempt.after}, got {read}")
        lost = self.commits - set(inspection.commits)
        violations += [f"acknowledged commit {commit} is not in the history" for commit in sorted(lost)]
        if len(set(inspection.commits)) != len(inspection.commits):
            violations.append("the history has a commit twice")
        for name, contents in inspection.branches.items():
            violations += _check_parts(name, contents)
        for name, slugs in self.branch_items.items():
            missing = slugs - set(inspection.branches[name].items) if name in inspection.branches else {"the branch"}
            if missing:
                violations.append(f"branch {name}: {sorted(missing)} is acknowledged but missing")
        self.states = {slug: {items.get(slug)} for slug in self.states}
        self._open.clear()
        return violations


def _check_parts(branch: str, contents: GraphContents) -> list[str]:
    """Return the items that were written partially: each has one tag and one edge, except those of external tools."""
    items = sorted(slug for slug in contents.items if not slug.startswith(EXTERNAL))
    violations = []
    if sorted(contents.tags) != items:
        violations.append(f"{branch}: items and tags differ: {sorted(set(contents.tags) ^ set(items))[:9]}")
    if sorted(contents.edges) != [(slug, slug) for slug in items]:
        violations.append(
            f"{branch}: items and edges differ: {sorted({a for a, _ in contents.edges} ^ set(items))[:9]}"
        )
    return violations
