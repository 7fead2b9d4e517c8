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
    """It was not committed."""
    NEXT = "next"
    """It is directly above its base."""
    ELSEWHERE = "elsewhere"
    """Other commits are between its base and it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFinding:
    """What recovery found on one table of an intent.

    `preserving`: the write does not change the content of the table. `rollback_begun`: an earlier recovery began to
    undo it. `overtaken`: the manifest pins the version of the write or a later one. `damaged`: a file of the new
    version is missing, truncated, or could not be synced.
    """

    moved: Moved
    preserving: bool
    rollback_begun: bool = False
    overtaken: bool = False
    damaged: bool = False


class RecoveryAction(StrEnum):
    """What recovery does. The value is the action of the audit row."""

    FINISHED = "finished"
    """The write, or an earlier recovery of it, was already published."""
    BRANCH_GONE = "branch_gone"
    """The branch was deleted."""
    NOTHING_MOVED = "nothing_moved"
    """No head moved, so there is nothing to undo."""
    ROLLED_FORWARD = "rolled_forward"
    """The write is published."""
    ROLLED_BACK = "rolled_back"
    """The heads that moved are restored to the content before the write."""


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
