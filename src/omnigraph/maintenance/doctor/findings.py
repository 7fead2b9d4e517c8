"""What doctor reports: findings, each with what helps. Pure.

In: nothing. Out: the types of a finding, and the calls that fix problems as hints, which each surface renders in its
own syntax. A *problem* needs an action: something is refused, unsafe or broken until then. A *notice* is information,
such as work for the next optimize or cleanup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import DisplayedRow
from omnigraph.base.hints import Hint, action, hint
from omnigraph.graph.manifest.snapshot import MAIN

NO_FIX: Final = Hint()
CLEANUP: Final = hint("{}", action("cleanup", keep=limits.CLEANUP_KEEP_RECOMMENDED))
DEEP_CHECK: Final = hint("{}", action("doctor", deep=True))
FIX_LOCATION: Final = hint("{}", action("doctor", fix_location=True))
REPAIR: Final = hint("{}", action("repair"))
RESTORE_FILE: Final = Hint("Restore the file from a copy.")
REPLACE_LINK: Final = Hint("Replace the link with a directory that has its contents, or remove the link.")


def optimize_branch(branch: str = MAIN) -> Hint:
    """Return the call that optimizes a branch, after pending recoveries on all branches."""
    return hint("{}", action("optimize") if branch == MAIN else action("optimize", branch=branch))


def embed_branch(branch: str) -> Hint:
    """Return the call that computes the pending vectors of a branch."""
    return hint("{}", action("embed") if branch == MAIN else action("embed", branch=branch))


class Check(StrEnum):
    """The checks, in their order."""

    MACHINE = "machine"
    """Java, Spark and Lance."""
    FORMAT = "format"
    """Whether this release can read every branch."""
    FILES = "files"
    """Files that are missing, truncated or damaged, and symbolic links."""
    RECOVERY = "recovery"
    """Writes that were interrupted."""
    LOCKS = "locks"
    """Locks that writers hold, or that cannot be read."""
    DRIFT = "drift"
    """Tables that an external tool changed."""
    EDGES = "edges"
    """Edges without nodes."""
    FRAGMENTS = "fragments"
    """Small files, deleted rows, and settings for automatic cleanup."""
    INDEXES = "indexes"
    """Rows that no declared index covers, and rows whose vector `embed` has not computed."""
    ORPHANS = "orphans"
    """Files that no version references."""


class Health(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    """Nothing to do."""
    NOTICE = "notice"
    """Information; no action is needed now."""
    PROBLEM = "problem"
    """Something is refused, unsafe or broken until it is fixed."""


@dataclass(frozen=True, slots=True, repr=False)
class Finding(DisplayedRow):
    """One result of a check."""

    check: Check
    """The check."""
    health: Health
    """The severity."""
    message: str
    """What the check found."""
    _: KW_ONLY
    where: str = ""
    """A table, a branch or a path; empty for the whole graph."""
    branch: str = ""
    """The branch, or empty."""
    fix: Hint = NO_FIX
    """What helps: a call or an instruction; empty if there is nothing to do."""
    expected_bytes: int | None = None
    """The recorded size of a file; None if none is recorded, or the finding is not about a file."""
    actual_bytes: int | None = None
    """The size of a file; None if it is missing, or the finding is not about a file."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "check": self.check.value,
            "health": self.health.value,
            "message": self.message,
            "where": self.where,
            "fix": str(self.fix),
        }


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Whether no finding is a problem."""
    return all(finding.health is not Health.PROBLEM for finding in findings)
