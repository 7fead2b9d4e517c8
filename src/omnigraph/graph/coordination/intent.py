"""Intents: what a write is about to do, in `__recovery/<op ulid>.json`, written before any head moves.

In: an armed write. Out: a small JSON object with the effects of the write, never its rows, from which recovery
finishes or undoes the write. An intent that cannot be read is reported with its path; it is never deleted or
interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from omnigraph.base.decoding import decode_json
from omnigraph.base.display import DisplayedRow
from omnigraph.base.errors import FormatError, InvariantError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash
from omnigraph.graph.coordination.lease import is_epoch_over
from omnigraph.graph.manifest.layout import RECOVERY, TABLE_PATH, intent_path
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableId, WriteOperation
from omnigraph.storage.lance.transactions import Operation
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

INTENT_VERSION: Final = 2
INTENT_VERSIONS_READ: Final = frozenset({1, INTENT_VERSION})
"""The versions that recovery reads. An intent of version 1 has neither `lead` nor `is_new`."""

OPERATIONS_OF_INTENTS: Final = frozenset(WriteOperation) - {WriteOperation.INIT, WriteOperation.RECOVERY}
"""The operations that write an intent."""

MULTI_COMMIT_OPERATIONS: Final[dict[WriteOperation, frozenset[Operation]]] = {
    WriteOperation.OPTIMIZE: frozenset({Operation.RESERVE_FRAGMENTS, Operation.REWRITE, Operation.CREATE_INDEX}),
    WriteOperation.ENSURE_INDICES: frozenset({Operation.CREATE_INDEX}),
}
"""The operations that Lance may commit by itself, without our properties, for writers that cannot stage all commits."""


class IntentTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table of an intent. If `uuid` is None, Lance commits by itself: the versions after `base` show what it did.

    `preserving`: the rows stay the same. `alias` is the new name of the table if it is renamed. `lead` is the number of
    versions that the write makes before the version of `uuid`. `is_new`: the branch has no row for the table yet, and
    `alias` is the name in its first row.
    """

    id: TableId
    path: str
    lance_branch: str | None
    owner: BranchId
    base: int
    uuid: str | None
    preserving: bool
    forked_from: Pin | None
    result_rows: int
    alias: str | None = None
    lead: int = 0
    is_new: bool = False


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A write in progress. `rows` are the manifest rows that it publishes in addition to tables, commit and head."""

    v: int
    op_id: OperationId
    kind: str
    actor: str
    commit_id: CommitId
    branch: str
    branch_id: BranchId
    lease_epoch: int
    schema_hash: SchemaHash
    head: CommitId
    created_us: int
    tables: list[IntentTable]
    counts: dict[str, int] = {}
    merged_parent: CommitId | None = None
    pins: dict[TableId, Pin] | None = None
    stream: StreamBatch | None = None
    rows: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class UnreadableIntent:
    """A file in `__recovery/` that is damaged, is not an intent, or was written by a newer release.

    `branch_id` is None if it could not be read.
    """

    path: str
    problem: str
    branch_id: BranchId | None


def write_intent(store: ObjectStore, intent: Intent) -> None:
    """Store the intent. Path and bytes contain the operation id, so it is recognized after a lost response too."""
    if not store.create(intent_path(intent.op_id), msgspec.json.encode(intent, order="sorted")):
        raise InvariantError(f"another write has the operation id {intent.op_id}", code="intent_exists")


def delete_intent(store: ObjectStore, operation: OperationId) -> None:
    """Delete the intent of a finished write. An intent that does not exist is not an error."""
    store.delete(intent_path(operation))


def read_intents(store: ObjectStore) -> tuple[tuple[Intent, ...], tuple[UnreadableIntent, ...]]:
    """Read every intent, oldest first, and every other object in the directory."""
    readable: list[Intent] = []
    unreadable: list[UnreadableIntent] = []
    for entry in store.list(RECOVERY):
        data = store.read(entry.path)
        if data is None:
            continue
        try:
            intent = decode_json(data, Intent)
            problem = _check_intent(intent, entry.path)
        except msgspec.DecodeError as error:
            problem = f"it is damaged ({error})"
        if problem is None:
            readable.append(intent)
        else:
            unreadable.append(UnreadableIntent(f"{store.location.uri}/{entry.path}", problem, _branch_of(data)))
    return tuple(readable), tuple(unreadable)


def unreadable_intent_error(intent: UnreadableIntent) -> FormatError:
    """Return the error with which writes fail while such an object exists."""
    return FormatError(
        f"cannot read the intent {intent.path}: {intent.problem}",
        code="intent_unreadable",
        hint=hint(
            "Nothing was written. Upgrade omnigraph, or move the file out of the graph and run {}.", action("repair")
        ),
        facts={"path": intent.path},
    )


def _check_intent(intent: Intent, path: str) -> str | None:
    """Return why this release cannot use an intent; None if it can."""
    if intent.v not in INTENT_VERSIONS_READ:
        return f"expected version {INTENT_VERSION}, got {intent.v}"
    if path != intent_path(intent.op_id):
        return f"it is the intent of another operation, {intent.op_id}"
    if intent.kind not in OPERATIONS_OF_INTENTS:
        return f"unknown kind '{intent.kind}'"
    for table in intent.tables:
        if not TABLE_PATH.fullmatch(table.path):
            return f"invalid table path '{table.path}'"
        if table.uuid is None and WriteOperation(intent.kind) not in MULTI_COMMIT_OPERATIONS:
            return f"an intent of kind '{intent.kind}' must have a transaction"
    return None


def _branch_of(data: bytes) -> BranchId | None:
    try:
        facts = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    branch_id = facts.get("branch_id") if isinstance(facts, dict) else None
    return BranchId(branch_id) if isinstance(branch_id, str) else None


class PendingState(StrEnum):
    """The state of a write that has an intent."""

    LIVE = "live"
    """Its writer may still run."""
    PENDING = "pending"
    """It stopped partially, and the next write or open finishes or undoes it."""
    UNREADABLE = "unreadable"
    """Its intent cannot be read. Nothing changes or deletes it."""


@dataclass(frozen=True, slots=True, repr=False)
class PendingIntent(DisplayedRow):
    """A write in progress, or a write that stopped partially."""

    path: str
    """The location of its intent, an object below `__recovery/`."""
    state: PendingState
    """Its state."""
    intent: Intent | None
    """The intent; None if it cannot be read."""
    problem: str = ""
    """Why the intent or its lease cannot be read; else empty."""

    @property
    def operation(self) -> WriteOperation | None:
        """What the write does; None if its intent cannot be read."""
        return None if self.intent is None else WriteOperation(self.intent.kind)

    def _summary(self) -> Mapping[str, object]:
        intent = self.intent
        write = {"operation": intent.kind, "intent": f"by {intent.actor} on {intent.branch}"} if intent else {}
        return {"path": self.path, "state": self.state.value, **write, "problem": self.problem}


def list_pending(root: Location) -> tuple[PendingIntent, ...]:
    """Return every intent, oldest first, and those that cannot be read last."""
    store = ObjectStore(root)
    intents, unreadable = read_intents(store)
    return (
        *classify_intents(store, intents),
        *(PendingIntent(intent.path, PendingState.UNREADABLE, None, intent.problem) for intent in unreadable),
    )


def classify_intents(store: ObjectStore, intents: Sequence[Intent]) -> tuple[PendingIntent, ...]:
    """Return the state of intents that were read before, without those whose write has finished since."""
    states = [_classify(store, intent) for intent in intents]
    return tuple(pending for pending in states if pending is not None)


def is_pending(store: ObjectStore, intent: Intent) -> bool:
    """Return whether an intent that was read before waits for recovery: its epoch ended, and it still exists."""
    is_over = is_epoch_over(store, intent.branch_id, intent.lease_epoch)
    return is_over and store.entry(intent_path(intent.op_id)) is not None


def _classify(store: ObjectStore, intent: Intent) -> PendingIntent | None:
    path = f"{store.location.uri}/{intent_path(intent.op_id)}"
    try:
        if not is_epoch_over(store, intent.branch_id, intent.lease_epoch):
            return PendingIntent(path, PendingState.LIVE, intent)
    except FormatError as error:
        return PendingIntent(path, PendingState.PENDING, intent, error.message)
    has_intent = store.entry(intent_path(intent.op_id)) is not None
    return PendingIntent(path, PendingState.PENDING, intent) if has_intent else None
