"""The checks before cleanup deletes anything.

In: the location of a graph. Out: a `Preflight` with main as it was read. While a write waits for recovery or its intent
cannot be read, cleanup fails as a whole. A table of main that an external tool changed is reported, so that cleanup
skips it. A preview only reads. A run that deletes takes the lease of every live branch once, so that no writer is
between Check and Publish with older facts, and inspects main under its lease. Writes nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.base.hints import Hint, action, hint
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import hold_lease
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot, require_unmoved_graph
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.write.check import drift
from omnigraph.maintenance.drift import owned_tables, require_no_interrupted_writes
from omnigraph.pipeline.runner import in_threads
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.cleanup")

_PURPOSE = "cleanup"


@dataclass(frozen=True, slots=True)
class Preflight:
    """Main as it was read, and by path why cleanup must skip tables."""

    main: Snapshot
    drifted: Mapping[str, Hint]


def inspect_before_preview(root: Location, environment: WriteEnvironment) -> Preflight:
    """Raise when a run that deletes would be refused. Takes no lease."""
    main = read_snapshot(root, storage_format=environment.storage_format)
    _require_not_moved(main)
    live = require_no_interrupted_writes(root, _PURPOSE)
    intents = [pending.intent for pending in live if pending.intent is not None]
    is_written = any(intent.branch_id == main.branch.id for intent in intents)
    return Preflight(main, {} if is_written else _find_drifted(main))


def wait_for_writers(root: Location, environment: WriteEnvironment) -> Preflight:
    """Take and release the lease of every live branch, and raise when a write waits for recovery.

    The graph's lease is held by the caller, so no branch is created or deleted while it runs.
    """
    store = ObjectStore(root)
    main = read_snapshot(root, storage_format=environment.storage_format)
    drifted: Mapping[str, Hint] = {}
    _require_not_moved(main)
    for name, record in main.state.branches.items():
        with hold_lease(store, record.id, _PURPOSE, environment.terms) as lease:
            if name == MAIN:
                with lease.renewing():
                    require_no_interrupted_writes(root, _PURPOSE)
                    main = read_snapshot(root, storage_format=environment.storage_format)
                    drifted = _find_drifted(main)
    require_no_interrupted_writes(root, _PURPOSE)
    return Preflight(main, drifted)


def _require_not_moved(main: Snapshot) -> None:
    for name in main.state.branches:
        if name != MAIN:
            require_unmoved_graph(main.manifest, main.root, name)


def _find_drifted(main: Snapshot) -> dict[str, Hint]:
    tables = owned_tables(main)
    errors = in_threads(lambda table: _find_drift(main, table), tables)
    return {table.path: error for table, error in zip(tables, errors, strict=True) if error is not None}


def _find_drift(main: Snapshot, table: TableRecord) -> Hint | None:
    """Return why the table is skipped: an external tool moved its head above the published version.

    A table that cannot be read is reported by the plan.
    """
    try:
        dataset = open_dataset(main.root.child(table.path), branch=table.pin.branch)
        if dataset.version == table.pin.version:
            return None
        history = read_history(dataset, table.pin.version)
        if not history.has_external_above(table.pin.version):
            return None
        return hint("drift: {}, run {}", drift(table, dataset.version).message, action("repair"))
    except NotFoundError:
        return None  # the plan reports the missing version that a live branch reads
    except OmnigraphError as error:
        sentence = f"cannot compare {table.alias} with its published version: {error.message}"
        log_event(logger, sentence, level=logging.WARNING, in_result=True, table=table.alias, code=error.code)
        return None
