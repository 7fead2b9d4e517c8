"""What must still be true when a write is published, and the errors if it is not. Pure.

A publish is a change plus requirements. They are checked against the state of the manifest version that the publish
replaces, so what holds there holds when the change becomes visible.
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
    """The head is the one that the caller passed as `if_commit`."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class SchemaIs:
    """The schema is the one that the write was staged against."""

    hash: SchemaHash


@dataclass(frozen=True, slots=True)
class PinIs:
    """The table is still published at this pin; None: it is not published."""

    table: TableId
    pin: Pin | None


@dataclass(frozen=True, slots=True)
class BranchIs:
    """The manifest of main still has this branch with this id; None: it has no branch of that name."""

    name: str
    id: BranchId | None


Requirement = HeadIs | SchemaIs | PinIs | BranchIs


class ReadSetConflictError(ConflictError):
    """Another writer changed something that the write had read."""

    applied = Applied.NO


class PreconditionFailedError(OmnigraphError):
    """The head is not the one that the caller named. It is never retried."""

    kind = ErrorKind.PRECONDITION_FAILED
    applied = Applied.NO


def require_met(state: ManifestState, requirements: Iterable[Requirement]) -> None:
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
                    raise read_set_conflict(record.alias if record else table, pin_text(pin), pin_text(actual))
            case BranchIs(name, branch_id):
                branch = state.branches.get(name)
                actual_id = None if branch is None else branch.id
                if actual_id != branch_id:
                    raise read_set_conflict(f"branch:{name}", branch_id, actual_id)
            case _:
                assert_never(requirement)


def read_set_conflict(member: str, expected: str | None, actual: str | None) -> ReadSetConflictError:
    """Return the error for one member of the read set that changed."""
    conflict: dict[str, Fact] = {"member": member, "expected": expected, "actual": actual}
    values = "" if expected == actual else f": expected {_shown(expected)}, got {_shown(actual)}"
    return ReadSetConflictError(
        f"{member} changed during the write{values}",
        code="read_set_conflict",
        hint="Nothing was written. Read the graph again, then retry.",
        facts={"read_set_conflict": conflict},
    )


def _shown(value: str | None) -> str:
    return "none" if value is None else value


def precondition_failed(expected: CommitId, actual: CommitId) -> PreconditionFailedError:
    """Return the error for a head that the caller did not expect."""
    failure: dict[str, Fact] = {"expected": expected, "actual": actual}
    return PreconditionFailedError(
        f"the head of the branch changed: expected {expected}, got {actual}",
        code="precondition_failure",
        hint="Nothing was written. Read the new head, then decide again.",
        facts={"precondition_failure": failure},
    )
