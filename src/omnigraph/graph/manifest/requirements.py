"""What must still be true when a write is published, and what it means when it is not. Pure.

A publish is a change plus requirements. They are judged against the state of the very manifest version that the
publish replaces, so what holds there holds when it becomes visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from omnigraph.base.errors import Applied, ConflictError, ErrorKind, Fact, OmnigraphError
from omnigraph.base.ids import BranchId, CommitId, SchemaHash
from omnigraph.graph.manifest.reader import ManifestState
from omnigraph.graph.manifest.records import Pin, TableId, pin_text


@dataclass(frozen=True, slots=True)
class HeadIs:
    """The caller asked for exactly this head (`--if-commit`)."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class SchemaIs:
    """The write was staged against this schema."""

    hash: SchemaHash


@dataclass(frozen=True, slots=True)
class PinIs:
    """The table is still published where the write found it; None: it is not published at all."""

    table: TableId
    pin: Pin | None


@dataclass(frozen=True, slots=True)
class BranchIs:
    """Main's manifest still has this branch with this id; None: it has no branch of that name."""

    name: str
    id: BranchId | None


Requirement = HeadIs | SchemaIs | PinIs | BranchIs


class ReadSetConflictError(ConflictError):
    """What the write had read was changed by another one."""

    applied = Applied.NO


class PreconditionFailedError(OmnigraphError):
    """The head is not the one that the caller named; never retried."""

    kind = ErrorKind.PRECONDITION_FAILED
    applied = Applied.NO


def check_requirements(state: ManifestState, requirements: Iterable[Requirement]) -> None:
    """Raise for the first requirement that the state does not meet."""
    for requirement in requirements:
        match requirement:
            case HeadIs(commit):
                if state.head != commit:
                    raise precondition_failed(commit, state.head)
            case SchemaIs(expected):
                if state.schema.hash != expected:
                    raise read_set_conflict("schema", expected, state.schema.hash)
            case PinIs(table, pin):
                record = state.live_tables().get(table)
                actual = None if record is None else record.pin
                if actual != pin:
                    raise read_set_conflict(
                        record.alias if record else table, pin_text(pin), pin_text(actual)
                    )
            case BranchIs(name, branch_id):
                branch = state.branches.get(name)
                actual_id = None if branch is None else branch.id
                if actual_id != branch_id:
                    raise read_set_conflict(f"branch:{name}", branch_id, actual_id)
            case _:
                assert_never(requirement)


def read_set_conflict(member: str, expected: str | None, actual: str | None) -> ReadSetConflictError:
    """The error for one member of the read set that moved."""
    conflict: dict[str, Fact] = {"member": member, "expected": expected, "actual": actual}
    return ReadSetConflictError(
        f"{member} changed since this write read it",
        code="read_set_conflict",
        hint="the view is stale: refresh and retry",
        facts={"read_set_conflict": conflict},
    )


def precondition_failed(expected: CommitId, actual: CommitId) -> PreconditionFailedError:
    """The error for a head that the caller did not expect."""
    failure: dict[str, Fact] = {"expected": expected, "actual": actual}
    return PreconditionFailedError(
        f"the head is {actual}, not {expected}",
        code="precondition_failure",
        hint="read the new head and decide again; nothing was written",
        facts={"precondition_failure": failure},
    )
