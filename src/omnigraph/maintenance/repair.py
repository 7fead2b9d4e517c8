"""Repair: publishes or discards changes that external tools made to the tables of a graph, on every live branch.

In: a graph and what the caller confirmed. Out: one row per table that a branch owns. A preview only reads. Otherwise
all tables of a branch are repaired in one commit of the write path, whose Check requires that pins and heads are still
the inspected ones: publishing moves pins to existing versions (settings for Lance's automatic cleanup are removed
first), discarding is a Restore of the published content. A table that fails has its error in its row. A branch that is
deleted while repair runs is skipped, and its row reports it. A crash leaves the drift unchanged, or the commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, assert_never

from omnigraph.base import errors
from omnigraph.base.hints import Argument, Hint, hint
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, Pin, TableId, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import Effect, ExpectedHead, StagedWrite
from omnigraph.maintenance.drift import (
    WRITE_IN_PROGRESS,
    Classification,
    Obstacles,
    TableInspection,
    inspect_rows,
    inspect_until_stable,
    require_no_interrupted_writes,
)
from omnigraph.maintenance.rows import TableStats
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.runner import in_threads
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.repair")

ACTOR: Final = "omnigraph:repair"
FORCE_ACTOR: Final = "omnigraph:repair:force"
PUBLISH: Final = Argument("unverified", "publish")
DISCARD: Final = Argument("unverified", "discard")
EXTERNAL_CHANGE: Final = hint("an external tool changed it: {} publishes the change, {} discards it", PUBLISH, DISCARD)
"""Why a change was refused that repair can publish or discard with other arguments."""
BRANCH_DELETED: Final = "skipped: the branch was deleted while repair ran"


class RepairAction(StrEnum):
    """What repair did with a table."""

    NO_OP = "no_op"
    """Nothing: the table has no drift."""
    PREVIEW = "preview"
    """Nothing: this was a preview, without `confirm`."""
    HEALED = "healed"
    """A change that keeps every row was published."""
    REFUSED = "refused"
    """Nothing; `error` has the reason."""
    FORCED = "forced"
    """An external change was published."""
    DISCARDED = "discarded"
    """The published content was restored."""
    SKIPPED = "skipped"
    """Nothing; the branch was deleted while repair ran."""


_DONE: Final = frozenset({RepairAction.HEALED, RepairAction.FORCED, RepairAction.DISCARDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """What repair may do. The default is a preview that changes nothing."""

    confirm: bool = False
    """Publish changes that keep every row."""
    force: bool = False
    """Publish all other changes too; requires `confirm`."""
    discard: bool = False
    """Discard the changes instead of publishing them; requires `confirm`."""
    types: tuple[str, ...] = ()
    """Only these types, by name or alias; empty: all."""
    branches: tuple[str, ...] = ()
    """Only these branches; empty: all."""
    actor: str | None = None
    """Who repairs; None: `omnigraph:repair`, or `omnigraph:repair:force` if an external change is published."""

    def validate(self) -> None:
        """Raise for options that cannot be used together."""
        if self.force and self.discard:
            raise errors.UsageError(
                "cannot publish and discard external changes in one run: expected one of the two, got both",
                code="repair_twice",
                hint=hint("Pass {} or {}.", PUBLISH, DISCARD),
            )
        if (self.force or self.discard) and not self.confirm:
            argument = PUBLISH if self.force else DISCARD
            raise errors.ConfirmationRequiredError(
                f"cannot {argument.value} external changes without confirmation",
                code="confirmation_missing",
                hint=hint("Nothing was changed. Inspect the preview, then pass {}.", argument),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepairStats(TableStats):
    """What repair found and did for one table of one branch."""

    table_key: str
    """The table, such as `node:Person`, or `__manifest` if the branch itself cannot be read."""
    branch: str
    """The branch."""
    classification: Classification
    """What kind of drift it has."""
    action: RepairAction
    """What repair did."""
    manifest_version: int
    """The published Lance version of the table; after a repair the new one."""
    lance_head_version: int | None = None
    """Its newest Lance version; None if the table cannot be read."""
    operations: tuple[str, ...] = ()
    """The Lance operations since the published version, such as `Delete`."""
    reason: Hint | None = None
    """`error` as a value, for other surfaces."""
    rows_added: int | None = None
    """The number of rows that publishing adds; None if it is not known."""
    rows_updated: int | None = None
    """The number of rows that publishing changes; None if it is not known."""
    rows_deleted: int | None = None
    """The number of rows that publishing deletes; None if it is not known."""
    not_checked: tuple[str, ...] = ()
    """What repair does not check when it publishes external changes: `constraints` and `endpoints`."""
    commit: str | None = None
    """The graph commit that repaired the table, or None."""

    @property
    def can_be_published(self) -> bool:
        """Whether the table still has drift that a later call may publish."""
        return self.action in (RepairAction.PREVIEW, RepairAction.REFUSED) and self.reason in (None, EXTERNAL_CHANGE)


def repair_all_tables(graph: GraphTarget, options: RepairOptions | None = None) -> list[TableRepairStats]:
    """Inspect the tables of every live branch, and repair what the options allow.

    Example:
        >>> {row.action.value for row in og.maintenance.repair_all_tables(graph)}
        {'no_op'}
    """
    options = options or RepairOptions()
    options.validate()
    root = graph.location
    require_no_interrupted_writes(root, "repair")
    branches = _select_branches(root, options)
    rows: list[TableRepairStats] = []
    for branch in sorted(branches, key=lambda branch: (branch.name != MAIN, branch.name)):
        try:
            rows += _BranchRepair(root=root, branch=branch, options=options).run()
        except errors.OmnigraphError as error:
            commits = {row.branch: row.commit for row in rows if row.commit is not None}
            if _is_deleted(root, branch):
                rows.append(_branch_row(branch.name, RepairAction.SKIPPED, BRANCH_DELETED))
            elif isinstance(error, errors.FormatError) and branch.name != MAIN:
                # A branch that cannot be read, as in a moved graph, does not stop the others.
                action = RepairAction.REFUSED if options.confirm else RepairAction.PREVIEW
                rows.append(_branch_row(branch.name, action, error.message))
            elif commits:
                raise _partly_repaired(error, commits) from error
            else:
                raise
    return rows


def _select_branches(root: Location, options: RepairOptions) -> tuple[BranchRecord, ...]:
    """Return the branches to inspect; raise for a branch that does not exist, or a type that none of them has."""
    for name in options.branches:
        read_snapshot(root, name)
    records = read_snapshot(root).state.branches
    branches = tuple(records[name] for name in options.branches or records if name in records)
    if options.types:
        catalogs = [read_snapshot(root, branch.name).schema.catalog for branch in branches if branch.name != MAIN]
        main_catalog = read_snapshot(root).schema.catalog
        for name in options.types:
            if not any(_has_type(catalog, name) for catalog in catalogs):
                main_catalog.require_type(name)
    return branches


def _has_type(catalog: Catalog, name: str) -> bool:
    try:
        catalog.require_type(name)
    except errors.NotFoundError:
        return False
    return True


def decide_action(classification: Classification, options: RepairOptions, obstacles: Obstacles) -> RepairAction:
    """Return what to do with one table."""
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


def explain_action(action: RepairAction, options: RepairOptions, obstacles: Obstacles) -> Hint | None:
    """Return why nothing was done, or in a preview why nothing can be done."""
    match action, obstacles:
        case RepairAction.PREVIEW, Obstacles("", ""):
            return None
        case RepairAction.PREVIEW, Obstacles("", discard):
            return Hint(f"it cannot be discarded: {discard}")
        case RepairAction.PREVIEW, Obstacles(publish, ""):
            return hint("it cannot be published: {}; {} discards it", publish, DISCARD)
        case RepairAction.REFUSED, Obstacles(_, discard) if options.discard:
            return Hint(discard)
        case RepairAction.REFUSED, Obstacles("", _):
            return EXTERNAL_CHANGE
        case ((RepairAction.PREVIEW | RepairAction.REFUSED), Obstacles(publish, _)):
            return Hint(publish)
        case _:
            return None


def _is_deleted(root: Location, branch: BranchRecord) -> bool:
    """Whether the branch no longer exists, or another branch has its name."""
    current = read_snapshot(root).state.branches.get(branch.name)
    return current is None or current.id != branch.id


def _branch_row(name: str, action: RepairAction, error: str) -> TableRepairStats:
    """Return a row about a branch as a whole."""
    return TableRepairStats(
        table_key=MANIFEST,
        branch=name,
        classification=Classification.UNVERIFIABLE,
        action=action,
        manifest_version=0,
        reason=Hint(error),
    )


def _partly_repaired(error: errors.OmnigraphError, commits: Mapping[str, str]) -> errors.OmnigraphError:
    """Return the error with the commits on the branches before the one that failed, which are kept."""
    finished = ", ".join(f"{branch} (commit {commit})" for branch, commit in commits.items())
    failure = errors.StorageError(
        f"{error.message}; already repaired: {finished}",
        code=error.code,
        hint=Hint("The repaired branches are published. Run it again for the others.")
        if not error.advice
        else Hint("The repaired branches are published. About the branch that failed:") + error.advice,
        facts={**error.facts, "repaired": dict(commits)},
    )
    failure.kind, failure.applied = error.kind, error.applied
    return failure


@dataclass(slots=True, kw_only=True)
class _BranchRepair:
    """The run on one branch. `inspections` and `rows` are those of the newest attempt, in the same order."""

    root: Location
    branch: BranchRecord
    options: RepairOptions
    inspections: list[TableInspection] = field(default_factory=list)
    rows: list[TableRepairStats] = field(default_factory=list)

    def run(self) -> list[TableRepairStats]:
        started = time.monotonic()
        commit: CommitRecord | None = None
        failure: errors.OmnigraphError | None = None
        try:
            if self.options.confirm:
                request = WriteRequest(kind=WriteOperation.REPAIR, actor=self.options.actor or ACTOR, stage=self._stage)
                commit = write(self.root, self.branch.name, request)
            else:
                self._inspect(read_snapshot(self.root, self.branch.name))
        except errors.OmnigraphError as error:
            if not self.rows or isinstance(error, errors.StorageError) or _is_deleted(self.root, self.branch):
                raise
            failure = error
        self.rows = [
            _finish_row(row, inspection.table.id, commit, failure)
            for row, inspection in zip(self.rows, self.inspections, strict=True)
        ]
        for row in self.rows:
            _log(row, time.monotonic() - started)
        return self.rows

    def _stage(self, area: StagingArea) -> StagedWrite | None:
        """Stage effects that restore content, and pins to existing versions."""
        self._inspect(area.snapshot)
        effects: list[Effect] = []
        moved: list[TableRecord] = []
        heads: list[ExpectedHead] = []
        for inspection, row in zip(self.inspections, self.rows, strict=True):
            if row.action not in _DONE or inspection.head is None:
                continue
            table, head = inspection.table, inspection.head
            heads.append(ExpectedHead(table, Pin(head.branch, head.version)))
            if row.action is RepairAction.DISCARDED or inspection.drift.is_ours:
                effects.append(area.restore_effect(table, head))
                continue
            published = area.publish_head_effect(table, head)
            if isinstance(published, TableRecord):
                moved.append(published)
            else:
                effects.append(published)
        if not heads:
            return None
        if self.options.actor is None and any(row.action is RepairAction.FORCED for row in self.rows):
            area = replace(area, actor=FORCE_ACTOR)
        reads = frozenset(head.table.id for head in heads)
        extra_changes = ManifestChange(tables=tuple(moved))
        staged = area.finish(tuple(effects), reads, {"tables": len(heads)}, extra_changes)
        return replace(staged, heads=tuple(heads))

    def _inspect(self, snapshot: Snapshot) -> None:
        """Inspect every table of the branch and decide what to do with it."""
        stable = inspect_until_stable(
            snapshot, lambda: require_no_interrupted_writes(self.root, "repair"), WriteEnvironment()
        )

        def inspect(inspection: TableInspection) -> TableInspection:
            is_busy = inspection.table.id in stable.busy
            return inspection if is_busy else inspect_rows(stable.snapshot, inspection)

        catalog = stable.snapshot.schema.catalog
        types = [name for name in self.options.types if _has_type(catalog, name)]
        aliases = {entity.alias for entity in catalog.select_types(types)} if types or not self.options.types else set()
        chosen = [inspection for inspection in stable.inspections if inspection.table.alias in aliases]
        self.inspections = list(in_threads(inspect, chosen))
        self.rows = [
            self._row(inspection, is_busy=inspection.table.id in stable.busy) for inspection in self.inspections
        ]

    def _row(self, inspection: TableInspection, *, is_busy: bool) -> TableRepairStats:
        drift, changes = inspection.drift, inspection.changes
        obstacles = Obstacles(WRITE_IN_PROGRESS, WRITE_IN_PROGRESS) if is_busy else inspection.obstacles
        action = decide_action(drift.classification, self.options, obstacles)
        return TableRepairStats(
            table_key=inspection.table.alias,
            branch=self.branch.name,
            classification=drift.classification,
            action=action,
            manifest_version=inspection.table.pin.version,
            lance_head_version=inspection.head_version,
            operations=drift.operations,
            reason=explain_action(action, self.options, obstacles),
            rows_added=None if changes is None else changes.added,
            rows_updated=None if changes is None else changes.updated,
            rows_deleted=None if changes is None else changes.deleted,
            not_checked=inspection.not_checked,
        )


def _finish_row(
    row: TableRepairStats, table: TableId, commit: CommitRecord | None, failure: errors.OmnigraphError | None
) -> TableRepairStats:
    """Return the row after the write, with the version that is published now."""
    if row.action not in _DONE:
        return row
    if failure is not None:
        return replace(row, action=RepairAction.REFUSED, reason=Hint(failure.message))
    assert commit is not None, "something was done"
    pin = next(move.after for move in commit.tables if move.table == table)
    assert pin is not None, "repair drops no table"
    return replace(row, commit=commit.id, manifest_version=pin.version, lance_head_version=pin.version)


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
