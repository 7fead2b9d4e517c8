"""Load: the driver that makes one commit from files and data frames of any size.

In: a source, a mode, a branch. Out: a `Loaded` with exact counts and the commit. Workers read, check and write
fragments (`tasks`). Rules over several rows are checked on the driver for a small input (`change`), and in hash buckets
by workers for a large one (`buckets`), with the same result. The driver commits once, through the write path. A
rejected load publishes nothing, reports every error and deletes the staged files; a crash leaves files that `cleanup`
deletes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.decoding import decode_json
from omnigraph.base.display import format_count
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.hints import Argument, Hint, Placeholder, hint
from omnigraph.graph.branches import create_branch_with_write
from omnigraph.graph.manifest.records import CommitRecord, StreamBatch, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, pinned_version, read_snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.graph.write.check import find_read_set_conflict
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea, WritableTable, discard_fork
from omnigraph.graph.write.states import StagedWrite
from omnigraph.integrity.report import (
    ValidationError,
    Violation,
    ViolationReport,
    count_others,
    expand_violations,
    merge_reports,
)
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.buckets import (
    BucketCheck,
    BucketResult,
    bucket_count,
    check_in_buckets,
    delete_replaced_rows,
)
from omnigraph.pipeline.load.change import LoadedInput, LoadedType, LoadMode, check_loaded, gather_parts
from omnigraph.pipeline.load.keys import Buckets
from omnigraph.pipeline.load.rejects import ErrorStream, ErrorWriter, merge_errors
from omnigraph.pipeline.load.source import LoadSource
from omnigraph.pipeline.load.tasks import LoadShape
from omnigraph.pipeline.load.upsert import UpsertPart, count_present, replace_rows
from omnigraph.pipeline.load.written import WRITTEN, WrittenNote
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.task_errors import decode_failure
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
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
"""A function that takes all violations of an input, in line order. It is called again after a restage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to load, and where to. A batch of a `stream` that was already committed is not committed again.

    `base`: the branch does not exist, and the load creates it from this branch in the same publish. `named_types`: the
    types that the caller named; an `overwrite` empties those without a row in the input.
    """

    source: LoadSource
    mode: LoadMode
    actor: str
    branch: str = MAIN
    dry_run: bool = False
    errors: ErrorSink | None = None
    stream: StreamBatch | None = None
    base: str | None = None
    named_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCounts:
    """What a load did with the rows of one type."""

    inserted: int = 0
    """New rows. Every row of an `append` or `overwrite` is one."""
    replaced: int = 0
    """Rows that replaced a row with the same id and other values."""
    unchanged: int = 0
    """Rows that were equal to the row with the same id. Rows of types with blobs count as replaced."""
    deleted: int = 0
    """Rows of the graph that an `overwrite` deleted."""
    inserted_without_key: int = 0
    """Inserted rows of a merge into a type without a key that already had rows, so they may be duplicates."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load: rows by alias, and the commit; None for a dry run and for an input without rows.

    `changes` has what happened to the rows, by alias, or would happen without the dry run.
    """

    counts: Mapping[str, int]
    commit: CommitRecord | None
    branch_created: bool = False
    changes: Mapping[str, LoadCounts] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class LoadRejectedError(ValidationError):
    """The input violates rules of the schema; nothing was written. `conflict`: all its errors are existing ids.

    `keyless`: the types of the input without a key. `repeated`: those of which a merge adds edges that the graph may
    have already. `has_types`: the caller or a line named a type.
    """

    def __init__(
        self,
        report: ViolationReport,
        keyless: Sequence[str] = (),
        repeated: Sequence[str] = (),
        *,
        is_listed: bool = False,
        has_types: bool = True,
    ) -> None:
        first = report.first[0]
        # A name in angle brackets, such as `<rows>`, is of input that is not a file.
        lacks_type = not has_types and first.file.startswith("<") and report.has_only(Rule.LINE_SYNTAX, Rule.LINE_SHAPE)
        more = hint("Pass {} to list every error.", Argument("rejects", Placeholder("FILE")))
        advice = _rejection_hint(report, keyless, repeated, lacks_type=lacks_type)
        super().__init__(
            f"{first.describe()}{count_others(report)}",
            report,
            head=f"the input has {format_count(report.total, 'error')}",
            code="load_rejected",
            hint=advice if is_listed or report.lists_all else advice + more,
        )


def _rejection_hint(
    report: ViolationReport, keyless: Sequence[str], repeated: Sequence[str], *, lacks_type: bool
) -> Hint:
    """Return what to do. `keyless`: the types of the input without a key, whose rows a merge does not recognize.

    `lacks_type`: the input is not a file, and neither the caller nor a line or dict names a type: the rows may be CSV,
    or dicts of properties.
    """
    if lacks_type:
        text = "Nothing was written. Fix these lines, or pass {} if all rows are of one type."
        return hint(text, Argument("type", Placeholder("TYPE")))
    if report.has_only(Rule.DANGLING_END) and all(group.first[0].line is None for group in report.groups):
        return hint("Nothing was written. Add the edge types to this overwrite, or delete these edges first.")
    if report.has_only(Rule.CARDINALITY_MAX) and repeated:
        text = (
            "Nothing was written. {} has no key, so a merge adds its edges again: declare `@key(@src, @dst)` or give "
            "ids if the graph has these edges already, or fix these lines."
        )
        return hint(text, _listed(repeated))
    if not report.has_only(Rule.KEY_CONFLICT):
        return hint("Nothing was written. Fix these lines and load again.")
    advice = hint("Nothing was written. Pass {} to replace existing rows.", Argument("mode", "merge"))
    return advice + hint("Rows of {} without an id are added again.", _listed(keyless)) if keyless else advice


def _listed(names: Sequence[str]) -> str:
    return ", ".join((*names[:_KEYLESS_SHOWN], *(("…",) if len(names) > _KEYLESS_SHOWN else ())))


def load(root: Location, request: LoadRequest, run_tasks: RunTasks) -> Loaded:
    """Load the input as one commit, or raise with nothing written."""
    with open_scratch(root) as scratch:
        loading = _Load(request, run_tasks, scratch)
        if request.dry_run:
            with nothing_written_if_interrupted():
                loading.check_only(read_snapshot(root, request.branch))
            return Loaded(loading.counts(), None, changes=dict(loading.changes))
        # An overwrite fails if the branch changed, because it would delete rows that the caller did not see.
        restage = loading.reject_stale if request.mode is LoadMode.OVERWRITE else loading.restage
        write_request = WriteRequest(
            kind=WriteOperation.LOAD, actor=request.actor, stage=loading.stage, restage=restage, stream=request.stream
        )
        if request.base is None:
            commit = write(root, request.branch, write_request)
        else:
            commit = create_branch_with_write(root, request.branch, request.base, write_request)
    return Loaded(loading.counts(), commit, changes={} if commit is None else dict(loading.changes))


@contextmanager
def nothing_written_if_interrupted() -> Iterator[None]:
    """Add the note "nothing was written" to Ctrl-C in a block that ends before the first commit of a table."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("nothing was written")
        raise


