"""Load: files and frames of graph data become one commit, whatever their size.

In: a source, a mode, a branch. Out: a `Loaded` with exact counts and the commit. Spark schedules pieces; workers
read, check and write fragments (`load_task`). What rows mean together is checked on the driver when the input is small
(`load_change`) and in hash buckets by workers when it is not (`load_buckets`), with the same answer. The driver commits
once through the write path. A bad load writes nothing: every mistake is in the report, and the staged files go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import create_branch_with
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import CommitRecord, StreamBatch, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.graph.write.check import find_stale
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea, WritableTable, discard_fork
from omnigraph.graph.write.states import Effect, StagedWrite
from omnigraph.integrity.report import (
    ValidationError,
    Violation,
    ViolationReport,
    merge_reports,
    violations_of,
)
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.buckets import (
    BucketCheck,
    BucketVerdict,
    bucket_count,
    check_in_buckets,
    mark_all_replaced,
)
from omnigraph.pipeline.load.change import LoadedInput, LoadedType, LoadMode, check_loaded, gather_parts
from omnigraph.pipeline.load.keys import Buckets
from omnigraph.pipeline.load.rejects import ErrorStream, ErrorWriter, merge_errors
from omnigraph.pipeline.load.source import LoadSource
from omnigraph.pipeline.load.tasks import WRITTEN, LoadShape, WrittenNote
from omnigraph.pipeline.load.upsert import replace_rows
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.task_errors import unpack_failure
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.delete import delete_data_files, file_names
from omnigraph.storage.lance.stage import (
    StagedTransaction,
    stage_fragments,
    stage_overwrite_with,
    stage_replacement,
    stage_upsert,
    write_rows,
)
from omnigraph.storage.location import Location, Scheme

logger = logging.getLogger("omnigraph.load")

_KEYLESS_SHOWN: Final = 3

ErrorSink = Callable[[Iterable[Violation]], None]
"""Takes every violation of an input in the order of its lines, none for one without; called again after a restage."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load, how, and where to. A batch of a `stream` that was committed before is not committed again.

    `base`: the branch does not exist, and is created from this one together with the load, or not at all.
    """

    source: LoadSource
    mode: LoadMode
    actor: str
    branch: str = MAIN
    dry_run: bool = False
    errors: ErrorSink | None = None
    stream: StreamBatch | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: rows by alias, and its commit, or None for a dry run and for an input without rows."""

    counts: Mapping[str, int]
    commit: CommitRecord | None
    branch_created: bool = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class LoadRejectedError(ValidationError):
    """The input breaks rules of the schema; nothing was written."""

    def __init__(self, report: ViolationReport, keyless: Sequence[str] = ()) -> None:
        first = report.first[0]
        more = f" (and {report.total - 1:,} more)" if report.total > 1 else ""
        count = "a mistake" if report.total == 1 else f"{report.total:,} mistakes"
        super().__init__(
            f"{first.describe()}{more}",
            report,
            head=f"the input has {count}",
            code="load_rejected",
            hint=_hint(report, keyless),
        )


def _hint(report: ViolationReport, keyless: Sequence[str]) -> str:
    """What to do about it. `keyless`: the types of the input that have no key, whose rows a merge cannot know again."""
    more = "; --errors FILE lists every mistake" if report.total > len(report.first) else ""
    if report.has_only(Rule.KEY_CONFLICT):
        shown = ", ".join((*keyless[:_KEYLESS_SHOWN], *(("…",) if len(keyless) > _KEYLESS_SHOWN else ())))
        again = f", but adds rows of {shown} once more unless they have an id" if keyless else ""
        return f"nothing was written; --mode merge replaces rows that are there already{again}{more}"
    return f"nothing was written; mend these lines and load again{more}"


def load(root: Location, request: LoadRequest, run_tasks: RunTasks) -> Loaded:
    """Load the input as one commit, or raise with nothing written."""
    with open_scratch(root) as scratch:
        loading = _Load(request, run_tasks, scratch)
        if request.dry_run:
            loading.check_only(read_snapshot(root, request.branch))
            return Loaded(loading.counts(), None)
        # An overwrite that lost what it had seen must be asked for again: what is new there was not meant to go.
        restage = loading.refuse_stale if request.mode is LoadMode.OVERWRITE else loading.restage
        wanted = WriteRequest(WriterKind.LOAD, request.actor, loading.stage, restage, request.stream)
        if request.base is None:
            published = write(root, request.branch, wanted)
        else:
            published = create_branch_with(root, request.branch, request.base, wanted)
    return Loaded(loading.counts(), None if published is None else published.publication.commit)


