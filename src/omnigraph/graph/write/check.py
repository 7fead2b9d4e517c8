"""Check: under the lease, is what was staged still right? Nothing is armed unless it is.

In: a staged write and the branch as it is now. Out: open handles on the exact bases, or a verdict: stage again,
refuse, or conflict. A head that only fences and zombies of ours moved is put right here; one that a foreign
tool moved is *drift*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from omnigraph.base import limits
from omnigraph.base.clock import Clock
from omnigraph.base.errors import Applied, ConflictError, NotFoundError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import CommitId, OperationId, PropertyId, new_ulid
from omnigraph.graph.coordination.intent import read_intents
from omnigraph.graph.manifest.encoding import decode_schema
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, Publisher, PublishTarget, publish
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, SchemaRecord, TableRecord, pin_text
from omnigraph.graph.manifest.requirements import read_set_conflict
from omnigraph.graph.manifest.snapshot import Snapshot, is_moved, open_table
from omnigraph.graph.recovery.fence import Guard, fence_table, read_history
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.recovery.run import RECOVERY_ACTOR
from omnigraph.graph.write.states import Effect, StagedWrite
from omnigraph.schema.catalog import AnyEntity, Catalog
from omnigraph.schema.evolution.apply import raise_counters
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.objects import ObjectStore


def read_other_catalogs(snapshot: Snapshot) -> tuple[Catalog, ...]:
    """The catalogs that other branches have and this one has not."""
    found = {record.hash: record for record in _other_schemas(snapshot)}
    others = tuple(record.catalog for schema, record in found.items() if schema != snapshot.schema.hash)
    has_unread = _is_moved_main(snapshot) and len(snapshot.state.branches) > 1
    return (*others, _far_ahead(snapshot.schema.catalog)) if has_unread else others


def _is_moved_main(snapshot: Snapshot) -> bool:
    return snapshot.branch.lance_branch is None and is_moved(snapshot.manifest, snapshot.root)


def _far_ahead(catalog: Catalog) -> Catalog:
    """The catalog as if it had given more ids than any branch has."""

    def ahead(entity: AnyEntity) -> AnyEntity:
        return replace(
            entity, next_property_id=PropertyId(entity.next_property_id + limits.MOVED_GRAPH_IDS_LEFT_OUT)
        )

    return replace(
        catalog,
        nodes=tuple(map(ahead, catalog.nodes)),
        edges=tuple(map(ahead, catalog.edges)),
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
    """A table's head is ahead of its published version and nothing of ours explains it."""

    applied = Applied.NO


class StagingTooOldError(ConflictError):
    """The staged files may have been collected as orphans by now."""

    applied = Applied.NO


@dataclass(frozen=True, slots=True)
class Stale:
    """What was staged does not fit any more: a member of its read set moved."""

    member: str
    expected: str | None
    actual: str | None

    def conflict(self) -> ConflictError:
        return read_set_conflict(self.member, self.expected, self.actual)


def find_stale(staged: StagedWrite, now: Snapshot) -> Stale | None:
    """The first thing that moved since staging and that this write depends on. Pure."""
    then = staged.snapshot
    if then.schema.hash != now.schema.hash:
        return Stale("schema", then.schema.hash, now.schema.hash)
    pins_now = {table.id: table for table in now.tables.values()}
    for table in then.tables.values():
        found = pins_now.get(table.id)
        if table.id in staged.reads and (found is None or found.pin != table.pin):
            return Stale(table.alias, pin_text(table.pin), pin_text(found.pin if found else None))
    moving = (effect.table for effect in staged.effects if not effect.is_new)
    for table in (*moving, *(head.table for head in staged.heads)):
        found = pins_now.get(table.id)
        if found is None or found.pin != table.pin:
            return Stale(table.alias, pin_text(table.pin), pin_text(found.pin if found else None))
    return None


def find_given(staged: StagedWrite, now: Snapshot) -> Stale | None:
    """Whether another branch has given ids since that this write would give again. Nobody else gives any meanwhile."""
    if staged.counted is None:
        return None
    counted = raise_counters(now.schema.catalog, read_other_catalogs(now))
    return None if counted == staged.counted else Stale("the ids of types and properties", None, None)


