"""What cleanup is asked for, and the rows it reports. The names are those of the specification."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import Fact, UsageError
from omnigraph.maintenance.cleanup.retention import KeepReason, Policy

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `12h`, `7d` or `2w`."""
    found = _DURATION.fullmatch(text)
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else _refuse(text)
    except OverflowError:
        return _refuse(text)


def _refuse(text: str) -> timedelta:
    raise UsageError(
        f"'{text}' is no duration",
        code="duration_malformed",
        hint="write a whole number and s, m, h, d or w, as 90s, 12h or 7d",
    )


_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class CleanupPolicyOptions:
    """What cleanup keeps. One of the first two is needed; with both, either keeps a version."""

    keep_versions: int | None = None
    """How many of the newest published versions of each table stay; None: their number does not matter."""
    older_than: timedelta | None = None
    """Versions that are not older stay; None: their age does not matter."""
    orphans_older_than: timedelta = timedelta(seconds=limits.ORPHAN_GRACE_SECONDS)
    """How old a file that nothing refers to must be to go, at least 2 days."""
    confirm: bool = False
    """Delete; without it only tell what would go."""

    def policy(self, now_us: int) -> Policy:
        """The policy as of a moment; raise `UsageError` for one that must not be."""
        if self.keep_versions is None and self.older_than is None:
            raise UsageError(
                "cleanup needs to know what to keep",
                code="cleanup_policy_missing",
                hint=f"pass --keep {limits.CLEANUP_KEEP_RECOMMENDED}, --older-than 7d, or both",
            )
        if self.keep_versions is not None and self.keep_versions < 1:
            raise UsageError(
                f"{self.keep_versions} is no number of versions to keep",
                code="cleanup_keep",
                hint=f"the newest version always stays; {limits.CLEANUP_KEEP_RECOMMENDED} is a good number",
            )
        if self.older_than is not None and self.older_than < timedelta(0):
            raise UsageError(
                "an age cannot be negative", code="cleanup_older_than", hint="pass a duration such as 7d"
            )
        if self.orphans_older_than.total_seconds() < limits.ORPHAN_GRACE_SECONDS_MIN:
            raise UsageError(
                "files that nothing refers to must be at least 2 days old, as a running load may need younger ones",
                code="cleanup_grace",
                hint="pass --orphans-older-than 2d or more, or leave it out for 3d",
            )
        older_than = None if self.older_than is None else _us(self.older_than)
        age_min = int(limits.CLEANUP_AGE_SECONDS_MIN * _MICROSECONDS)
        return Policy(now_us, self.keep_versions, older_than, _us(self.orphans_older_than), age_min)

    def warnings(self) -> tuple[str, ...]:
        """What should be thought about before deleting."""
        if self.keep_versions is None or self.keep_versions >= limits.CLEANUP_KEEP_WARN_BELOW:
            return ()
        return (
            f"keeping only {self.keep_versions} leaves little for recovery to go back to; "
            f"{limits.CLEANUP_KEEP_RECOMMENDED} is the recommended number",
        )


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """How many versions are kept for one reason although the policy names them."""

    reason: KeepReason
    """The reason."""
    versions: int
    """The number of versions."""

    def to_json(self) -> dict[str, Fact]:
        """As a member of `kept` in `omnigraph cleanup --json`."""
        return {"reason": self.reason.value, "versions": self.versions}


@dataclass(frozen=True, slots=True)
class TableCleanupStats:
    """What went of one table on one branch, or would go."""

    table_key: str
    """The table, `node:Person`, or another thing of the graph, such as `__manifest`."""
    branch: str
    """The branch."""
    old_versions_removed: int
    """How many old versions."""
    files_removed: int
    """How many files in all."""
    bytes_removed: int
    """The size of these files."""
    orphan_files_removed: int
    """How many of them nothing referred to."""
    orphan_branches_removed: int
    """How many Lance branches of deleted branches."""
    error: str | None
    """Why it failed while the others went on, or None."""
    files: tuple[str, ...] = ()
    """The paths of the files below the graph, in the order in which they go."""
    kept: tuple[KeptVersions, ...] = ()
    """The versions of the table that are kept although the policy names them, on all branches; in the row of main."""

    def to_json(self) -> dict[str, Fact]:
        """As a table of `omnigraph cleanup --json`."""
        return {
            "table_key": self.table_key,
            "branch": self.branch,
            "old_versions_removed": self.old_versions_removed,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "orphan_files_removed": self.orphan_files_removed,
            "orphan_branches_removed": self.orphan_branches_removed,
            "error": self.error,
            "kept": [kept.to_json() for kept in self.kept],
        }


def sum_kept(rows: Iterable[TableCleanupStats]) -> tuple[KeptVersions, ...]:
    """Return the versions that are kept although the policy names them, of all rows together."""
    total: Counter[KeepReason] = Counter()
    for row in rows:
        total.update({kept.reason: kept.versions for kept in row.kept})
    return tuple(KeptVersions(reason, total[reason]) for reason in KeepReason if total[reason])


def _us(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
