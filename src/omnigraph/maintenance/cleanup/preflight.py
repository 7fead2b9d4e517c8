"""What is checked before cleanup deletes anything.

While a write waits for recovery or cannot be understood, cleanup fails as a whole. A table of main that is ahead of its
published version by an external change is reported, so that cleanup leaves it alone. A preview reads only. A run that
deletes takes every live branch's lease once, so that no writer is between Check and Publish with older facts, and
inspects main under its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import (
    MAIN,
    Snapshot,
    read_snapshot,
    refresh_snapshot,
    require_unmoved_graph,
)
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.write.check import drift
from omnigraph.maintenance.drift import owned_tables, refuse_pending
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.cleanup")

_PURPOSE = "cleanup"


@dataclass(frozen=True, slots=True)
class Preflight:
    """Main as it was read, and by path why tables must be left alone."""

    main: Snapshot
    drifted: Mapping[str, str]


def inspect_before_preview(root: Location, world: WriteEnvironment) -> Preflight:
    """Raise when a run that deletes would be refused. Takes no lease."""
    main = read_snapshot(root, rules=world.rules)
    _refuse_moved(main)
    live = refuse_pending(root, _PURPOSE)
    is_written = any(one.intent is not None and one.intent.branch_id == main.branch.id for one in live)
    return Preflight(main, {} if is_written else _find_drifted(main))


def wait_for_writers(root: Location, world: WriteEnvironment) -> Preflight:
    """Take and release the lease of every live branch, and raise when a write waits for recovery.

    The graph's lease is held by the caller, so no branch is created or deleted while it runs.
    """
    store = ObjectStore(root)
    main = read_snapshot(root, rules=world.rules)
    drifted: Mapping[str, str] = {}
    _refuse_moved(main)
    for name, record in main.state.branches.items():
        lease = acquire_lease(store, record.id, _PURPOSE, world.terms)
        try:
            if name == MAIN:
                with lease.renewing():
                    refuse_pending(root, _PURPOSE)
                    main = refresh_snapshot(main, world.rules)
                    drifted = _find_drifted(main)
        finally:
            lease.release()
    refuse_pending(root, _PURPOSE)
    return Preflight(main, drifted)


def _refuse_moved(main: Snapshot) -> None:
    for name in main.state.branches:
        if name != MAIN:
            require_unmoved_graph(main.manifest, main.root, name)


def _find_drifted(main: Snapshot) -> dict[str, str]:
    tables = owned_tables(main)
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        errors = threads.map(lambda table: _find_drift(main, table), tables)
        return {table.path: error for table, error in zip(tables, errors, strict=True) if error is not None}


def _find_drift(main: Snapshot, table: TableRecord) -> str | None:
    """Why the table has drifted: its head is above the published version by more than our own fences.

    A table that cannot be read has its own row.
    """
    try:
        dataset = open_dataset(main.root.child(table.path), branch=table.pin.branch)
        if dataset.version == table.pin.version:
            return None
        history = read_history(dataset, table.pin.version)
        if not history.has_external_above(table.pin.version):
            return None
        return f"drift: {drift(table, dataset.version).message}, run `omnigraph repair`"
    except NotFoundError:
        return None  # the plan finds that a version is missing which a live branch reads
    except OmnigraphError as error:
        sentence = f"{table.alias} could not be compared with its published version: {error.message}"
        log_event(logger, sentence, level=logging.WARNING, in_result=True, table=table.alias, code=error.code)
        return None