def refuse_moved_base(effect: Effect, handle: Dataset) -> None:
    """A table that is not published yet has no content to go back to: whoever found it otherwise begins again."""
    if effect.is_new and handle.version != effect.base.version:
        actual = pin_text(Pin(handle.branch, handle.version))
        raise read_set_conflict(f"the head of {effect.table.alias}", pin_text(effect.base), actual)


def refuse_old_staging(staged: StagedWrite, clock: Clock) -> None:
    """Cleanup collects unreferenced files after a grace; staged ones must be committed well before it."""
    age = clock.monotonic() - staged.began
    if age > limits.STAGING_AGE_SECONDS_MAX:
        raise StagingTooOldError(
            f"this write began {age / 3600:.0f} hours ago, and its staged files may have been collected since",
            code="staging_too_old",
            hint="run it again; nothing was written",
        )


def refuse_moved_heads(staged: StagedWrite) -> None:
    """Raise when a head that was part of the decision is another one now."""
    for found in staged.heads:
        location = staged.snapshot.root.child(found.table.path)
        now = open_dataset(location, branch=found.head.branch)
        if now.version != found.head.version:
            actual = pin_text(Pin(now.branch, now.version))
            raise read_set_conflict(f"the head of {found.table.alias}", pin_text(found.head), actual)


def refuse_collected(staged: StagedWrite) -> None:
    """Raise when a version that is to be adopted, or a table that is new here, was collected since.

    Nobody collects under the graph's lease.
    """
    for table in (*staged.adopted(), *(effect.table for effect in staged.effects if effect.is_new)):
        try:
            open_table(staged.snapshot.root, table)
        except NotFoundError:
            raise read_set_conflict(table.alias, pin_text(table.pin), None) from None


def open_base(staged: StagedWrite, effect: Effect) -> Dataset:
    """The newest version of a touched table, on the Lance branch it was staged on."""
    location = staged.snapshot.root.child(effect.table.path)
    return open_dataset(location, branch=effect.base.branch)


@dataclass(frozen=True, slots=True)
class Healer:
    """Puts a head right that only our own fences and zombies moved."""

    target: PublishTarget
    hold: Callable[[], None]
    publisher: Publisher

    def heal(self, table: TableRecord, dataset: Dataset) -> None:
        """Restore the pinned content and publish it; raise `DriftError` when something foreign lies above the pin."""
        history = read_history(dataset, table.pin.version)
        if dataset.version < table.pin.version or history.foreign_above(history.base):
            raise drift(table, dataset.version)
        operation, commit = OperationId(new_ulid()), CommitId(new_ulid())
        guard = Guard(self.hold, operation_properties(operation, commit, "recovery"))
        failpoint(Failpoint.HEAL_BEFORE)
        healed = fence_table(dataset, guard, restore=table.pin.version)
        if read_history(healed, table.pin.version).foreign_above(table.pin.version):
            raise drift(table, healed.version)
        now = self.publisher.clock.now_us()
        pin = Pin(healed.branch, healed.version)
        record = replace(table, pin=pin)
        draft = CommitDraft(commit, "recovery", operation, RECOVERY_ACTOR, now)
        audit = RecoveryRecord(operation, "recovery", RECOVERY_ACTOR, "healed", now, {table.id: "restored"})
        failpoint(Failpoint.HEAL_PUBLISH_BEFORE)
        publish(
            self.target, ManifestChange(commit=draft, tables=(record,), recovery=audit), (), self.publisher
        )


def drift(table: TableRecord, head: int) -> DriftError:
    """The refusal that names repair."""
    return DriftError(
        f"{table.alias} was changed outside Omnigraph: its head is {head}, published is {table.pin.version}",
        code="drift",
        hint="look at it with `omnigraph repair`, then publish or discard the foreign change",
        facts={"table": table.alias, "manifest_version": table.pin.version, "lance_head_version": head},
    )
