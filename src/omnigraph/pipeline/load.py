"""Load: files of graph data become one commit, whatever their size.

In: files, a mode, a branch. Out: a `Loaded` with exact counts and the commit. Spark schedules byte ranges; workers
read, check and write fragments (`load_task`); the driver checks what rows mean together (`load_change`) and commits
once through the write path. A bad load writes nothing: every mistake is in the report, and the staged files go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.base.errors import ContentError
from omnigraph.graph.commit import World, Write, write
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.lookup import SnapshotLookup
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.stage import Outcome, Stage, WritableTable
from omnigraph.graph.staged import Effect, Staged
from omnigraph.integrity.report import ViolationReport
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load_change import LoadedInput, LoadedType, LoadMode, check_loaded, gather_parts
from omnigraph.pipeline.load_source import LoadSource, RunTasks
from omnigraph.pipeline.load_task import FragmentTarget, LoadShape
from omnigraph.storage.deletion import delete_fragments
from omnigraph.storage.location import Location
from omnigraph.storage.staging import (
    StagedTransaction,
    stage_fragments,
    stage_overwrite_with,
    stage_upsert,
    write_rows,
)


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load, how, and where to."""

    source: LoadSource
    mode: LoadMode
    actor: str
    branch: str = MAIN
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: rows by alias, and its commit, or None for a dry run and for an input without rows."""

    counts: Mapping[str, int]
    commit: CommitRecord | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class LoadRejectedError(ContentError):
    """The input breaks rules; nothing was written."""

    def __init__(self, report: ViolationReport) -> None:
        first = report.first[0]
        more = f" (and {report.total - 1} more)" if report.total > 1 else ""
        where = first.file if first.line is None else f"{first.file}:{first.line}"
        super().__init__(
            f"{where}: {first.message}{more}",
            code="load_rejected",
            hint=_hint(report),
            facts={"validation_errors": [found.to_json() for found in report.first], "total": report.total},
        )
        self.report = report

    def render(self) -> str:
        """Each kept violation on a line of its own, and how many there are in all."""
        shown = self.report.first
        count = "a mistake" if self.report.total == 1 else f"{self.report.total} mistakes"
        more = "" if self.report.total == len(shown) else f", of which the first {len(shown)} are shown"
        lines = [f"the input has {count}{more}"]
        lines += [f"  {found.describe()}" for found in shown]
        return "\n".join(lines)


def _hint(report: ViolationReport) -> str:
    if all(rule is Rule.KEY_CONFLICT for rule, _ in report.counts):
        return "nothing was written; --mode merge replaces rows that are there already"
    return "nothing was written; mend these lines and load again"


def load(root: Location, request: LoadRequest, run_tasks: RunTasks, world: World | None = None) -> Loaded:
    """Load the files as one commit, or raise with nothing written."""
    loading = _Loading(request, run_tasks)
    if request.dry_run:
        loading.check_only(read_snapshot(root, request.branch))
        return Loaded(loading.counts(), None)
    wanted = Write(WriterKind.LOAD, request.actor, loading.stage, loading.restage)
    published = write(root, request.branch, wanted, world)
    return Loaded(loading.counts(), None if published is None else published.publication.commit)


@dataclass(slots=True)
class _Loading:
    """One load under way. What was read and written is kept, so that a moved branch costs only a second check."""

    request: LoadRequest
    run_tasks: RunTasks
    loaded: LoadedInput | None = None
    targets: dict[str, WritableTable] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {} if self.loaded is None else {one.entity.alias: one.count for one in self.loaded.types}

    def check_only(self, snapshot: Snapshot) -> None:
        self.loaded = self._read(snapshot, {})
        self._refuse_bad(snapshot)

    def stage(self, at: Stage) -> Staged | None:
        self.targets = {} if self.request.mode is LoadMode.MERGE else self._open_targets(at)
        self.loaded = self._read(at.snapshot, self.targets)
        return self._finish(at)

    def restage(self, at: Stage, staged: Staged) -> Staged | None:
        """The branch moved: check again what was staged; read again only if the schema or a Lance branch changed."""
        same_schema = staged.snapshot.schema.hash == at.snapshot.schema.hash
        reopened = {alias: at.writable(alias) for alias in self.targets} if same_schema else {}
        same_places = all(
            reopened[alias].dataset.branch == target.dataset.branch for alias, target in self.targets.items()
        ) if same_schema else False  # fmt: skip
        if not same_places:
            return self.stage(at)
        self.targets = reopened
        return self._finish(at)

    def _open_targets(self, at: Stage) -> dict[str, WritableTable]:
        return {alias: at.writable(alias) for alias in at.snapshot.tables}

    def _read(self, snapshot: Snapshot, targets: Mapping[str, WritableTable]) -> LoadedInput:
        places = {
            alias: FragmentTarget(target.dataset.location, target.dataset.branch, target.dataset.version)
            for alias, target in targets.items()
        }
        shape = LoadShape(snapshot.schema.catalog_json, places)
        return gather_parts(snapshot.schema.catalog, self.request.source.read(shape, self.run_tasks))

    def _refuse_bad(self, snapshot: Snapshot) -> None:
        assert self.loaded is not None, "the input was read"
        lookup = SnapshotLookup(snapshot)
        report = check_loaded(snapshot.schema.catalog, self.loaded, self.request.mode, lookup)
        if report.total:
            self._discard()
            raise LoadRejectedError(report)

    def _finish(self, at: Stage) -> Staged | None:
        assert self.loaded is not None, "the input was read"
        self._refuse_bad(at.snapshot)
        if not self.loaded.types:
            return None
        effects = tuple(self._effect(at, one) for one in self.loaded.types)
        reads = frozenset(table.id for table in at.snapshot.tables.values())
        return at.finish(effects, reads, Outcome(self.counts()))

    def _effect(self, at: Stage, one: LoadedType) -> Effect:
        alias = one.entity.alias
        target = self.targets.get(alias) or at.writable(alias)
        transaction, rows = self._transaction(at.snapshot, target, one)
        return at.exact(target, transaction, rows)

    def _transaction(
        self, snapshot: Snapshot, target: WritableTable, one: LoadedType
    ) -> tuple[StagedTransaction, int]:
        match self.request.mode:
            case LoadMode.APPEND:
                return stage_fragments(target.dataset, one.fragments), target.table.row_count + one.count
            case LoadMode.OVERWRITE:
                return stage_overwrite_with(target.dataset, one.fragments), one.count
            case LoadMode.MERGE:
                present = SnapshotLookup(snapshot).present_ids(one.entity.id, one.ids)
                added = one.count - sum(bool(found) for found in present.to_pylist())
                if added == one.count:
                    return stage_fragments(target.dataset, write_rows(target.dataset, one.columns)), (
                        target.table.row_count + added
                    )
                return stage_upsert(target.dataset, one.columns), target.table.row_count + added

    def _discard(self) -> None:
        """Delete what workers wrote: nothing references it, and nobody else knows of it."""
        for one in self.loaded.types if self.loaded is not None else ():
            if one.fragments:
                delete_fragments(self.targets[one.entity.alias].dataset, one.fragments)
