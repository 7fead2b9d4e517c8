"""What is in `__recovery/` now: writes under way, writes that wait for recovery, and what cannot be understood.

Reading only. A write is *live* while its lease epoch lasts; the next check or open recovers the others. A writer
deletes its intent before it ends its epoch. So the intent is read, then the lease, then the intent again: one that
still exists after its epoch ended is pending, and one that was deleted is the intent of a write that finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, OperationId
from omnigraph.graph.intent import Intent, has_intent, read_intents
from omnigraph.graph.layout import intent_path
from omnigraph.graph.lease import is_epoch_over
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


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
