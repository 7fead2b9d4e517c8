"""Check under the lease whether a staged write can still be applied. A write that fails a check is never armed.

In: a staged write and the current snapshot of its branch. Out: the first thing that changed, open handles on the
bases, or an error. A head that only our own fences, or writers that lost their lease, moved is restored here. A head
that an external tool moved is *drift*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as replace_struct

from omnigraph.base import limits
from omnigraph.base.clock import Clock
from omnigraph.base.errors import Applied, ConflictError, NotFoundError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import CommitId, OperationId, PropertyId, new_ulid
from omnigraph.graph.coordination.intent import read_intents
from omnigraph.graph.manifest.encoding import decode_schema
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, Publisher, PublishTarget, publish
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, SchemaRecord, TableRecord, WriteOperation, pin_text
from omnigraph.graph.manifest.requirements import ReadSetConflictError, read_set_conflict
from omnigraph.graph.manifest.snapshot import Snapshot, is_moved, open_table
from omnigraph.graph.recovery.fence import Guard, fence_table, read_history
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.recovery.run import RECOVERY_ACTOR
from omnigraph.graph.write.states import StagedWrite
from omnigraph.schema.catalog import AnyEntity, Catalog
from omnigraph.schema.evolution.apply import raise_counters
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.objects import ObjectStore


def read_other_catalogs(snapshot: Snapshot) -> tuple[Catalog, ...]:
    """Return the catalogs of other branches that differ from the catalog of this branch."""
    records_by_hash = {record.hash: record for record in _other_schemas(snapshot)}
    catalogs = tuple(record.catalog for schema, record in records_by_hash.items() if schema != snapshot.schema.hash)
    has_unread = _is_moved_main(snapshot) and len(snapshot.state.branches) > 1
    return (*catalogs, _raise_all_counters(snapshot.schema.catalog)) if has_unread else catalogs


def _is_moved_main(snapshot: Snapshot) -> bool:
    return snapshot.branch.lance_branch is None and is_moved(snapshot.manifest, snapshot.root)


def _raise_all_counters(catalog: Catalog) -> Catalog:
    """Return the catalog with counters that are higher than those of any branch, for branches that cannot be read."""

    def raise_counter(entity: AnyEntity) -> AnyEntity:
        return replace_struct(
            entity, next_property_id=PropertyId(entity.next_property_id + limits.MOVED_GRAPH_IDS_LEFT_OUT)
        )

    return replace_struct(
        catalog,
        nodes=tuple(map(raise_counter, catalog.nodes)),
        edges=tuple(map(raise_counter, catalog.edges)),
        next_type_id=catalog.next_type_id + limits.MOVED_GRAPH_IDS_LEFT_OUT,
    )


def _other_schemas(snapshot: Snapshot) -> Iterator[SchemaRecord]:
    is_main = snapshot.branch.lance_branch is None
    main = snapshot.state if is_main else open_manifest(snapshot.root).read_state()
    if not is_main:
        yield main.schema
    for intent in read_intents(ObjectStore(snapshot.root))[0]:
        announced = (row for row in intent.rows if row.get("object_type") == "schema")
        yield from (decode_schema(row) for row in announced if intent.branch_id != snapshot.branch.id)
    for branch in () if _is_moved_main(snapshot) else main.branches.values():
        if branch.lance_branch is None or branch.id == snapshot.branch.id:
            continue
        try:
            yield open_manifest(snapshot.root, lance_branch=branch.lance_branch).read_state().schema
        except NotFoundError:
            continue


class DriftError(RefusedError):
    """The head of a table is ahead of its published version, because of commits that Omnigraph did not make."""

    applied = Applied.NO


class StagingTooOldError(ConflictError):
    """The staged files may have been deleted as orphans."""

    applied = Applied.NO


def find_read_set_conflict(staged: StagedWrite, current: Snapshot) -> ReadSetConflictError | None:
    """Return the error for the first change since staging to something that this write depends on. Pure."""
    before = staged.snapshot
    if before.schema.hash != current.schema.hash:
        return read_set_conflict("schema", before.schema.hash, current.schema.hash)
    current_pins = {table.id: table.pin for table in current.tables.values()}
    read_tables = (table for table in before.tables.values() if table.id in staged.reads)
    written_tables = (effect.table for effect in staged.effects if not effect.is_new)
    for table in (*read_tables, *written_tables, *(expected.table for expected in staged.heads)):
        current_pin = current_pins.get(table.id)
        if current_pin != table.pin:
            return read_set_conflict(table.alias, pin_text(table.pin), pin_text(current_pin))
    return None


def find_id_conflict(staged: StagedWrite, current: Snapshot) -> ReadSetConflictError | None:
    """Return the error if another branch has assigned ids since staging that this write would assign again.

    The write holds the graph's lease, so no other process assigns ids at the same time.
    """
    if staged.counter_catalog is None:
        return None
    if raise_counters(current.schema.catalog, read_other_catalogs(current)) == staged.counter_catalog:
        return None
    return read_set_conflict("the ids of types and properties")


def require_recent_staging(staged: StagedWrite, clock: Clock) -> None:
    """Raise if the staged files are so old that cleanup may delete them before they are committed.

    Cleanup deletes unreferenced files after a grace period.
    """
    age_seconds = clock.monotonic() - staged.began
    seconds_max = limits.STAGING_AGE_SECONDS_MAX
    if age_seconds > seconds_max:
        raise StagingTooOldError(
            f"staged files are too old: expected at most {seconds_max / 3600:.0f} hours, got {age_seconds / 3600:.1f}",
            code="staging_too_old",
            hint="Nothing was written. Run the write again.",
            facts={"age_seconds": age_seconds, "age_seconds_max": seconds_max},
        )


def require_unmoved_heads(staged: StagedWrite) -> None:
    """Raise if a head that was part of the decision has moved."""
    for expected in staged.heads:
        location = staged.snapshot.root.child(expected.table.path)
        dataset = open_dataset(location, branch=expected.head.branch)
        if dataset.version != expected.head.version:
            raise moved_head(expected.table, expected.head, dataset)


def require_existing_versions(staged: StagedWrite) -> None:
    """Raise if a version that the write adopts, or a table that is new here, was deleted since staging.

    Cleanup deletes nothing while another process holds the graph's lease.
    """
    for table in (*staged.adopted_tables(), *(effect.table for effect in staged.effects if effect.is_new)):
        try:
            open_table(staged.snapshot.root, table)
        except NotFoundError:
            raise read_set_conflict(table.alias, pin_text(table.pin), None) from None


def open_bases(staged: StagedWrite) -> tuple[Dataset, ...]:
    """Return the newest version of every written table, on the Lance branch that it was staged on."""
    return tuple(effect.dataset.newest() for effect in staged.effects)


def moved_head(table: TableRecord, expected: Pin, actual: Dataset) -> ReadSetConflictError:
    """Return the error for a table whose head is not the expected one."""
    actual_pin = Pin(actual.branch, actual.version)
    return read_set_conflict(f"the head of {table.alias}", pin_text(expected), pin_text(actual_pin))


def restore_head(target: PublishTarget, table: TableRecord, dataset: Dataset, publisher: Publisher) -> None:
    """Restore the pinned content of a table and publish it; raise `DriftError` if an external commit is above the pin.

    Requires: HEAD differs from the pin because of a fence, or of an Omnigraph writer that lost its lease.
    """
    history = read_history(dataset, table.pin.version)
    if dataset.version < table.pin.version or history.has_external_above(history.base):
        raise drift(table, dataset.version)
    operation, commit = OperationId(new_ulid()), CommitId(new_ulid())
    guard = Guard(publisher.hold, operation_properties(operation, commit, "recovery"))
    failpoint(Failpoint.HEAL_BEFORE)
    restored = fence_table(dataset, guard, restore=table.pin.version)
    if read_history(restored, table.pin.version).has_external_above(table.pin.version):
        raise drift(table, restored.version)
    now = publisher.clock.now_us()
    record = replace(table, pin=Pin(restored.branch, restored.version))
    draft = CommitDraft(
        id=commit, operation=WriteOperation.RECOVERY, operation_id=operation, actor=RECOVERY_ACTOR, created_us=now
    )
    audit = RecoveryRecord(
        operation_id=operation,
        operation=WriteOperation.RECOVERY,
        actor=RECOVERY_ACTOR,
        action="healed",
        recovered_us=now,
        tables={table.id: "restored"},
    )
    failpoint(Failpoint.HEAL_PUBLISH_BEFORE)
    publish(target, ManifestChange(commit=draft, tables=(record,), recovery=audit), (), publisher)


def drift(table: TableRecord, head: int) -> DriftError:
    """Return the error for a table that an external tool changed."""
    return DriftError(
        f"an external tool changed {table.alias}: expected head {table.pin.version}, got {head}",
        code="drift",
        hint=hint(
            "Nothing was written. Run {} to list the changes. Then publish them with {}, or discard them with {}.",
            action("repair"),
            action("repair", unverified="publish", dry_run=False),
            action("repair", unverified="discard", dry_run=False),
        ),
        facts={"table": table.alias, "manifest_version": table.pin.version, "lance_head_version": head},
    )
