"""What an intent says of a staged write. Pure."""

from __future__ import annotations

from omnigraph.graph.encoding import Row, encode_commit, encode_schema, encode_table, encode_tombstone
from omnigraph.graph.intent import INTENT_VERSION, ForkOrigin, Intent, IntentTable
from omnigraph.graph.publish import Change, Target
from omnigraph.graph.staged import Effect, ExactEffect, Staged


def make_intent(staged: Staged, target: Target, lease_epoch: int, created_us: int) -> Intent:
    """The intent of a write that is about to move heads."""
    merged_parent = None if staged.beside.commit is None else staged.beside.commit.merged_parent
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
        merged_parent=merged_parent,
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
        forked_from=None if origin is None else ForkOrigin(origin.branch, origin.version),
        result_rows=effect.result_rows,
    )


def _rows(beside: Change) -> list[Row]:
    rows = [encode_table(table) for table in beside.tables]
    rows += [encode_tombstone(stone) for stone in beside.tombstones]
    rows += [] if beside.schema is None else [encode_schema(beside.schema)]
    rows += [encode_commit(ancestor) for ancestor in beside.ancestors]
    return rows + list(beside.rows)
