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
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from omnigraph.base.errors import (
    ConfirmationRequiredError,
    Fact,
    FormatError,
    OmnigraphError,
    StorageError,
    UsageError,
)
from omnigraph.base.hints import Argument, Hint, hint
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import Effect, FoundHead, StagedWrite
from omnigraph.maintenance.drift import (
    UNDER_WAY,
    Classification,
    Obstacles,
    TableInspection,
    inspect_rows,
    inspect_until_stable,
    refuse_pending,
)
from omnigraph.maintenance.target import GraphPlace
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.storage.location import Location

PUBLISH: Final = Argument("unverified", "publish")
DISCARD: Final = Argument("unverified", "discard")
EXTERNAL_CHANGE: Final = hint("an external change: {} publishes it, {} drops it", PUBLISH, DISCARD)
"""Why a change is refused that the other flags put right."""


class RepairAction(StrEnum):
    """What was done with a table."""

    NO_OP = "no_op"
    """There was nothing to do."""
    PREVIEW = "preview"
    """Nothing, as `confirm` was not given."""
    HEALED = "healed"
    """A harmless change was published."""
    REFUSED = "refused"
    """Nothing; `error` says why."""
    FORCED = "forced"
    """A foreign change was published."""
    DISCARDED = "discarded"
    """The table got its published content back."""
    SKIPPED = "skipped"
    """Nothing; the branch was deleted while repair ran."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What repair may do; without any it only looks."""

    confirm: bool = False
    """Publish what is verified to be harmless."""
    force: bool = False
    """Publish the rest too; needs `confirm`."""
    discard: bool = False
    """Drop what was done instead of publishing it; needs `confirm`."""

    def refuse_contradiction(self) -> None:
        """Raise when the flags do not go together."""
        if self.force and self.discard:
            raise UsageError(
                "force publishes foreign changes and discard drops them",
                code="repair_twice",
                hint="pass --force or --discard",
            )
        if (self.force or self.discard) and not self.confirm:
            word = "force" if self.force else "discard"
            raise ConfirmationRequiredError(
                f"{word} changes what the graph publishes, and nobody confirmed it",
                code="confirmation_missing",
                hint=f"look at the preview first, then pass --{word} --confirm",
            )


@dataclass(frozen=True, slots=True)
class TableRepairStats:
    """One table of one branch, as repair found it."""

    table_key: str
    """The table, `node:Person`, or `__manifest` when the branch itself cannot be read."""
    branch: str
    """The branch."""
    classification: Classification
    """What kind of drift it has."""
    action: RepairAction
    """What was done."""
    manifest_version: int
    """The published Lance version of the table; after something was done, the new one."""
    lance_head_version: int | None
    """Its newest Lance version; None when the table cannot be read."""
    operations: tuple[str, ...]
    """What was done to it since it was published, in Lance's words, such as `Delete`."""
    reason: Hint | None
    """`error` as a value, for other surfaces."""
    rows_added: int | None
    """How many rows publishing adds; None when that cannot be told."""
    rows_updated: int | None
    """How many rows publishing changes; None when that cannot be told."""
    rows_deleted: int | None
    """How many rows publishing takes away; None when that cannot be told."""
    not_checked: tuple[str, ...] = ()
    """What nobody checks of rows published by force: `constraints` and `endpoints`."""
    commit: str | None = None
    """The graph commit that put it right, or None."""

    @property
    def error(self) -> str | None:
        """Why nothing was done, or in a preview why nothing could be; None when there is no such reason."""
        return None if self.reason is None else str(self.reason)

    @property
    def can_be_published(self) -> bool:
        """Whether this is drift that was left alone, and a later call may publish it."""
        return self.action in (RepairAction.PREVIEW, RepairAction.REFUSED) and self.reason in (
            None,
            EXTERNAL_CHANGE,
        )

    def to_json(self) -> dict[str, Fact]:
        """As a table of `omnigraph repair --json`."""
        return {
            "table_key": self.table_key,
            "branch": self.branch,
            "classification": self.classification.value,
            "action": self.action.value,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "operations": list(self.operations),
            "error": self.error,
            "rows_added": self.rows_added,
            "rows_updated": self.rows_updated,
            "rows_deleted": self.rows_deleted,
            "not_checked": list(self.not_checked),
            "commit": self.commit,
        }


