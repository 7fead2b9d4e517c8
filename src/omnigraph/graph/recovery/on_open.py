"""Recovery outside a write: what a read-write open of a branch, or of the whole graph, does first.

In: a graph, and one branch or all. Out: what was finished or undone. A live writer is left alone, and so is what cannot
be understood: reads go on, and writes are refused with its path. A crash leaves the intent for the next one.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from omnigraph.base.errors import ConflictError, FormatError, NotFoundError
from omnigraph.base.ids import BranchId
from omnigraph.graph.commit import World, target_of
from omnigraph.graph.intent import Intent, read_intents
from omnigraph.graph.lease import acquire_lease
from omnigraph.graph.pending import is_pending
from omnigraph.graph.recovery.run import Recovered, Recoverer, recover_branch
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.recovery")


def recover_on_open(root: Location, branch: str, world: World | None = None) -> tuple[Recovered, ...]:
    """Finish or undo what crashed writers of the branch left; nothing is touched while a live writer is at work.

    An intent or a lock that cannot be understood does not stop the open, nor does a writer that is at work for longer
    than the wait: its own check recovers.
    """
    how = world or World()
    store = ObjectStore(root)
    intents, _ = read_intents(store)
    if not intents:
        return ()
    try:
        return _recover_pending(store, read_snapshot(root, branch, rules=how.rules), intents, how)
    except (FormatError, ConflictError) as later:
        logger.warning("recovery is left to the next writer: %s", later.message)
        return ()


def recover_every_branch(root: Location) -> tuple[Recovered, ...]:
    """The same for every branch that a crashed writer left something on; main settles for those that are gone."""
    intents, _ = read_intents(ObjectStore(root))
    if not intents:
        return ()
    names = {record.id: name for name, record in read_snapshot(root).state.branches.items()}
    branches = {names.get(BranchId(intent.branch_id), MAIN) for intent in intents} - {MAIN}
    found: list[Recovered] = []
    for name in (*sorted(branches), MAIN):
        with suppress(NotFoundError):  # deleted meanwhile, so that it is main's, which comes last
            found += recover_on_open(root, name)
    return tuple(found)


def _recover_pending(
    store: ObjectStore, snapshot: Snapshot, intents: tuple[Intent, ...], how: World
) -> tuple[Recovered, ...]:
    alive = frozenset(record.id for record in snapshot.manifest.read_state().branches.values())
    if not any(_is_pending_here(store, intent, snapshot, alive) for intent in intents):
        return ()
    target = target_of(snapshot)
    lease = acquire_lease(store, target.branch_id, "recovery", how.terms)
    try:
        return recover_branch(Recoverer(store, target, lease, how.publisher(lease)))
    finally:
        lease.release()


def _is_pending_here(
    store: ObjectStore, intent: Intent, snapshot: Snapshot, alive: frozenset[BranchId]
) -> bool:
    """Whether an intent waits for recovery, on this branch, or (seen from main) on a branch that is gone.

    Another branch that is alive is left alone: opening that one recovers it.
    """
    branch_id = BranchId(intent.branch_id)
    if branch_id != snapshot.branch.id and (snapshot.branch.lance_branch is not None or branch_id in alive):
        return False
    return is_pending(store, intent)
