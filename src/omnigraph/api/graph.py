"""`Graph`: one graph on one branch, as Python programs and the command line use it.

In: a URI and names as users type them. Out: values of `graph/`. Opening looks whether there is a graph that this
release can read; a read-only graph never writes. The write path is imported when it is first needed, because a
command that only reads starts twice as fast without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from omnigraph.api.arguments import checked, checked_methods, require_positive
from omnigraph.base.actors import login_name
from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import CommitRecord, RecoveryRecord
from omnigraph.graph.manifest.refs import SnapshotSelector, read_state
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_named_commit, read_snapshot
from omnigraph.storage.location import Location, parse_location

if TYPE_CHECKING:
    from typing import Self

    from omnigraph.api.export import ExportOutcome
    from omnigraph.api.history import ChangeFeed, EntityChange
    from omnigraph.api.load import LoadOutcome
    from omnigraph.api.mutate import MutationResult
    from omnigraph.api.query import PreparedQuery
    from omnigraph.api.results import Result
    from omnigraph.base.progress import Report
    from omnigraph.embedding.provider import EmbeddingProvider
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.branches import BranchStatus
    from omnigraph.graph.coordination.intent import PendingIntent
    from omnigraph.graph.merge.run import MergeOutcome
    from omnigraph.graph.schema_plan import SchemaPlan
    from omnigraph.maintenance.cleanup.options import TableCleanupStats
    from omnigraph.maintenance.doctor.findings import Finding
    from omnigraph.maintenance.index_status import IndexCoverage
    from omnigraph.maintenance.optimize.options import IndexOutcome, TableOptimizeStats
    from omnigraph.maintenance.repair import TableRepairStats
    from omnigraph.maintenance.schema_apply import SchemaApplied


@checked_methods
class SchemaMethods:
    """The methods of a graph that are about its schema."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def location(self) -> Location: ...

        @property
        def branch_name(self) -> str: ...

        def snapshot(self) -> Snapshot: ...

        def refuse_if_read_only(self) -> None: ...

        def _writer(self, named: str | None) -> str: ...

    def plan_schema(
        self, schema: str, *, allow_data_loss: bool = False, source_name: str = "<schema>"
    ) -> SchemaPlan:
        """What it takes to bring the branch to this `.pg` schema: steps with their costs, and what is refused.

        `allow_data_loss`: what is dropped goes for good. `source_name` is what errors in the text call it.
        """
        from omnigraph.graph.schema_plan import plan_schema

        return plan_schema(self.snapshot(), schema, source_name=source_name, hard=allow_data_loss)

    def apply_schema(  # noqa: PLR0913  # a program names what it wants
        self,
        schema: str,
        *,
        actor: str | None = None,
        allow_data_loss: bool = False,
        source_name: str = "<schema>",
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> SchemaApplied:
        """Bring the branch to this `.pg` schema as one commit, or raise with nothing written.

        New rules are checked against the rows first. What is dropped can be read at earlier commits until cleanup; with
        `allow_data_loss` its values are in no file of the new commit, and the next cleanup removes the earlier ones.
        Large tables are worked on by Spark.
        """
        self.refuse_if_read_only()
        from omnigraph.graph.recovery.run import recover_on_open
        from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
        from omnigraph.pipeline.spark.runner import on_master

        request = SchemaRequest(schema, self._writer(actor), source_name, allow_data_loss)
        recover_on_open(self.location, self.branch_name)
        return apply_schema(self.location, self.branch_name, request, on_master(spark_master, report))


@checked_methods
class Maintained:
    """What keeps the tables of a graph healthy."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def location(self) -> Location: ...

        @property
        def branch_name(self) -> str: ...

        @property
        def read_only(self) -> bool: ...

        @property
        def actor(self) -> str | None: ...

    def optimize(  # noqa: PLR0913  # a program names what it wants
        self,
        *,
        tables: tuple[str, ...] = (),
        dry_run: bool = False,
        partial_progress: bool = False,
        max_rows_per_task: int | None = None,
        max_tasks: int | None = None,
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> list[TableOptimizeStats]:
        """Compact the tables of the branch, fold and build their indexes, as at most one commit that changes no row.

        `tables` are types by name or alias, all unless given. `dry_run` only plans. `partial_progress` commits groups
        of tasks as they finish. The bounds are for one task and for the run. One row per table, then `__manifest`.
        Writes that stopped, on any branch, are recovered first.
        """
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.graph.recovery.run import recover_every_branch
        from omnigraph.maintenance.optimize.options import OptimizeOptions
        from omnigraph.maintenance.optimize.run import optimize_all_tables
        from omnigraph.pipeline.spark.runner import on_master

        options = OptimizeOptions(
            tables=frozenset(tables) or None,
            dry_run=dry_run,
            partial_progress=partial_progress,
            rows_per_task=max_rows_per_task,
            tasks_max=max_tasks,
        )
        options.validate()
        if not dry_run:
            recover_every_branch(self.location)
        return optimize_all_tables(self, options, on_master(spark_master, report))

    def ensure_indices(
        self, *, tables: tuple[str, ...] = (), spark_master: str | None = None, report: Report | None = None
    ) -> IndexOutcome:
        """Build the declared indexes that tables lack, as at most one commit; one row per declared index."""
        self.refuse_if_read_only()
        from omnigraph.maintenance.optimize.run import IndexOptions, ensure_indices
        from omnigraph.pipeline.spark.runner import on_master

        options, workers = IndexOptions(frozenset(tables) or None), on_master(spark_master, report)
        return ensure_indices(self.location, self.branch_name, workers, options)

    def doctor(self, *, deep: bool = False) -> list[Finding]:
        """Everything about the graph and this machine in one go, each finding with the command that helps.

        `deep` also opens each data file and index, and looks for edges without nodes in large tables.
        """
        from omnigraph.maintenance.doctor.run import examine

        return examine(self, deep=deep)

    def index_status(self) -> list[IndexCoverage]:
        """How well the declared indexes cover the tables of the branch, and which columns have none."""
        from omnigraph.maintenance.index_status import index_status

        return index_status(self, self.branch_name)

    def repair(
        self, *, confirm: bool = False, force: bool = False, discard: bool = False
    ) -> list[TableRepairStats]:
        """Look at what foreign tools did to the tables of every branch; with `confirm`, put it right.

        `force` publishes what is not known to be harmless, `discard` drops it. One row per table and branch. With
        `confirm`, writes that stopped, on any branch, are recovered first.
        """
        if confirm:
            self.refuse_if_read_only()
        from omnigraph.graph.recovery.run import recover_every_branch
        from omnigraph.maintenance.repair import RepairOptions, repair_all_tables

        options = RepairOptions(confirm, force, discard)
        options.validate()
        if confirm:
            recover_every_branch(self.location)
        return repair_all_tables(self, options)

    def refuse_if_read_only(self) -> None:
        """Raise when the graph was opened for reading only."""
        if self.read_only:
            raise UsageError(
                "the graph is open for reading only", code="graph_read_only", hint="open it without read_only"
            )

    def _writer(self, named: str | None) -> str:
        """Who writes: whom a call names, or whom the graph was opened by, or the login name."""
        return named or self.actor or login_name()


@checked_methods
class VersionedGraph(Maintained):
    """Branches and history of a graph, beside its maintenance."""

    __slots__ = ()

    def commits(self) -> Iterator[CommitRecord]:
        """The branch's history, newest first."""
        snapshot = read_snapshot(self.location, self.branch_name)
        return make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()

    def commit(self, commit_id: str) -> CommitRecord:
        """One commit of the branch's lineage, by its id, by enough of its beginning or end, or as `HEAD`."""
        return find_named_commit(read_snapshot(self.location, self.branch_name), commit_id)

    def branch(self, name: str, *, create_from: str | None = None, actor: str | None = None) -> Self:
        """The graph on another branch; `create_from`, a branch or a commit, makes it first."""
        if create_from is not None:
            self.refuse_if_read_only()
            from omnigraph.api.merge import create_branch_from

            create_branch_from(self.location, name, create_from, self._writer(actor))
        else:
            read_snapshot(self.location, name)
        graph: Any = self
        return replace(graph, branch_name=name)  # type: ignore[no-any-return]

    def branches(self) -> tuple[BranchStatus, ...]:
        """Every branch, main first, with its newest commit and how far it and main are apart."""
        from omnigraph.graph.branches import list_branches

        return list_branches(self.location)

    def delete_branch(self, name: str) -> None:
        """Delete a branch. Main stays, and so does a branch that a live branch was made from."""
        self.refuse_if_read_only()
        from omnigraph.api.merge import remove_branch

        remove_branch(self.location, name)

    def merge(  # noqa: PLR0913  # a program names what it wants
        self,
        source: str,
        *,
        into: str | None = None,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeOutcome:
        """Merge a branch, or a commit of one, into a branch as one commit, or raise with every conflict.

        `into` is the graph's branch unless given. `strategy` is ours (the target's) or theirs (the source's), for every
        conflict or by kind; `resolve` is a side for single entities, by table, such as node:Person, and id. `dry_run`
        writes nothing and returns the conflicts.
        """
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.api.merge import make_resolution, run_merge
        from omnigraph.graph.merge.run import MergeRequest

        resolution = make_resolution(strategy, resolve)
        target = into or self.branch_name
        request = MergeRequest(source, self._writer(actor), target, resolution, dry_run)
        return run_merge(self.location, request)

    def revert(
        self,
        commit: str,
        *,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeOutcome:
        """Undo what a commit of the branch changed, as a new commit; conflicts are those of a merge."""
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.api.merge import make_resolution, run_revert
        from omnigraph.graph.merge.run import RevertRequest

        resolution = make_resolution(strategy, resolve)
        who = self._writer(actor)
        request = RevertRequest(self.commit(commit).id, who, self.branch_name, resolution, dry_run)
        return run_revert(self.location, request)

    def commit_changes(self, commit: str) -> Iterator[EntityChange]:
        """What a commit of the branch changed against its first parent, with images before and after."""
        from omnigraph.api.history import entity_changes
        from omnigraph.graph.feed import commit_changes

        newest = read_snapshot(self.location, self.branch_name)
        return entity_changes(commit_changes(newest, find_named_commit(newest, commit)))

    def diff(self, left: str, right: str) -> Iterator[EntityChange]:
        """What differs between two branches or commits: the change that leads from the first to the second."""
        from omnigraph.api.history import read_diff

        return read_diff(self.location, left, right)

    def changes(self, cursor: str | None = None, *, limit: int = 100) -> ChangeFeed:
        """The next commits of the branch after a cursor, with their changes, oldest first; the caller keeps the cursor.

        A cursor is a commit id. Without one it is all commits. `limit` is how many commits at most, 1 or more.
        """
        require_positive("limit", limit)
        from omnigraph.api.history import feed_changes

        return feed_changes(self.location, self.branch_name, cursor, limit)


@checked_methods
@dataclass(frozen=True, slots=True)
class Graph(VersionedGraph, SchemaMethods):
    """An open graph on one branch, where reads and writes go unless a call names another."""

    location: Location
    branch_name: str = MAIN
    """The branch that it reads and writes, `main` unless another was opened."""
    read_only: bool = False
    """Whether every call that would write is refused."""
    actor: str | None = None
    """Who writes unless a call names another; None: the login name."""

    @property
    def uri(self) -> str:
        """Where the graph is: an absolute path, or `s3://bucket/prefix`."""
        return self.location.uri

    def snapshot(
        self, *, commit: str | None = None, version: int | None = None, at: datetime | None = None
    ) -> Snapshot:
        """The newest published state, or the one of a commit, of a manifest version or of a moment."""
        return read_state(self.location, self.branch_name, make_when(commit, version, at))

    def query(  # noqa: PLR0913  # a program names what it wants
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | None = None,
        engine: str = "process",
        spark_master: str | None = None,
        embed: EmbeddingProvider | None = None,
        limits: QueryLimits | None = None,
    ) -> Result:
        """Run a read query. `name` chooses one of several in the text. `params` are plain values, or what `rows` gives.

        `commit`, `version` or `at` name an earlier state, by its commit, its manifest version or a moment.
        `engine` is process, or spark for graphs that outgrow one machine, which does not search. `embed` makes vectors
        from the texts that the query gives to `nearest`. `limits` says how much memory and time it may take.
        """
        from omnigraph.api.query import QueryOptions, run_prepared
        from omnigraph.engine.options import NO_LIMITS

        options = QueryOptions(engine, spark_master, embed, limits or NO_LIMITS)
        snapshot = self.pin(commit=commit, version=version, at=at)
        return run_prepared(self.prepare(source, name, limits=limits), snapshot, params, options)

    def prepare(
        self, source: str, name: str | None = None, *, limits: QueryLimits | None = None
    ) -> PreparedQuery:
        """A query that is parsed and planned once and run often, over snapshots that `pin` gives.

        Of `limits` only the ceiling of open traversals counts here; the others are for each run.
        """
        from omnigraph.api.query import prepared
        from omnigraph.engine.options import NO_LIMITS

        return prepared(source, name, limits or NO_LIMITS)

    def pin(
        self, *, commit: str | None = None, version: int | None = None, at: datetime | None = None
    ) -> Snapshot:
        """The state to read: the newest, the one of a commit or version, or the newest that was there at a moment."""
        if commit is None and version is None and at is None:
            from omnigraph.api.query import newest_snapshot

            return newest_snapshot(self.location, self.branch_name)
        return self.snapshot(commit=commit, version=version, at=at)

    def load(  # noqa: PLR0913  # a program names what it wants
        self,
        data: object,
        *,
        type: str | None = None,  # noqa: A002  # what users call it
        mode: str = "append",
        branch: str | None = None,
        from_: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        errors: str | PathLike[str] | None = None,
        with_indexes: bool = False,
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> LoadOutcome:
        """Load files or frames as one commit, on Spark, or raise with nothing written.

        `data` is the name of a file, directory or glob or a list of them, a frame (pyarrow, pandas, Polars, Spark), or
        a dict of such by type. `type` is that of a frame, or of Parquet and CSV files. `mode` is append, merge or
        overwrite. `branch` is the graph's unless given; if it does not exist, it is created from `from_` with the load.
        `dry_run` checks and writes nothing. `errors` names a file for every mistake, as lines of JSON. `with_indexes`
        builds the declared indexes of what was loaded right after the commit. `report` is told how far the work is.
        """
        self.refuse_if_read_only()
        from omnigraph.api.load import LoadOptions, plan_load, run_load
        from omnigraph.base.progress import ignore_progress
        from omnigraph.pipeline.spark.session import SparkSettings

        options = LoadOptions(
            mode=mode,
            actor=self._writer(actor),
            type=type,
            base=from_,
            dry_run=dry_run,
            errors=None if errors is None else fspath(errors),
            with_indexes=with_indexes,
            spark=SparkSettings(master=spark_master),
            report=report or ignore_progress,
        )
        return run_load(plan_load(self.location, branch or self.branch_name, data, options), options)

    def export(  # noqa: PLR0913  # a program names what it wants
        self,
        out: str | PathLike[str] | None = None,
        *,
        format: str = "ndjson",  # noqa: A002  # what users call it
        types: tuple[str, ...] = (),
        commit: str | None = None,
        version: int | None = None,
        at: datetime | None = None,
        force: bool = False,
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> ExportOutcome:
        """Write the graph on Spark: to a file, to a folder when `out` is one or ends in `/`, or to stdout without one.

        `format` is ndjson, which load reads, or parquet. `types` are all unless given. `commit`, `version` or `at`
        name an earlier state. `force` replaces what an earlier export left. `report` is told how far the work is.
        """
        from omnigraph.api.export import ExportOptions, export_graph
        from omnigraph.base.progress import ignore_progress
        from omnigraph.pipeline.spark.session import SparkSettings

        options = ExportOptions(
            out=None if out is None else fspath(out),
            format=format,
            types=types,
            when=make_when(commit, version, at),
            force=force,
            spark=SparkSettings(master=spark_master),
            report=report or ignore_progress,
        )
        return export_graph(self.location, self.branch_name, options)

    def mutate(  # noqa: PLR0913  # a program names what it wants
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        if_commit: str | None = None,
        actor: str | None = None,
        limits: QueryLimits | None = None,
    ) -> MutationResult:
        """Run a query that inserts, updates or deletes, as one commit; `if_commit` insists on a head.

        `limits` says how much memory and time it may take before it commits.
        """
        self.refuse_if_read_only()
        from omnigraph.api.mutate import MutationOptions, run_mutation_text
        from omnigraph.api.query import QuerySource
        from omnigraph.engine.options import NO_LIMITS

        options = MutationOptions(
            self._writer(actor), self.branch_name, if_commit, limits=limits or NO_LIMITS
        )
        return run_mutation_text(self.location, QuerySource(source, name=name), params, options)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        orphans_older_than: timedelta | None = None,
        confirm: bool = False,
        spark_master: str | None = None,
    ) -> list[TableCleanupStats]:
        """Delete old versions and what nothing refers to, on every branch; without `confirm` only tell what would go.

        `keep` newest published versions of each table stay, and those not older than `older_than`; one of the two is
        needed. With `confirm`, writes that stopped, on any branch, are recovered first.
        """
        if confirm:
            self.refuse_if_read_only()
        from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
        from omnigraph.maintenance.cleanup.run import run_cleanup
        from omnigraph.pipeline.spark.session import SparkSettings

        options = CleanupPolicyOptions(keep, older_than, confirm=confirm)
        if orphans_older_than is not None:
            options = replace(options, orphans_older_than=orphans_older_than)
        return run_cleanup(self, options, SparkSettings(master=spark_master))

    def recoveries(self) -> tuple[RecoveryRecord, ...]:
        """The finished recoveries of the branch, newest first."""
        found = self.snapshot().manifest.read_recoveries()
        return tuple(sorted(found, key=lambda record: record.recovered_us, reverse=True))

    def pending_intents(self) -> tuple[PendingIntent, ...]:
        """Every write under way or waiting for recovery, on any branch, and every intent that cannot be read."""
        from omnigraph.graph.coordination.intent import list_pending

        return list_pending(self.location)


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How to open or create a graph."""

    storage_options: Mapping[str, str] | None = None
    """Settings of the object store, such as `aws_region`; None: the environment alone."""
    actor: str | None = None
    """Who writes unless a call names another; None: the login name."""
    durability: str | None = None
    """`sync`: an acknowledged write to local files survives a power cut; `process`: only the crash of processes.

    None: as the variable `OMNIGRAPH_DURABILITY` says, `sync` by default.
    """

    def __post_init__(self) -> None:
        _check_options(self.storage_options, self.actor, self.durability)


@checked
def init(
    uri: str | PathLike[str],
    schema: str,
    *,
    force: bool = False,
    options: OpenOptions | None = None,
    schema_name: str = "<schema>",
) -> Graph:
    """Create a graph with the given `.pg` schema text. `force` allows a directory that holds other files.

    `schema_name` is what errors in the text call it.
    """
    how = options or OpenOptions()
    location = parse_location(fspath(uri), how.storage_options, how.durability)
    from omnigraph.graph.create import NewGraph, create_graph
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.parser import parse_schema

    catalog = build_catalog(parse_schema(schema, schema_name))
    create_graph(location, NewGraph(schema, catalog, how.actor or login_name(), allow_other_files=force))
    return Graph(location, actor=how.actor)


@checked
def open(  # noqa: A001  # users write omnigraph.open
    uri: str | PathLike[str],
    branch: str = MAIN,
    *,
    read_only: bool = False,
    options: OpenOptions | None = None,
) -> Graph:
    """Open a graph; raise if there is none or if this release cannot read it.

    A read-write open first finishes or undoes what crashed writers left. A read-only one never writes.
    """
    how = options or OpenOptions()
    location = parse_location(fspath(uri), how.storage_options, how.durability)
    if branch == MAIN:
        open_manifest(location)
    else:
        read_snapshot(location, branch)
    if not read_only:
        from omnigraph.graph.recovery.run import recover_on_open

        recover_on_open(location, branch)
    return Graph(location, branch, read_only, how.actor)


@checked
def _check_options(
    storage_options: Mapping[str, str] | None, actor: str | None, durability: str | None
) -> None:
    """Raise for a wrong kind of value."""


def make_when(commit: str | None, version: int | None, at: datetime | None) -> SnapshotSelector:
    """Which state is asked for, in the words of callers."""
    return SnapshotSelector(commit, version, None if at is None else round(at.timestamp() * 1_000_000))
