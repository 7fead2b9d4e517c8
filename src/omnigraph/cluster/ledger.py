"""The ledger: what is deployed, as numbered objects that never change. The highest number is current.

Creating an object if it is absent is atomic on local files and on S3, so it decides between two applies. Approvals
are objects of the same kind. A ledger holds everything that a server needs, except the stored resources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, format_timestamp
from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import Applied, ErrorKind, FormatError, OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import new_ulid
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from omnigraph.wire.cluster import ResourceStatus

LEDGER_VERSION: Final = 1
STATE_DIRECTORY: Final = "__cluster/state"
_NAME: Final = re.compile(rf"{STATE_DIRECTORY}/(\d{{20}})\.json")


class AppliedResource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deployed resource: its digest, and what a server needs to know about it."""

    digest: str
    applies_to: list[str] | None = None
    embedding_provider: str | None = None
    embedding_profile: dict[str, str] | None = None
    first_commit_id: str | None = None


class AppliedRevision(msgspec.Struct, frozen=True, kw_only=True):
    """The deployed resources. The digest of the configuration is null unless all of it is deployed."""

    config_digest: str | None
    resources: dict[str, AppliedResource]


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One object of the ledger."""

    version: int
    state_revision: int
    applied_revision: AppliedRevision
    resource_statuses: dict[str, ResourceStatus]
    actor_id: str
    created_at: str
    operation_id: str
    """Differs between any two applies, so that the bytes of an object show who created it."""

    @property
    def resources(self) -> Mapping[str, AppliedResource]:
        """The deployed resources by address."""
        return self.applied_revision.resources

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The deployed graphs, sorted."""
        return tuple(sorted(address[6:] for address in self.resources if address.startswith("graph.")))


class ApprovalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """That a person allows one operation on one graph, for one configuration."""

    version: int
    resource: str
    operation: str
    approved_by: str
    created_at: str


class LedgerConflictError(OmnigraphError):
    """Another apply wrote the next revision first."""

    kind = ErrorKind.REFUSED
    applied = Applied.UNKNOWN


@dataclass(frozen=True, slots=True)
class LedgerStore:
    """The ledger and the approvals below the root of a cluster."""

    root: Location

    @property
    def objects(self) -> ObjectStore:
        """The objects below the root."""
        return ObjectStore(self.root)

    def read_newest(self) -> Ledger | None:
        """Return the current object of the ledger, or None if nothing was applied yet."""
        revision = self.newest_revision()
        return None if revision == 0 else self._read(revision)

    def newest_revision(self) -> int:
        """Return the highest number; 0 if there is no object."""
        return max(self._revisions(), default=0)

    def append(self, ledger: Ledger) -> None:
        """Create the next object of the ledger; raise if another apply created it first."""
        data = msgspec.json.encode(ledger)
        failpoint(Failpoint.CLUSTER_LEDGER_BEFORE)
        if not self.objects.create(_state_path(ledger.state_revision), data):
            raise self.conflict(ledger.state_revision - 1)
        failpoint(Failpoint.CLUSTER_LEDGER_AFTER)

    def require_revision(self, revision: int) -> None:
        """Raise unless a revision is still the newest one."""
        if self.newest_revision() != revision:
            raise self.conflict(revision)

    def conflict(self, planned_revision: int) -> LedgerConflictError:
        """Return the error of an apply that planned on an older revision."""
        newest = self.read_newest()
        revision = planned_revision if newest is None else newest.state_revision
        by = "" if newest is None else f", by '{newest.actor_id}' at {newest.created_at}"
        return LedgerConflictError(
            f"another apply was first: expected revision {planned_revision}, got {revision}{by}",
            code="state_cas_mismatch",
            hint="Run `omnigraph cluster plan` to see what is left, then apply again.",
            facts={"expected": planned_revision, "actual": revision, "actor": newest.actor_id if newest else None},
        )

    def delete_old(self) -> None:
        """Delete all but the newest objects of the ledger."""
        revisions = sorted(self._revisions())
        for revision in revisions[: -limits.CLUSTER_REVISIONS_MAX]:
            failpoint(Failpoint.CLUSTER_COLLECT_BEFORE)
            self.objects.delete(_state_path(revision))

    def approve(self, config_digest: str, address: str, first_commit: str, record: ApprovalRecord) -> None:
        """Create an approval. One that exists is not replaced."""
        path = _approval_path(config_digest, address, first_commit)
        failpoint(Failpoint.CLUSTER_APPROVE_BEFORE)
        self.objects.create(path, msgspec.json.encode(record))

    def is_approved(self, config_digest: str, address: str, first_commit: str) -> bool:
        """Return whether a graph may be deleted with a configuration."""
        return self.objects.entry(_approval_path(config_digest, address, first_commit)) is not None

    def _revisions(self) -> list[int]:
        names = (_NAME.fullmatch(entry.path) for entry in self.objects.list(STATE_DIRECTORY))
        return [int(name[1]) for name in names if name is not None]

    def _read(self, revision: int) -> Ledger:
        path = _state_path(revision)
        try:
            ledger = decode_json(self.objects.read(path) or b"", Ledger)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, str(error)) from error
        if ledger.version != LEDGER_VERSION:
            raise _unreadable(path, f"expected version {LEDGER_VERSION}, got {ledger.version}")
        return ledger


def next_ledger(
    before: Ledger | None, actor: str, revision: AppliedRevision, statuses: Mapping[str, ResourceStatus]
) -> Ledger:
    """Return the object that follows another one."""
    return Ledger(
        version=LEDGER_VERSION,
        state_revision=1 if before is None else before.state_revision + 1,
        applied_revision=revision,
        resource_statuses=dict(sorted(statuses.items())),
        actor_id=actor,
        created_at=format_timestamp(SYSTEM_CLOCK.now_us()),
        operation_id=new_ulid(),
    )


def _state_path(revision: int) -> str:
    return f"{STATE_DIRECTORY}/{revision:020d}.json"


def _approval_path(config_digest: str, address: str, first_commit: str) -> str:
    return f"__cluster/approvals/{config_digest}/{address}.{first_commit}.json"


def _unreadable(path: str, reason: str) -> FormatError:
    return FormatError(
        f"the ledger of the cluster cannot be read: '{path}': {reason}",
        code="ledger_unreadable",
        hint="Upgrade omnigraph if a newer release wrote it. Otherwise restore the file from a backup.",
        facts={"path": path},
    )
