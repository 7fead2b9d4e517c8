"""What doctor says: findings, each with the command that helps. Pure.

A *problem* needs a hand: something is refused, unsafe or broken until somebody acts. A *notice* is worth knowing, such
as work for the next optimize or cleanup; nothing waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import Fact


class Check(StrEnum):
    """What is looked at, in this order."""

    MACHINE = "machine"
    """Java, Spark and Lance."""
    FORMAT = "format"
    """Whether this release can read every branch."""
    FILES = "files"
    """Files that are missing, cut off or damaged, and symbolic links."""
    RECOVERY = "recovery"
    """Writes that stopped half-way."""
    LOCKS = "locks"
    """Locks that writers hold, or that cannot be understood."""
    DRIFT = "drift"
    """Tables that another tool changed."""
    EDGES = "edges"
    """Edges without nodes."""
    FRAGMENTS = "fragments"
    """Small files, deleted rows, and settings for automatic cleanup."""
    INDEXES = "indexes"
    """Rows that no declared index covers."""
    ORPHANS = "orphans"
    """Files that nothing refers to."""


class Health(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    """All is well."""
    NOTICE = "notice"
    """It is worth knowing and can wait."""
    PROBLEM = "problem"
    """Something is refused, unsafe or broken until somebody acts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    check: Check
    """What was looked at."""
    health: Health
    """How bad it is."""
    message: str
    """What was found, in words."""
    where: str = ""
    """A table, a branch or a path; empty for the whole graph."""
    branch: str = ""
    """The branch, or empty."""
    fix: str = ""
    """The command that helps, or empty."""
    expected_bytes: int | None = None
    """The recorded size of a file; None if none is recorded, or the finding is not about a file."""
    actual_bytes: int | None = None
    """The size that a file has; None if it is missing, or the finding is not about a file."""

    def to_json(self) -> dict[str, Fact]:
        """As in `findings` of `omnigraph doctor --json`."""
        return {
            "check": self.check.value,
            "health": self.health.value,
            "message": self.message,
            "where": self.where or None,
            "branch": self.branch or None,
            "fix": self.fix or None,
            "expected_bytes": self.expected_bytes,
            "actual_bytes": self.actual_bytes,
        }


def is_healthy(findings: list[Finding]) -> bool:
    """Whether nothing needs a hand."""
    return all(finding.health is not Health.PROBLEM for finding in findings)