def decide_action(
    classification: Classification, options: RepairOptions, obstacles: Obstacles
) -> RepairAction:
    """What to do with one table."""
    match classification:
        case Classification.NO_DRIFT:
            return RepairAction.NO_OP
        case _ if not options.confirm:
            return RepairAction.PREVIEW
        case _ if options.discard:
            return RepairAction.REFUSED if obstacles.discard else RepairAction.DISCARDED
        case Classification.VERIFIED_MAINTENANCE:
            return RepairAction.REFUSED if obstacles.publish else RepairAction.HEALED
        case Classification.SUSPICIOUS | Classification.UNVERIFIABLE:
            return RepairAction.FORCED if options.force and not obstacles.publish else RepairAction.REFUSED
        case _:
            assert_never(classification)


def explain(action: RepairAction, options: RepairOptions, obstacles: Obstacles) -> Hint | None:
    """Return why nothing was done, or in a preview why nothing can be done."""
    match action:
        case RepairAction.PREVIEW:
            return _foreseen(obstacles)
        case RepairAction.REFUSED if options.discard:
            return Hint(obstacles.discard)
        case RepairAction.REFUSED:
            return Hint(obstacles.publish) if obstacles.publish else EXTERNAL_CHANGE
        case _:
            return None


def _foreseen(obstacles: Obstacles) -> Hint | None:
    """What a later call will be refused, in a preview."""
    match obstacles:
        case Obstacles("", ""):
            return None
        case Obstacles(publish, "") if publish:
            return hint(f"it cannot be published: {publish}; {{}} drops it", DISCARD)
        case Obstacles("", discard) if discard:
            return Hint(f"it cannot be discarded: {discard}")
        case _:
            return Hint(obstacles.publish)


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
        reason=Hint(error),
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
    looks: list[TableInspection] = field(default_factory=list)
    rows: list[TableRepairStats] = field(default_factory=list)

    def run(self) -> list[TableRepairStats]:
        started = time.monotonic()
        commit: CommitRecord | None = None
        failure: OmnigraphError | None = None
        try:
            if self.options.confirm:
                published = write(
                    self.root, self.branch.name, WriteRequest(WriterKind.REPAIR, ACTOR, self._stage)
                )
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

    def _stage(self, at: StagingArea) -> StagedWrite | None:
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
                effects.append(at.restore_effect(look.table, look.head))
                continue
            accepted = at.publish_head_effect(look.table, look.head)
            if isinstance(accepted, TableRecord):
                moved.append(accepted)
            else:
                effects.append(accepted)
        if not heads:
            return None
        is_forced = any(row.action is RepairAction.FORCED for row in self.rows)
        by = replace(at, actor=FORCE_ACTOR) if is_forced else at
        outcome = Outcome({"tables": len(heads)}, ManifestChange(tables=tuple(moved)), heads=tuple(heads))
        return by.finish(tuple(effects), frozenset(found.table.id for found in heads), outcome)

    def _judge(self, snapshot: Snapshot) -> None:
        """Judge every table of the branch."""
        steady = inspect_until_stable(
            snapshot, lambda: refuse_pending(self.root, "repair"), WriteEnvironment()
        )

        def judge(look: TableInspection) -> TableInspection:
            return look if look.table.id in steady.busy else inspect_rows(steady.snapshot, look)

        with ThreadPoolExecutor(maintenance_concurrency()) as threads:
            self.looks = list(threads.map(judge, steady.looks))
        self.rows = [self._row(look, is_busy=look.table.id in steady.busy) for look in self.looks]

    def _row(self, look: TableInspection, *, is_busy: bool) -> TableRepairStats:
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
            reason=explain(action, self.options, obstacles),
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
            return replace(row, action=RepairAction.REFUSED, reason=Hint(failure.message))
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
        error=row.error,
        seconds=round(seconds, 3),
    )
