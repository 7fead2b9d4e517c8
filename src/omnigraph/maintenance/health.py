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
    FORMAT = "format"
    RECOVERY = "recovery"
    LOCKS = "locks"
    DRIFT = "drift"
    EDGES = "edges"
    FRAGMENTS = "fragments"
    INDEXES = "indexes"
    ORPHANS = "orphans"


class Health(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    NOTICE = "notice"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `where` is a table, a branch or a path, empty for the whole graph."""

    check: Check
    health: Health
    message: str
    where: str = ""
    branch: str = ""
    fix: str = ""

    def to_json(self) -> dict[str, Fact]:
        return {
            "check": self.check.value,
            "health": self.health.value,
            "message": self.message,
            "where": self.where or None,
            "branch": self.branch or None,
            "fix": self.fix or None,
        }


def is_healthy(findings: list[Finding]) -> bool:
    """Whether nothing needs a hand."""
    return all(finding.health is not Health.PROBLEM for finding in findings)