class _Load:
    """One load under way. What was read and written is kept, so that a moved branch costs only a second check."""

    def __init__(self, request: LoadRequest, run_tasks: RunTasks, scratch: Scratch) -> None:
        self._request = request
        self._run_tasks = run_tasks
        self._scratch = scratch
        self._buckets = _choose_buckets(request, scratch)
        self._loaded: LoadedInput | None = None
        self._targets: dict[str, WritableTable] = {}
        self._checked: _Checked | None = None

    def counts(self) -> dict[str, int]:
        return {} if self._loaded is None else {one.entity.alias: one.count for one in self._loaded.types}

    def check_only(self, snapshot: Snapshot) -> None:
        self._read(snapshot)
        self._check(snapshot)

    def stage(self, at: StagingArea) -> StagedWrite | None:
        try:
            return self._stage(at)
        except BaseException:  # whatever ends it, also Ctrl-C: nothing references what was staged
            self._discard()
            raise

    def _stage(self, at: StagingArea) -> StagedWrite | None:
        if self._request.mode is not LoadMode.MERGE:
            self._targets = {alias: at.writable(alias) for alias in at.snapshot.tables}
        loaded = self._read(at.snapshot)
        named = {one.entity.alias for one in loaded.types}
        for alias in self._targets.keys() - named:
            discard_fork(self._targets.pop(alias))
        if self._request.mode is LoadMode.MERGE:
            self._targets = {alias: at.writable(alias) for alias in sorted(named)}
        return self._finish(at)

    def restage(self, at: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        """The branch moved: check again what was staged; read again only if the schema or a Lance branch changed."""
        same_places = staged.snapshot.schema.hash == at.snapshot.schema.hash and all(
            _is_at(at, at.table(alias), target) for alias, target in self._targets.items()
        )
        if not same_places:
            self._discard()
            return self.stage(at)
        try:
            self._discard_upserts()
            self._targets = {alias: at.writable(alias) for alias in self._targets}
            return self._finish(at)
        except BaseException:
            self._discard()
            raise

    def refuse_stale(self, at: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        """The branch moved under an overwrite: delete what was staged, and say what moved."""
        stale = find_stale(staged, at.snapshot)
        assert stale is not None, "something moved"
        self._discard()
        raise stale.conflict()

    def _read(self, snapshot: Snapshot) -> LoadedInput:
        writes = self._request.mode is not LoadMode.MERGE
        shape = LoadShape(
            snapshot.schema.catalog_json,
            {alias: DatasetVersion.of(target.dataset) for alias, target in self._targets.items()}
            if writes
            else {},
            whole=not writes and not self._request.dry_run,
            buckets=self._buckets,
            errors=None if self._request.errors is None else self._scratch,
            notes=None if self._scratch.location.scheme is Scheme.MEMORY or not writes else self._scratch,
        )
        parts = self._request.source.read(shape, self._run_tasks)
        self._loaded = gather_parts(snapshot.schema.catalog, parts)
        failure = next((part.failure for part in parts if part.failure is not None), None)
        if failure is not None:
            raise unpack_failure(failure)
        return self._loaded

    def _finish(self, at: StagingArea) -> StagedWrite | None:
        assert self._loaded is not None, "the input was read"
        self._check(at.snapshot)
        if not self._loaded.types:
            return None
        effects = tuple(self._effect(at, one) for one in self._loaded.types)
        reads = frozenset(table.id for table in at.snapshot.tables.values())
        return at.finish(effects, reads, Outcome(self.counts()))

    def _check(self, snapshot: Snapshot) -> None:
        """Check what rows mean together; raise if anything at all is wrong."""
        assert self._loaded is not None, "the input was read"
        check = self._check_on_driver if self._buckets is None else self._check_in_buckets
        report, errors = check(snapshot, self._loaded)
        if self._request.errors is not None:
            self._request.errors(merge_errors(self._scratch, errors))
        if report.total:
            keyless = [one.entity.name for one in self._loaded.types if not one.entity.key]
            raise LoadRejectedError(report, keyless)

    def _check_on_driver(self, snapshot: Snapshot, loaded: LoadedInput) -> _Found:
        lookup = SnapshotLookup(snapshot)
        found = check_loaded(snapshot.schema.catalog, loaded, self._request.mode, lookup)
        reports = [ViolationReport.of_breaches(breaches, places) for breaches, places in found if breaches]
        streams = loaded.errors
        if self._request.errors is not None:
            writer = ErrorWriter(self._scratch)
            writer.add(one for breaches, places in found for one in violations_of(breaches, places))
            streams = (*streams, ErrorStream(writer.finish()))
        return merge_reports([loaded.report, *reports]), streams

    def _check_in_buckets(self, snapshot: Snapshot, loaded: LoadedInput) -> _Found:
        assert self._buckets is not None, "a large input has buckets"
        merges = self._request.mode is LoadMode.MERGE
        upserts = (
            {alias: DatasetVersion.of(target.dataset) for alias, target in self._targets.items()}
            if merges
            else {}
        )
        errors = None if self._request.errors is None else self._scratch
        check = BucketCheck(snapshot, loaded, self._request.mode, self._buckets, upserts, errors)
        verdict = check_in_buckets(check, self._run_tasks)
        self._checked = _Checked(check, verdict)
        return verdict.report, verdict.errors

    def _effect(self, at: StagingArea, one: LoadedType) -> Effect:
        target = self._targets[one.entity.alias]
        transaction, rows = self._transaction(at.snapshot, target, one)
        return at.transaction_effect(target, transaction, rows)

    def _transaction(
        self, snapshot: Snapshot, target: WritableTable, one: LoadedType
    ) -> tuple[StagedTransaction, int]:
        match self._request.mode:
            case LoadMode.APPEND:
                return stage_fragments(target.dataset, one.fragments), target.table.row_count + one.count
            case LoadMode.OVERWRITE:
                return stage_overwrite_with(target.dataset, one.fragments), one.count
            case LoadMode.MERGE if self._checked is not None:
                return self._replacement(self._checked, target, one)
            case LoadMode.MERGE:
                return _upsert(snapshot, target, one)

    def _replacement(
        self, checked: _Checked, target: WritableTable, one: LoadedType
    ) -> tuple[StagedTransaction, int]:
        alias = one.entity.alias
        replaced, fragments = checked.verdict.replaced_of(alias), checked.verdict.fragments_of(alias)
        rows = target.table.row_count + one.count - replaced
        if not replaced:
            return stage_fragments(target.dataset, fragments), rows
        deletions = mark_all_replaced(checked.check, alias, checked.verdict, self._run_tasks)
        return stage_replacement(target.dataset, deletions, fragments), rows

    def _discard(self) -> None:
        """Delete what workers wrote: nothing references it, and nobody else knows of it."""
        for one in self._loaded.types if self._loaded is not None else ():
            self._delete(one.entity.alias, file_names(one.fragments))
        self._delete_noted()
        self._discard_upserts()
        for target in self._targets.values():
            discard_fork(target)
        self._loaded, self._targets = None, {}

    def _discard_upserts(self) -> None:
        if self._checked is not None:
            for alias in self._checked.verdict.upserts:
                self._delete(alias, file_names(self._checked.verdict.fragments_of(alias)))
        self._checked = None

    def _delete_noted(self) -> None:
        """What tasks wrote whose parts did not come back: the load was interrupted, or another task failed."""
        try:
            stored = list(self._scratch.read_all(WRITTEN))
        except OmnigraphError as error:
            logger.warning("staged files are left for cleanup: %s", error.message)
            return
        for data in stored:
            try:
                note = msgspec.json.decode(data, type=WrittenNote)
            except msgspec.DecodeError as error:
                logger.warning("staged files are left for cleanup: a note of them is not valid: %s", error)
                continue
            if note.alias in self._targets:
                self._delete(note.alias, note.files)

    def _delete(self, alias: str, files: Sequence[str]) -> None:
        if not files:
            return
        try:
            delete_data_files(self._targets[alias].dataset, files)
        except OmnigraphError as error:
            logger.warning("staged files of %s are left for cleanup: %s", alias, error.message)


_Found = tuple[ViolationReport, tuple[ErrorStream, ...]]


@dataclass(frozen=True, slots=True)
class _Checked:
    check: BucketCheck
    verdict: BucketVerdict


def _choose_buckets(request: LoadRequest, scratch: Scratch) -> Buckets | None:
    """None when the keys, or the rows of a merge, are few enough for the driver, or can only be in its memory."""
    merges = request.mode is LoadMode.MERGE
    most = limits.LOAD_MERGE_DRIVER_BYTES_MAX if merges else limits.LOAD_DRIVER_BYTES_MAX
    size = request.source.text_bytes
    if scratch.location.scheme is Scheme.MEMORY or (size is not None and size <= most):
        return None
    return Buckets(scratch, bucket_count(size))


def _is_at(at: StagingArea, table: TableRecord, target: WritableTable) -> bool:
    """Whether the branch has the table, as its own, where fragments were written for it."""
    here = (at.snapshot.root.child(table.path), table.pin.branch)
    return table.owner == at.snapshot.branch.id and here == (target.dataset.location, target.dataset.branch)


def _upsert(snapshot: Snapshot, target: WritableTable, one: LoadedType) -> tuple[StagedTransaction, int]:
    """A merge by the driver, whose rows came back to it."""
    assert one.rows is not None, "the rows came back to the driver"
    if one.count > limits.LOAD_UPSERT_ROWS_MAX:
        staged, replaced = replace_rows(target.dataset, one.rows.columns)
        return staged, target.table.row_count + one.count - replaced
    present = SnapshotLookup(snapshot).present_ids(one.entity.id, one.rows.ids)
    added = one.count - int(pc.sum(present).as_py() or 0)
    rows = target.table.row_count + added
    if added == one.count:
        return stage_fragments(target.dataset, write_rows(target.dataset, one.rows.columns)), rows
    return stage_upsert(target.dataset, one.rows.columns), rows
