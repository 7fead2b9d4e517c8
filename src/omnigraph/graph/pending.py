"""What is in `__recovery/` now: writes under way, writes that wait for recovery, and what cannot be understood.

Reading only. A write is *live* while its lease epoch lasts; the next check or open recovers the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, OperationId
from omnigraph.graph.intent import Intent, read_intents
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
    """Everything there is, oldest first, what cannot be understood last."""
    store = ObjectStore(root)
    intents, unreadable = read_intents(store)
    found = [_judge(store, intent) for intent in intents]
    return (*found, *(PendingIntent(one.path, PendingState.UNREADABLE, None, one.why) for one in unreadable))


def _judge(store: ObjectStore, intent: Intent) -> PendingIntent:
    path = f"{store.location.uri}/{intent_path(OperationId(intent.op_id))}"
    try:
        over = is_epoch_over(store, BranchId(intent.branch_id), intent.lease_epoch)
    except FormatError as strange:
        return PendingIntent(path, PendingState.PENDING, intent, strange.message)
    return PendingIntent(path, PendingState.PENDING if over else PendingState.LIVE, intent)
