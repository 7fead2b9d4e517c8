"""What must be so before cleanup deletes anything; otherwise it refuses as a whole.

No write waits for recovery or cannot be understood, and no table of main is ahead of its published version by a foreign
change. A preview looks without writing. A run that deletes takes every live branch's lease once, so that no writer is
between Check and Publish with older facts, and judges main under its lease.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from omnigraph.base.errors import NotFoundError, OmnigraphError, RefusedError
from omnigraph.graph.check import drift
from omnigraph.graph.commit import World
from omnigraph.graph.lease import acquire_lease
from omnigraph.graph.records import TableRecord
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot, refresh_snapshot, refuse_moved
from omnigraph.maintenance.concurrency import maintenance_concurrency
from omnigraph.maintenance.drift_look import owned_tables, refuse_pending
from omnigraph.storage.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.cleanup")

_PURPOSE = "cleanup"


def look_before_preview(root: Location, world: World) -> Snapshot:
    """Raise when a run that deletes would be refused; main as it was read. Takes no lease."""
    main = read_snapshot(root, rules=world.rules)
    _refuse_moved(main)
    live = refuse_pending(root, _PURPOSE)
    if not any(one.intent is not None and one.intent.branch_id == main.branch.id for one in live):
        _refuse_drift(main)
    return main


def wait_for_writers(root: Location, world: World) -> Snapshot:
    """Take and release the lease of every live branch, and raise when anything is left undone; main as it was then.

    The graph's lease is held by the caller, so no branch comes or goes meanwhile.
    """
    store = ObjectStore(root)
    main = read_snapshot(root, rules=world.rules)
    _refuse_moved(main)
    for name, record in main.state.branches.items():
        lease = acquire_lease(store, record.id, _PURPOSE, world.terms)
        try:
            if name == MAIN:
                with lease.kept():
                    refuse_pending(root, _PURPOSE)
                    main = refresh_snapshot(main, world.rules)
                    _refuse_drift(main)
        finally:
            lease.release()
    refuse_pending(root, _PURPOSE)
    return main


def _refuse_moved(main: Snapshot) -> None:
    for name in main.state.branches:
        if name != MAIN:
            refuse_moved(main.manifest, main.root, name)


def _refuse_drift(main: Snapshot) -> None:
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        for refusal in threads.map(lambda table: _find_drift(main, table), owned_tables(main)):
            if refusal is not None:
                raise refusal


def _find_drift(main: Snapshot, table: TableRecord) -> RefusedError | None:
    """A head above the published version by more than our own fences. A table that cannot be read has its own row."""
    try:
        dataset = open_dataset(main.root.child(table.path), branch=table.pin.branch)
        if dataset.version == table.pin.version:
            return None
        history = read_history(dataset, table.pin.version)
        return drift(table, dataset.version) if history.foreign_above(table.pin.version) else None
    except NotFoundError:
        return None  # the plan finds that a version is missing which a live branch reads
    except OmnigraphError as error:
        logger.warning("%s could not be compared with its published version: %s", table.alias, error.message)
        return None
