"""What cleanup takes and returns: the policy options with their checks, and one row per table and branch.

In: options of the caller. Out: a `RetentionPolicy` as of a given time, or a `UsageError`; `TableCleanupStats`. Nothing
here reads or writes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, Hint, hint
from omnigraph.maintenance.cleanup.retention import KeepReason, RetentionPolicy
from omnigraph.maintenance.rows import TableStats

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Parse a duration: `90s`, `15m`, `12h`, `7d` or `2w`."""
    match = _DURATION.fullmatch(text)
    with suppress(OverflowError):
        if match is not None:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
    raise UsageError(
        f"invalid duration: expected a whole number and s, m, h, d or w, got '{text}'",
        code="duration_malformed",
        hint="Write it as 90s, 12h or 7d.",
    )


def format_duration(duration: timedelta) -> str:
    """Return a duration as `parse_duration` reads it, such as `12h`: in the largest unit that divides it."""
    seconds = int(duration.total_seconds())
    units = ((name, int(timedelta(**{unit: 1}).total_seconds())) for name, unit in reversed(_UNITS.items()))
    name, length = next((unit for unit in units if seconds and seconds % unit[1] == 0), ("s", 1))
    return f"{seconds // length}{name}"


_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class CleanupPolicyOptions:
    """What cleanup keeps. Pass `keep_versions`, `older_than`, or both; with both, either one keeps a version."""

    keep_versions: int | None = None
    """How many of the newest published versions of each table are kept; None: no limit by number."""
    older_than: timedelta | None = None
    """Only versions that are older are deleted; None: no limit by age."""
    orphans_older_than: timedelta = timedelta(seconds=limits.ORPHAN_GRACE_SECONDS)
    """The minimum age of an unreferenced file that is deleted; at least 2 days."""
    confirm: bool = False
    """Delete; without it cleanup only reports what it would delete."""

    def policy(self, now_us: int) -> RetentionPolicy:
        """Return the policy as of a time; raise `UsageError` for options that are not valid."""
        if self.keep_versions is None and self.older_than is None:
            keep = Argument("keep", limits.CLEANUP_KEEP_RECOMMENDED)
            raise UsageError(
                "cleanup needs a policy: expected a number of versions to keep or an age, got neither",
                code="cleanup_policy_missing",
                hint=hint("Pass {}, {}, or both.", keep, Argument("older_than", "7d")),
            )
        if self.keep_versions is not None and self.keep_versions < 1:
            raise UsageError(
                f"invalid number of versions to keep: expected at least 1, got {self.keep_versions}",
                code="cleanup_keep",
                hint=hint("Pass {}.", Argument("keep", limits.CLEANUP_KEEP_RECOMMENDED)),
            )
        if self.older_than is not None and self.older_than < timedelta(0):
            raise UsageError(
                f"invalid age: expected a positive duration, got {format_duration(self.older_than)}",
                code="cleanup_older_than",
                hint=hint("Pass {}.", Argument("older_than", "7d")),
            )
        if self.orphans_older_than.total_seconds() < limits.ORPHAN_GRACE_SECONDS_MIN:
            raise UsageError(
                "a running load may need younger unreferenced files: expected an age of at least 2 days, "
                f"got {format_duration(self.orphans_older_than)}",
                code="cleanup_grace",
                hint=hint(
                    "Pass {} or more, or omit it for the default of 3 days.", Argument("orphans_older_than", "2d")
                ),
            )
        older_than = None if self.older_than is None else _us(self.older_than)
        age_min = int(limits.CLEANUP_AGE_SECONDS_MIN * _MICROSECONDS)
        return RetentionPolicy(
            now_us=now_us,
            keep=self.keep_versions,
            older_than_us=older_than,
            grace_us=_us(self.orphans_older_than),
            age_us_min=age_min,
        )

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about what a run with these options deletes."""
        if self.keep_versions is None or self.keep_versions >= limits.CLEANUP_KEEP_WARN_BELOW:
            return ()
        return (
            f"few versions of each table are kept ({self.keep_versions}); "
            f"{limits.CLEANUP_KEEP_RECOMMENDED} or more are recommended",
        )


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """The number of versions that are kept for one reason although the policy would delete them."""

    reason: KeepReason
    """The reason."""
    versions: int
    """The number of versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleanupStats(TableStats):
    """What cleanup deleted of one table on one branch, or would delete."""

    table_key: str
    """The table, such as `node:Person`, or another part of the graph, such as `__manifest`."""
    branch: str
    """The branch."""
    old_versions_removed: int
    """The number of deleted versions."""
    files_removed: int
    """The number of deleted files."""
    bytes_removed: int
    """The size of these files."""
    orphan_files_removed: int
    """The number of deleted files that no version referenced."""
    orphan_branches_removed: int
    """The number of deleted Lance branches, which belonged to deleted branches."""
    reason: Hint | None
    """The reason of `error`; Python and the command line render the calls in it in their own syntax."""
    files: tuple[str, ...] = ()
    """The paths of the files below the graph, in the order of deletion."""
    retained: tuple[KeptVersions, ...] = ()
    """The versions of the table, on all branches, that are kept although the policy would delete them; only in the row
    of main. `kept` in JSON."""


def sum_kept(rows: Iterable[TableCleanupStats]) -> tuple[KeptVersions, ...]:
    """Return the versions of all rows that are kept although the policy would delete them."""
    total: Counter[KeepReason] = Counter()
    for row in rows:
        total.update({retained.reason: retained.versions for retained in row.retained})
    return tuple(KeptVersions(reason, total[reason]) for reason in KeepReason if total[reason])


def _us(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