class _Load:
    """One load. It keeps what was read and written, so that a changed branch needs only another check."""

    def __init__(self, request: LoadRequest, run_tasks: RunTasks, scratch: Scratch) -> None:
        self._request = request
        self._replaces_rows = request.mode.replaces_rows
        self._run_tasks = run_tasks
        self._scratch = scratch
        self._buckets = _choose_buckets(request, scratch)
        self._loaded: LoadedInput | None = None
        self._targets: dict[str, WritableTable] = {}
        self._checked: BucketResult | None = None
        self.changes: dict[str, LoadCounts] = {}

    def counts(self) -> dict[str, int]:
        types = () if self._loaded is None else self._loaded.types
        return {loaded_type.entity.alias: loaded_type.count for loaded_type in types}

    def check_only(self, snapshot: Snapshot) -> None:
        loaded = self._read(snapshot)
        upserts = {
            loaded_type.entity.alias: pinned_version(snapshot.root, snapshot.tables[loaded_type.entity.alias])
            for loaded_type in loaded.types
        }
        self._check(snapshot, loaded, upserts if self._replaces_rows else {})
        for loaded_type in loaded.types:
            alias = loaded_type.entity.alias
            table = snapshot.tables[alias]
            if loaded_type.count or table.row_count:
                self.changes[alias] = self._expected_counts(table, upserts[alias], loaded_type)

    def stage(self, area: StagingArea) -> StagedWrite | None:
        try:
            with nothing_written_if_interrupted():
                return self._stage(area)
        except BaseException:  # also Ctrl-C: nothing references what was staged
            self._discard()
            raise

    def _stage(self, area: StagingArea) -> StagedWrite | None:
        if not self._replaces_rows:
            # Workers write to the tables while they read, before it is known which types the input has.
            self._targets = {alias: area.open_for_write(alias) for alias in area.snapshot.tables}
        loaded = self._read(area.snapshot)
        loaded_aliases = {loaded_type.entity.alias for loaded_type in loaded.types}
        for alias in self._targets.keys() - loaded_aliases:
            discard_fork(self._targets.pop(alias))
        if self._replaces_rows:
            self._targets = {alias: area.open_for_write(alias) for alias in sorted(loaded_aliases)}
        return self._finish(area, loaded)

    def restage(self, area: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        """Check the staged rows again for a changed branch; read again only if the schema or a Lance branch changed."""
        assert self._loaded is not None, "the input was read"
        is_unchanged = staged.snapshot.schema.hash == area.snapshot.schema.hash and all(
            _is_written_for(area, area.table(alias), target)
            and (self._request.mode is not LoadMode.PATCH or area.table(alias).pin == staged.snapshot.tables[alias].pin)
            for alias, target in self._targets.items()
        )
        if not is_unchanged:
            self._discard(is_last=False)
            return self.stage(area)
        try:
            self._discard_upserts()
            self._targets = {alias: area.open_for_write(alias) for alias in self._targets}
            return self._finish(area, self._loaded)
        except BaseException:
            self._discard()
            raise

    def reject_stale(self, area: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        """Delete the staged files of an overwrite, and raise with what changed."""
        conflict = find_read_set_conflict(staged, area.snapshot)
        assert conflict is not None, "the branch changed"
        self._discard()
        raise conflict

    def _read(self, snapshot: Snapshot) -> LoadedInput:
        scratch = None if self._scratch.location.scheme is Scheme.MEMORY else self._create_scratch()
        shape = LoadShape(
            catalog_json=snapshot.schema.catalog_json,
            targets={} if self._replaces_rows else self._versions(),
            returns_rows=self._replaces_rows,
            scratch=scratch,
            buckets=self._buckets,
            errors=None if self._request.errors is None else self._scratch,
            notes=None if self._replaces_rows else scratch,
            patched=_nonempty_tables(snapshot) if self._request.mode is LoadMode.PATCH else None,
        )
        parts = self._request.source.read(shape, self._run_tasks)
        catalog = snapshot.schema.catalog
        named_types = self._request.named_types if self._request.mode is LoadMode.OVERWRITE else ()
        aliases = {catalog.require_type(name).alias for name in named_types}
        self._loaded = gather_parts(catalog, parts, self._scratch, aliases)
        failure = next((part.failure for part in parts if part.failure is not None), None)
        if failure is not None:
            raise decode_failure(failure)
        return self._loaded

    def _create_scratch(self) -> Scratch:
        """Create the directory for workers: one that is late must not create it again after its deletion."""
        self._scratch = self._scratch.create()
        if self._buckets is not None:
            self._buckets = replace(self._buckets, scratch=self._scratch)
        return self._scratch

    def _versions(self) -> dict[str, DatasetVersion]:
        return {alias: DatasetVersion.of(target.dataset) for alias, target in self._targets.items()}

    def _finish(self, area: StagingArea, loaded: LoadedInput) -> StagedWrite | None:
        self._check(area.snapshot, loaded, self._versions() if self._replaces_rows else {})
        effects = []
        for loaded_type in loaded.types:
            target = self._targets[loaded_type.entity.alias]
            if not loaded_type.count and not target.table.row_count:
                discard_fork(self._targets.pop(loaded_type.entity.alias))
                continue
            transaction, changes = self._transaction(target, loaded_type)
            self.changes[loaded_type.entity.alias] = changes
            rows = target.table.row_count + changes.inserted - changes.deleted
            effects.append(area.transaction_effect(target, transaction, rows))
        if not effects:
            return None
        reads = frozenset(table.id for table in area.snapshot.tables.values())
        return area.finish(tuple(effects), reads, {**self.counts(), **_sum_changes(self.changes.values())})

    def _check(self, snapshot: Snapshot, loaded: LoadedInput, upserts: Mapping[str, DatasetVersion]) -> None:
        """Check the rules over several rows; raise if the input has any violation. `upserts`: the tables of a merge."""
        if self._buckets is None:
            report, errors = self._check_on_driver(snapshot, loaded)
        else:
            all_errors = None if self._request.errors is None else self._scratch
            check = BucketCheck(
                snapshot=snapshot,
                loaded=loaded,
                mode=self._request.mode,
                buckets=self._buckets,
                upserts=upserts,
                dry_run=self._request.dry_run,
                errors=all_errors,
            )
            self._checked = check_in_buckets(check, self._run_tasks)
            report, errors = self._checked.report, self._checked.errors
        if self._request.errors is not None:
            self._request.errors(merge_errors(self._scratch, errors))
        if report.total:
            keyless = [loaded_type.entity for loaded_type in loaded.types if not loaded_type.entity.key]
            repeated = [
                entity.name
                for entity in keyless
                if self._request.mode in (LoadMode.MERGE, LoadMode.PATCH)
                and isinstance(entity, EdgeType)
                and entity.cardinality.high is not None
                and snapshot.tables[entity.alias].row_count
            ]
            is_listed = self._request.errors is not None
            has_types = bool(self._request.named_types or loaded.types)
            names = [entity.name for entity in keyless]
            raise LoadRejectedError(report, names, repeated, is_listed=is_listed, has_types=has_types)

    def _check_on_driver(
        self, snapshot: Snapshot, loaded: LoadedInput
    ) -> tuple[ViolationReport, tuple[ErrorStream, ...]]:
        lookup = SnapshotLookup(snapshot)
        results = check_loaded(snapshot.schema.catalog, loaded, self._request.mode, lookup)
        reports = [ViolationReport.of_batch(violations, origins) for violations, origins in results if violations]
        streams = loaded.errors
        if self._request.errors is not None:
            writer = ErrorWriter(self._scratch)
            writer.add(
                violation for violations, origins in results for violation in expand_violations(violations, origins)
            )
            streams = (*streams, ErrorStream(writer.finish()))
        return merge_reports([loaded.report, *reports]), streams

    def _transaction(self, target: WritableTable, loaded_type: LoadedType) -> tuple[StagedTransaction, LoadCounts]:
        match self._request.mode:
            case LoadMode.APPEND:
                return stage_fragments(target.dataset, loaded_type.fragments), _append_counts(loaded_type)
            case LoadMode.OVERWRITE:
                counts = _overwrite_counts(target.table, loaded_type)
                return stage_overwrite_with(target.dataset, loaded_type.fragments), counts
            case LoadMode.MERGE | LoadMode.PATCH if self._checked is not None and self._buckets is not None:
                alias = loaded_type.entity.alias
                part = self._checked.upserts.get(alias, UpsertPart())
                counts = _merge_counts(target.table, loaded_type, part)
                if not part.replaced:
                    return stage_fragments(target.dataset, part.fragments), counts
                version = DatasetVersion.of(target.dataset)
                deletions = delete_replaced_rows(version, alias, self._checked.keys, self._buckets, self._run_tasks)
                return stage_replacement(target.dataset, deletions, part.fragments), counts
            case LoadMode.MERGE | LoadMode.PATCH:
                return _upsert(target, loaded_type)

    def _expected_counts(self, table: TableRecord, version: DatasetVersion, loaded_type: LoadedType) -> LoadCounts:
        """Return what the load would do with the rows of a type that were checked."""
        match self._request.mode:
            case LoadMode.APPEND:
                return _append_counts(loaded_type)
            case LoadMode.OVERWRITE:
                return _overwrite_counts(table, loaded_type)
            case LoadMode.MERGE | LoadMode.PATCH if self._checked is not None:
                part = self._checked.upserts.get(loaded_type.entity.alias, UpsertPart())
                return _merge_counts(table, loaded_type, part)
            case LoadMode.MERGE | LoadMode.PATCH:
                return _merge_counts(table, loaded_type, _count_present(table, version.open(), loaded_type))

    def _discard(self, *, is_last: bool = True) -> None:
        """Delete what workers wrote: nothing else references it. `is_last`: the load ends, and late tasks fail."""
        for loaded_type in self._loaded.types if self._loaded is not None else ():
            self._delete(loaded_type.entity.alias, file_names(loaded_type.fragments))
        self._delete_noted_files(is_last=is_last)
        self._discard_upserts()
        for target in self._targets.values():
            discard_fork(target)
        self._loaded, self._targets = None, {}

    def _discard_upserts(self) -> None:
        if self._checked is not None:
            for alias, part in self._checked.upserts.items():
                self._delete(alias, file_names(part.fragments))
        self._checked = None

    def _delete_noted_files(self, *, is_last: bool) -> None:
        """Delete the files of tasks that returned no part, because the load was interrupted or another task failed."""
        try:
            scratch = self._scratch.close() if is_last else self._scratch
            stored = list(scratch.read_all(WRITTEN))
        except OmnigraphError as error:
            logger.warning("staged files are left for cleanup: %s", error.message)
            return
        for data in stored:
            try:
                note = decode_json(data, WrittenNote)
            except msgspec.DecodeError as error:
                logger.warning(
                    "staged files are left for cleanup: the list of files that a task wrote is not valid: %s", error
                )
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


def _choose_buckets(request: LoadRequest, scratch: Scratch) -> Buckets | None:
    """Return None if the driver can hold the keys, or the rows of a merge, or if the graph is in its memory."""
    driver_bytes_max = (
        limits.LOAD_MERGE_DRIVER_BYTES_MAX if request.mode.replaces_rows else limits.LOAD_DRIVER_BYTES_MAX
    )
    size = request.source.text_bytes
    if scratch.location.scheme is Scheme.MEMORY or (size is not None and size <= driver_bytes_max):
        return None
    return Buckets(scratch, bucket_count(size))


def _nonempty_tables(snapshot: Snapshot) -> dict[str, DatasetVersion]:
    return {alias: pinned_version(snapshot.root, table) for alias, table in snapshot.tables.items() if table.row_count}


def _is_written_for(area: StagingArea, table: TableRecord, target: WritableTable) -> bool:
    """Return whether the branch owns the table at the location for which fragments were written."""
    current = (area.snapshot.root.child(table.path), table.pin.branch)
    return table.owner == area.snapshot.branch.id and current == (target.dataset.location, target.dataset.branch)


def _upsert(target: WritableTable, loaded_type: LoadedType) -> tuple[StagedTransaction, LoadCounts]:
    """Stage a merge of rows that are on the driver."""
    assert loaded_type.rows is not None, "without buckets, the driver has the rows"
    entity, rows = loaded_type.entity, loaded_type.rows.columns
    if loaded_type.count > limits.LOAD_UPSERT_ROWS_MAX:
        staged, part = replace_rows(target.dataset, entity, rows)
        return staged, _merge_counts(target.table, loaded_type, part)
    part = _count_present(target.table, target.dataset, loaded_type)
    counts = _merge_counts(target.table, loaded_type, part)
    if not part.replaced:
        return stage_fragments(target.dataset, write_rows(target.dataset, rows)), counts
    return stage_upsert(target.dataset, rows), counts


def _sum_changes(changes: Collection[LoadCounts]) -> dict[str, int]:
    """Return what a load did with the rows of all types, under the names that the commit of a merge has."""
    return {
        "inserted": sum(counts.inserted for counts in changes),
        "updated": sum(counts.replaced for counts in changes),
        "deleted": sum(counts.deleted for counts in changes),
    }


def _count_present(table: TableRecord, dataset: Dataset, loaded_type: LoadedType) -> UpsertPart:
    """Count the rows on the driver that replace, or are equal to, rows of the table."""
    assert loaded_type.rows is not None, "without buckets, the driver has the rows"
    return count_present(dataset, loaded_type.entity, loaded_type.rows.columns) if table.row_count else UpsertPart()


def _append_counts(loaded_type: LoadedType) -> LoadCounts:
    return LoadCounts(inserted=loaded_type.count)


def _overwrite_counts(table: TableRecord, loaded_type: LoadedType) -> LoadCounts:
    return LoadCounts(inserted=loaded_type.count, deleted=table.row_count)


def _merge_counts(table: TableRecord, loaded_type: LoadedType, part: UpsertPart) -> LoadCounts:
    inserted = loaded_type.count - part.replaced
    may_repeat = table.row_count and not loaded_type.entity.key
    return LoadCounts(
        inserted=inserted,
        replaced=part.replaced - part.unchanged,
        unchanged=part.unchanged,
        inserted_without_key=inserted if may_repeat else 0,
    )
