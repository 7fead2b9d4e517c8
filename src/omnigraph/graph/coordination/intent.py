"""Intents: what a write is about to do, in `__recovery/<op ulid>.json`, written before any head moves.

In: an armed write. Out: a small JSON object with its effects, never its rows, from which recovery can finish or
undo it. An intent that cannot be understood is reported with its path and is never deleted or guessed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from omnigraph.base.errors import FormatError, InvariantError
from omnigraph.base.ids import BranchId, OperationId
from omnigraph.graph.coordination.lease import is_epoch_over
from omnigraph.graph.manifest.layout import RECOVERY, TABLE_PATH, intent_path
from omnigraph.storage.lance.transactions import Operation
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

INTENT_VERSION: Final = 2
INTENT_VERSIONS_READ: Final = frozenset({1, INTENT_VERSION})
"""What can be recovered. Version 1 has neither `lead` nor `is_new`; who does not know them would undo the wrong way."""


class WriterKind(StrEnum):
    """Who writes. The value is the `kind` of an intent and the operation of a commit."""

    LOAD = "load"
    MUTATE = "mutate"
    MERGE = "merge"
    REVERT = "revert"
    SCHEMA_APPLY = "schema_apply"
    OPTIMIZE = "optimize"
    ENSURE_INDICES = "ensure_indices"
    REPAIR = "repair"


LOOSE_OPERATIONS: Final[dict[WriterKind, frozenset[Operation]]] = {
    WriterKind.OPTIMIZE: frozenset({Operation.RESERVE_FRAGMENTS, Operation.REWRITE, Operation.CREATE_INDEX}),
    WriterKind.ENSURE_INDICES: frozenset({Operation.CREATE_INDEX}),
}
"""What Lance may commit by itself, without our properties, for the kinds of writers that cannot stage exactly."""


class PinObject(msgspec.Struct, frozen=True):
    """A published version of a dataset, as `Pin`."""

    branch: str | None
    version: int


class StreamObject(msgspec.Struct, frozen=True):
    """A batch of a streaming query, as `StreamBatch`."""

    query: str
    batch: int


class IntentTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table of an intent. `uuid` None: a loose effect, known by its base and the operations allowed after it.

    `alias` is the name that the table gets, when it gets another. `lead` is the number of versions that the write makes
    before the one of `uuid`. `is_new`: the branch has no row for the table yet, and `alias` is the name in its first.
    """

    id: str
    path: str
    lance_branch: str | None
    owner: str
    base: int
    uuid: str | None
    preserving: bool
    forked_from: PinObject | None
    result_rows: int
    alias: str | None = None
    lead: int = 0
    is_new: bool = False


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A write under way. `rows` are the manifest rows it publishes beside tables, commit and head."""

    v: int
    op_id: str
    kind: str
    actor: str
    commit_id: str
    branch: str
    branch_id: str
    lease_epoch: int
    schema_hash: str
    head: str
    created_us: int
    tables: list[IntentTable]
    counts: dict[str, int] = {}
    merged_parent: str | None = None
    pins: dict[str, PinObject] | None = None
    stream: StreamObject | None = None
    rows: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class UnreadableIntent:
    """An object in `__recovery/` that is damaged, foreign or of a newer release. `branch_id` if it could be told."""

    path: str
    why: str
    branch_id: BranchId | None


def write_intent(store: ObjectStore, intent: Intent) -> None:
    """Announce the write. The operation id is in the path and in the bytes, so it is ours after a lost answer too."""
    path = intent_path(OperationId(intent.op_id))
    if not store.create(path, msgspec.json.encode(intent, order="sorted")):
        raise InvariantError(f"another write has announced itself as {intent.op_id}", code="intent_exists")


def delete_intent(store: ObjectStore, operation: OperationId) -> None:
    """The write is finished; one that is gone already is no error."""
    store.delete(intent_path(operation))


def read_intents(store: ObjectStore) -> tuple[tuple[Intent, ...], tuple[UnreadableIntent, ...]]:
    """Every intent, oldest first, and everything in the folder that is none."""
    readable: list[Intent] = []
    unreadable: list[UnreadableIntent] = []
    for entry in store.list(RECOVERY):
        data = store.read(entry.path)
        if data is None:
            continue
        path = f"{store.location.uri}/{entry.path}"
        parsed = _parse(path, entry.path, data)
        if isinstance(parsed, Intent):
            readable.append(parsed)
        else:
            unreadable.append(parsed)
    return tuple(readable), tuple(unreadable)


def has_intent(store: ObjectStore, operation: OperationId) -> bool:
    """Return whether the intent of an operation still exists."""
    return store.entry(intent_path(operation)) is not None


def unreadable_intent_error(intent: UnreadableIntent) -> FormatError:
    """Why writes are refused while such an object is there."""
    return FormatError(
        f"the recovery intent {intent.path} cannot be understood: {intent.why}",
        code="intent_unreadable",
        hint="reads go on; a newer omnigraph may understand it, else move the file away and run `omnigraph repair`",
        facts={"path": intent.path},
    )


def _parse(path: str, relative: str, data: bytes) -> Intent | UnreadableIntent:
    branch_id = _branch_of(data)
    try:
        intent = msgspec.json.decode(data, type=Intent)
    except msgspec.DecodeError as error:
        return UnreadableIntent(path, f"it is damaged ({error})", branch_id)
    if intent.v not in INTENT_VERSIONS_READ:
        return UnreadableIntent(
            path, f"it has version {intent.v} and this omnigraph knows {INTENT_VERSION}", branch_id
        )
    if relative != intent_path(OperationId(intent.op_id)):
        return UnreadableIntent(path, f"it names another operation, {intent.op_id}", branch_id)
    if intent.kind not in set(WriterKind):
        return UnreadableIntent(path, f"it has the unknown kind '{intent.kind}'", branch_id)
    for table in intent.tables:
        if not TABLE_PATH.fullmatch(table.path):
            return UnreadableIntent(path, f"it names '{table.path}', which is no table's path", branch_id)
        if table.uuid is None and WriterKind(intent.kind) not in LOOSE_OPERATIONS:
            return UnreadableIntent(path, f"a {intent.kind} cannot be without a transaction", branch_id)
    return intent


def _branch_of(data: bytes) -> BranchId | None:
    try:
        facts = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    found = facts.get("branch_id") if isinstance(facts, dict) else None
    return BranchId(found) if isinstance(found, str) else None


class PendingState(StrEnum):
    """Where a write stands."""

    LIVE = "live"
    """Its writer is at work."""
    PENDING = "pending"
    """It stopped half-way, and the next write or open finishes it or undoes it."""
    UNREADABLE = "unreadable"
    """What it said of itself cannot be understood; nobody touches it."""


@dataclass(frozen=True, slots=True)
class PendingIntent:
    """A write under way, or one that stopped half-way."""

    path: str
    """Where it said what it is about to do: an object below `__recovery/`."""
    state: PendingState
    """Where it stands."""
    intent: Intent | None
    """What it said; None when that cannot be understood."""
    why: str = ""
    """Why it cannot be understood, or its lease cannot; else empty."""


def list_pending(root: Location) -> tuple[PendingIntent, ...]:
    """Return every intent, oldest first, and those that cannot be understood last."""
    store = ObjectStore(root)
    intents, unreadable = read_intents(store)
    return (
        *classify_intents(store, intents),
        *(PendingIntent(intent.path, PendingState.UNREADABLE, None, intent.why) for intent in unreadable),
    )


def classify_intents(store: ObjectStore, intents: Sequence[Intent]) -> tuple[PendingIntent, ...]:
    """Return the state of intents that were read before, without those whose write has finished since."""
    states = [_classify(store, intent) for intent in intents]
    return tuple(pending for pending in states if pending is not None)


def is_pending(store: ObjectStore, intent: Intent) -> bool:
    """Return whether an intent that was read before waits for recovery: its epoch is over, and it still exists."""
    is_over = is_epoch_over(store, BranchId(intent.branch_id), intent.lease_epoch)
    return is_over and has_intent(store, OperationId(intent.op_id))


def _classify(store: ObjectStore, intent: Intent) -> PendingIntent | None:
    operation = OperationId(intent.op_id)
    path = f"{store.location.uri}/{intent_path(operation)}"
    try:
        is_over = is_epoch_over(store, BranchId(intent.branch_id), intent.lease_epoch)
    except FormatError as strange:
        return PendingIntent(path, PendingState.PENDING, intent, strange.message)
    if not is_over:
        return PendingIntent(path, PendingState.LIVE, intent)
    return PendingIntent(path, PendingState.PENDING, intent) if has_intent(store, operation) else None
