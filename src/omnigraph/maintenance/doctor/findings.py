"""What doctor says: findings, each with the command that helps. Pure.

A *problem* needs a hand: something is refused, unsafe or broken until somebody acts. A *notice* is worth knowing, such
as work for the next optimize or cleanup; nothing waits for it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base import limits
from omnigraph.base.errors import Fact
from omnigraph.graph.manifest.snapshot import MAIN


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands for one graph."""

    address: str

    def optimize(self, branch: str = MAIN) -> str:
        """Bring files and indexes of a branch up to date, after pending recoveries on all branches."""
        command = f"omnigraph optimize {self._graph}"
        return command if branch == MAIN else f"{command} --branch {shlex.quote(branch)}"

    @property
    def cleanup(self) -> str:
        """Show what can be deleted."""
        return f"omnigraph cleanup {self._graph} --keep {limits.CLEANUP_KEEP_RECOMMENDED}"

    @property
    def repair(self) -> str:
        """Show what external tools changed."""
        return f"omnigraph repair {self._graph}"

    @property
    def deep(self) -> str:
        """Check everything, whatever it costs."""
        return f"omnigraph doctor {self._graph} --deep"

    @property
    def _graph(self) -> str:
        return shlex.quote(self.address)


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
