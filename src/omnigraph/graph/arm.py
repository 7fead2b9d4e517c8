"""What an intent says of a staged write. Pure."""

from __future__ import annotations

from omnigraph.graph.encoding import Row, encode_commit, encode_schema, encode_table, encode_tombstone
from omnigraph.graph.intent import INTENT_VERSION, Intent, IntentTable, PinObject, StreamObject
from omnigraph.graph.publish import Change, Target
from omnigraph.graph.staged import Effect, ExactEffect, Staged


def make_intent(staged: Staged, target: Target, lease_epoch: int, created_us: int) -> Intent:
    """The intent of a write that is about to move heads."""
    beside, merge = staged.beside, staged.beside.commit
    is_plain = not (beside.branches or beside.removed or beside.recovery)
    assert is_plain, "a write changes no branch and audits nothing"
    pins = None if merge is None or merge.pins is None else merge.pins
    return Intent(
        v=INTENT_VERSION,
        op_id=staged.operation,
        kind=staged.kind,
        actor=staged.actor,
        commit_id=staged.commit,
        branch=target.branch,
        branch_id=target.branch_id,
        lease_epoch=lease_epoch,
        schema_hash=staged.snapshot.schema.hash,
        head=staged.snapshot.head,
        created_us=created_us,
        tables=[_table(effect, target) for effect in staged.effects],
        counts=dict(staged.counts),
        merged_parent=None if merge is None else merge.merged_parent,
        pins=None
        if pins is None
        else {table: PinObject(pin.branch, pin.version) for table, pin in pins.items()},
        stream=None if staged.stream is None else StreamObject(staged.stream.query, staged.stream.batch),
        rows=_rows(staged.beside),
    )


def _table(effect: Effect, target: Target) -> IntentTable:
    origin = effect.forked_from
    return IntentTable(
        id=effect.table.id,
        path=effect.table.path,
        lance_branch=effect.base.branch,
        owner=target.branch_id,
        base=effect.base.version,
        uuid=effect.transaction.uuid if isinstance(effect, ExactEffect) else None,
        preserving=effect.preserving,
        forked_from=None if origin is None else PinObject(origin.branch, origin.version),
        result_rows=effect.result_rows,
        alias=effect.table.alias if effect.is_new else effect.alias,
        lead=int(isinstance(effect, ExactEffect) and effect.lead is not None),
        is_new=effect.is_new,
    )


def _rows(beside: Change) -> list[Row]:
    rows = [encode_table(table) for table in beside.tables]
    rows += [encode_tombstone(stone) for stone in beside.tombstones]
    rows += [] if beside.schema is None else [encode_schema(beside.schema)]
    rows += [encode_commit(ancestor) for ancestor in beside.ancestors]
    return rows + list(beside.rows)
