"""Decide what recovery does with a write that did not finish. Pure.

In: what recovery found on each table of an intent, after it fenced the tables that had not moved. Out: one action.
Every row of the table in docs/dev/write-path.md is one branch here, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Moved(Enum):
    """Where the transaction of a write is, relative to its base."""

    NO = "no"
    NEXT = "next"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFinding:
    """What recovery found on one table of an intent.

    `overtaken`: the manifest pins the version of the write or a later one. `damaged`: a file of the new version is
    missing, truncated, or could not be synced.
    """

    moved: Moved
    preserving: bool
    rollback_begun: bool = False
    overtaken: bool = False
    damaged: bool = False


class RecoveryAction(StrEnum):
    """What recovery does. The value is the action of the audit row."""

    FINISHED = "finished"
    BRANCH_GONE = "branch_gone"
    NOTHING_MOVED = "nothing_moved"
    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"


def decide_recovery(*, finished: bool, branch_alive: bool, tables: tuple[TableFinding, ...]) -> RecoveryAction:
    """Return the action for one intent."""
    moved = [table for table in tables if table.moved is not Moved.NO]
    if finished:
        return RecoveryAction.FINISHED
    if not branch_alive:
        return RecoveryAction.BRANCH_GONE
    if any(table.rollback_begun or table.overtaken or table.damaged for table in tables):
        return RecoveryAction.ROLLED_BACK
    if not moved:
        return RecoveryAction.NOTHING_MOVED
    if any(table.moved is Moved.ELSEWHERE for table in moved):
        return RecoveryAction.ROLLED_BACK
    if len(moved) == len(tables) or all(table.preserving for table in moved):
        return RecoveryAction.ROLLED_FORWARD
    return RecoveryAction.ROLLED_BACK
