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
    """Where an intent stands."""

    LIVE = "live"
    PENDING = "pending"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class PendingIntent:
    """One object of `__recovery/`. `intent` is None when it cannot be understood, and `why` says so."""

    path: str
    state: PendingState
    intent: Intent | None
    why: str = ""


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
