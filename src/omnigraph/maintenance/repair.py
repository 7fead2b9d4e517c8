"""Repair: publishes or drops what foreign tools did to the tables of a graph, on every live branch.

In: a graph and what the caller agreed to. Out: one row per table that a branch owns. A preview only reads. Otherwise
the tables of a branch are put right in one commit of the write path, whose Check demands that pins and heads still are
the ones that were judged: publishing moves pointers to versions that are there already (settings that would let Lance
collect old versions are removed first), discarding is a Restore of the published content. A crash leaves the drift as
it was, or the commit. One table's failure is on its own row. A branch that is deleted while repair runs is skipped, and
its row says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from omnigraph.base.errors import FormatError, OmnigraphError, StorageError
from omnigraph.base.events import log_event
from omnigraph.graph.commit import World, Write, write
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.publish import Change
from omnigraph.graph.records import BranchRecord, CommitRecord, Pin, TableId, TableRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.stage import Outcome, Stage
from omnigraph.graph.staged import Effect, FoundHead, Staged
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.drift_look import (
    UNDER_WAY,
    TableLook,
    look_at_rows,
    look_steadily,
    refuse_pending,
)
from omnigraph.maintenance.graph_place import GraphPlace
from omnigraph.maintenance.repair_outcome import (
    Obstacles,
    RepairAction,
    RepairOptions,
    TableRepairStats,
    decide_action,
    explain,
)
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.repair")

ACTOR = "omnigraph:repair"
FORCE_ACTOR = "omnigraph:repair:force"
DELETED = "skipped: the branch was deleted while repair ran"
_DONE = frozenset({RepairAction.HEALED, RepairAction.FORCED, RepairAction.DISCARDED})


def repair_all_tables(graph: GraphPlace, options: RepairOptions | None = None) -> list[TableRepairStats]:
    """Look at every table of every live branch, and put right what the options allow."""
    how = options or RepairOptions()
    how.refuse_contradiction()
    root = graph.location
    refuse_pending(root, "repair")
    branches = read_snapshot(root).state.branches.values()
    rows: list[TableRepairStats] = []
    for branch in sorted(branches, key=lambda branch: (branch.name != MAIN, branch.name)):
        try:
            rows += _repair_branch(root, branch, how)
        except OmnigraphError as error:
            if _is_deleted(root, branch):
                rows.append(_branch_row(branch.name, RepairAction.SKIPPED, DELETED))
                continue
            _tell_what_is_done(error, rows)
            raise
    return rows


def _tell_what_is_done(error: OmnigraphError, rows: Sequence[TableRepairStats]) -> None:
    """Name the commits on the branches before the one that failed: they stay."""
    commits = {row.branch: row.commit for row in rows if row.commit is not None}
    if commits:
        done = ", ".join(f"{branch} (commit {commit})" for branch, commit in commits.items())
        error.message = f"{error.message}; put right before that: {done}"
        error.facts = MappingProxyType({**error.facts, "repaired": dict(commits)})


def _is_deleted(root: Location, branch: BranchRecord) -> bool:
    """Whether the branch no longer exists, or another one has its name."""
    now = read_snapshot(root).state.branches.get(branch.name)
    return now is None or now.id != branch.id


def _repair_branch(root: Location, branch: BranchRecord, how: RepairOptions) -> list[TableRepairStats]:
    """The rows of one branch; one that cannot be read, as after the graph was moved, does not stop the others."""
    try:
        return _Repair(root, branch, how).run()
    except FormatError as broken:
        if branch.name == MAIN or _is_deleted(root, branch):
            raise
        action = RepairAction.REFUSED if how.confirm else RepairAction.PREVIEW
        return [_branch_row(branch.name, action, broken.message)]


def _branch_row(name: str, action: RepairAction, error: str) -> TableRepairStats:
    """What is reported about a branch as a whole."""
    return TableRepairStats(
        table_key=MANIFEST,
        branch=name,
        classification=Classification.UNVERIFIABLE,
        action=action,
        manifest_version=0,
        lance_head_version=None,
        operations=(),
        flag_error=error,
        rows_added=None,
        rows_updated=None,
        rows_deleted=None,
    )


@dataclass(slots=True)
class _Repair:
    """The run on one branch. `looks` are those of the newest attempt."""

    root: Location
    branch: BranchRecord
    options: RepairOptions
    looks: list[TableLook] = field(default_factory=list)
    rows: list[TableRepairStats] = field(default_factory=list)

    def run(self) -> list[TableRepairStats]:
        started = time.monotonic()
        commit: CommitRecord | None = None
        failure: OmnigraphError | None = None
        try:
            if self.options.confirm:
                published = write(self.root, self.branch.name, Write(WriterKind.REPAIR, ACTOR, self._stage))
                commit = None if published is None else published.publication.commit
            else:
                self._judge(read_snapshot(self.root, self.branch.name))
        except OmnigraphError as error:
            if not self.rows or isinstance(error, StorageError) or _is_deleted(self.root, self.branch):
                raise
            failure = error
        self.rows = [
            self._settled(row, look.table.id, commit, failure)
            for row, look in zip(self.rows, self.looks, strict=True)
        ]
        for row in self.rows:
            _log(row, time.monotonic() - started)
        return self.rows

    def _stage(self, at: Stage) -> Staged | None:
        """What to do, as effects that give content back and as pointers to what is there."""
        self._judge(at.snapshot)
        effects: list[Effect] = []
        moved: list[TableRecord] = []
        heads: list[FoundHead] = []
        for look, row in zip(self.looks, self.rows, strict=True):
            if row.action not in _DONE or look.head is None:
                continue
            pin = Pin(look.head.branch, look.head.version)
            heads.append(FoundHead(look.table, pin))
            if row.action is RepairAction.DISCARDED or look.drift.ours:
                effects.append(at.restored(look.table, look.head))
                continue
            accepted = at.accepted(look.table, look.head)
            if isinstance(accepted, TableRecord):
                moved.append(accepted)
            else:
                effects.append(accepted)
        if not heads:
            return None
        is_forced = any(row.action is RepairAction.FORCED for row in self.rows)
        by = replace(at, actor=FORCE_ACTOR) if is_forced else at
        outcome = Outcome({"tables": len(heads)}, Change(tables=tuple(moved)), heads=tuple(heads))
        return by.finish(tuple(effects), frozenset(found.table.id for found in heads), outcome)

    def _judge(self, snapshot: Snapshot) -> None:
        """Judge every table of the branch."""
        steady = look_steadily(snapshot, lambda: refuse_pending(self.root, "repair"), World())

        def judge(look: TableLook) -> TableLook:
            return look if look.table.id in steady.busy else look_at_rows(steady.snapshot, look)

        with ThreadPoolExecutor(maintenance_concurrency()) as threads:
            self.looks = list(threads.map(judge, steady.looks))
        self.rows = [self._row(look, is_busy=look.table.id in steady.busy) for look in self.looks]

    def _row(self, look: TableLook, *, is_busy: bool) -> TableRepairStats:
        drift, changes = look.drift, look.changes
        obstacles = Obstacles(UNDER_WAY, UNDER_WAY) if is_busy else look.obstacles
        action = decide_action(drift.classification, self.options, obstacles)
        return TableRepairStats(
            table_key=look.table.alias,
            branch=self.branch.name,
            classification=drift.classification,
            action=action,
            manifest_version=look.table.pin.version,
            lance_head_version=look.head_version,
            operations=drift.operations,
            flag_error=explain(action, self.options, obstacles),
            rows_added=None if changes is None else changes.added,
            rows_updated=None if changes is None else changes.updated,
            rows_deleted=None if changes is None else changes.deleted,
            not_checked=look.not_checked,
        )

    def _settled(
        self,
        row: TableRepairStats,
        table: TableId,
        commit: CommitRecord | None,
        failure: OmnigraphError | None,
    ) -> TableRepairStats:
        """The row after the write: with the version that is published now."""
        if row.action not in _DONE:
            return row
        if failure is not None:
            return replace(row, action=RepairAction.REFUSED, flag_error=failure.message)
        assert commit is not None, "something was done"
        moved = next(move.after for move in commit.tables if move.table == table)
        assert moved is not None, "repair drops no table"
        return replace(
            row, commit=commit.id, manifest_version=moved.version, lance_head_version=moved.version
        )


def _log(row: TableRepairStats, seconds: float) -> None:
    log_event(
        logger,
        f"repair {row.action.value} {row.table_key} on {row.branch}",
        table=row.table_key,
        branch=row.branch,
        classification=row.classification.value,
        action=row.action.value,
        manifest_version=row.manifest_version,
        version=row.lance_head_version,
        error=row.flag_error,
        seconds=round(seconds, 3),
    )
