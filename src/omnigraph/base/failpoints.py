"""Failpoints: named points at every durable step, where a test can kill, stop, fail or hold this process.

Only the environment enables them: `OMNIGRAPH_FAILPOINTS="publish.before=kill;arm.after=stop"`. A disabled point costs
one truth test. Actions: `kill` (SIGKILL), `stop` (SIGSTOP), `raise`, `hold:<path>` (create `<path>.reached`, wait for
`<path>`). `name@3=kill` acts at the third hit. Observers of a test in the same process get every durable call.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from omnigraph.base import limits
from omnigraph.base.errors import InvariantError

Observer = Callable[[str, str], None]
ENVIRONMENT_VARIABLE = "OMNIGRAPH_FAILPOINTS"

_observers: list[Observer] = []


def announce(effect: str, target: str) -> None:
    """Call the observers before `effect` happens to `target`."""
    for observer in _observers:
        observer(effect, target)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Call `observer` for every durable call within the block, in this process."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class Failpoint(StrEnum):
    """Every failpoint, in the order in which a write reaches them."""

    INIT_REMOVE_BEFORE = "init.remove.before"
    INIT_MARK_BEFORE = "init.mark.before"
    INIT_TABLE_BEFORE = "init.table.before"
    INIT_MANIFEST_BEFORE = "init.manifest.before"
    INIT_UNMARK_BEFORE = "init.unmark.before"
    INIT_DONE = "init.done"
    FORK_BEFORE = "fork.before"
    FORK_AFTER = "fork.after"
    FORK_DISCARD_BEFORE = "fork.discard.before"
    SCHEMA_TABLE_BEFORE = "schema.table.before"
    SCRATCH_REMOVE_BEFORE = "scratch.remove.before"
    ACQUIRE_BEFORE = "lease.acquire.before"
    ACQUIRE_AFTER = "lease.acquire.after"
    COLLECT_BEFORE = "lease.collect.before"
    RENEW_BEFORE = "lease.renew.before"
    REWRITE_DELETIONS_BEFORE = "rewrite.deletions.before"
    CHECKED = "check.done"
    HEAL_BEFORE = "heal.before"
    HEAL_PUBLISH_BEFORE = "heal.publish.before"
    ARM_BEFORE = "arm.before"
    ARM_AFTER = "arm.after"
    COMMIT_BEFORE = "commit.before"
    TABLE_STRIP_BEFORE = "table.strip.before"
    INDEX_DROP_BEFORE = "index.drop.before"
    REWRITE_BEFORE = "rewrite.before"
    REWRITE_AFTER = "rewrite.after"
    INDEX_BEFORE = "index.commit.before"
    INDEX_AFTER = "index.commit.after"
    COMMIT_BETWEEN = "commit.between"
    COMMIT_AFTER = "commit.after"
    MIGRATE_BEFORE = "manifest.migrate.before"
    STAMP_BEFORE = "manifest.stamp.before"
    ROOT_BEFORE = "manifest.root.before"
    STRIP_BEFORE = "manifest.strip.before"
    COMPACT_BEFORE = "manifest.compact.before"
    COMPACT_AFTER = "manifest.compact.after"
    PUBLISH_BEFORE = "publish.before"
    PUBLISH_AFTER = "publish.after"
    DISARM_BEFORE = "disarm.before"
    DISARM_AFTER = "disarm.after"
    RELEASE_BEFORE = "lease.release.before"
    RELEASE_AFTER = "lease.release.after"
    BRANCH_FORK_BEFORE = "branch.fork.before"
    BRANCH_ROW_BEFORE = "branch.row.before"
    BRANCH_FENCE_BEFORE = "branch.fence.before"
    BRANCH_REMOVE_BEFORE = "branch.remove.before"
    FENCE_BEFORE = "recovery.fence.before"
    FENCE_AFTER = "recovery.fence.after"
    ROLLBACK_BEFORE = "recovery.rollback.before"
    ROLLBACK_AFTER = "recovery.rollback.after"
    RECOVERY_PUBLISH_BEFORE = "recovery.publish.before"
    RECOVERY_DELETE_BEFORE = "recovery.delete.before"
    CLEANUP_FENCE_BEFORE = "cleanup.fence.before"
    CLEANUP_DELETE_BEFORE = "cleanup.delete.before"
    CLUSTER_CREATE_BEFORE = "cluster.create.before"
    CLUSTER_SCHEMA_BEFORE = "cluster.schema.before"
    CLUSTER_RESOURCE_BEFORE = "cluster.resource.before"
    CLUSTER_REPLACE_BEFORE = "cluster.replace.before"
    CLUSTER_APPROVE_BEFORE = "cluster.approve.before"
    CLUSTER_DELETE_BEFORE = "cluster.delete.before"
    CLUSTER_DELETE_FILES_BEFORE = "cluster.delete.files.before"
    CLUSTER_LEDGER_BEFORE = "cluster.ledger.before"
    CLUSTER_LEDGER_AFTER = "cluster.ledger.after"
    CLUSTER_COLLECT_BEFORE = "cluster.collect.before"


@dataclass(frozen=True, slots=True)
class _Action:
    name: str
    argument: str
    at_hit: int


class FailpointError(InvariantError):
    """The action of a failpoint is `raise`, is unknown, or waited too long."""


def failpoint(point: Failpoint) -> None:
    """Run the action that the environment sets for this point, if any."""
    if _actions:
        _hit(point)


def _parse(text: str) -> dict[str, _Action]:
    actions = {}
    for entry in filter(None, text.split(";")):
        point, _, action = entry.partition("=")
        point, _, hit = point.partition("@")
        name, _, argument = action.partition(":")
        actions[str(Failpoint(point))] = _Action(name, argument, int(hit or 1))
    return actions


_actions = _parse(os.environ.get(ENVIRONMENT_VARIABLE, ""))
_hits: dict[str, int] = {}


def _hit(point: Failpoint) -> None:
    action = _actions.get(point)
    if action is None:
        return
    _hits[point] = _hits.get(point, 0) + 1
    if _hits[point] != action.at_hit:
        return
    match action.name:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise FailpointError(f"failpoint {point}", code="failpoint")
        case "hold":
            _hold(Path(action.argument))
        case _:
            raise FailpointError(f"unknown failpoint action '{action.name}'", code="failpoint_action")


def _hold(gate: Path) -> None:
    gate.with_name(gate.name + ".reached").touch()
    deadline = time.monotonic() + limits.FAILPOINT_HOLD_SECONDS_MAX
    while not gate.exists():
        if time.monotonic() > deadline:
            raise FailpointError(
                f"failpoint held too long: {gate} was not created within {limits.FAILPOINT_HOLD_SECONDS_MAX:g} seconds",
                code="failpoint_hold",
            )
        time.sleep(0.01)
