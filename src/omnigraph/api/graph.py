"""`Graph`: one graph on one branch, as Python programs and the command line use it.

In: a URI and names as users type them. Out: values of `graph/`. Opening looks whether there is a graph that this
release can read; a read-only graph never writes. The write path is imported when it is first needed, because a
command that only reads starts twice as fast without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING

from omnigraph.api.arguments import checked, checked_methods
from omnigraph.api.evolving import SchemaMethods
from omnigraph.api.versioning import VersionedGraph
from omnigraph.base.process import login_name
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.moments import When, read_state
from omnigraph.graph.records import RecoveryRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.storage.location import Location, parse_location

if TYPE_CHECKING:
    from omnigraph.api.exporting import ExportOutcome
    from omnigraph.api.loading import LoadOutcome
    from omnigraph.api.mutating import MutationResult
    from omnigraph.api.querying import PreparedQuery
    from omnigraph.api.results import Result
    from omnigraph.base.progress import Report
    from omnigraph.engine.embedding import EmbeddingProvider
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.pending import PendingIntent
    from omnigraph.maintenance.cleanup_options import TableCleanupStats


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
        from omnigraph.api.querying import QueryOptions, run_prepared
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
        from omnigraph.api.querying import prepared
        from omnigraph.engine.options import NO_LIMITS

        return prepared(source, name, limits or NO_LIMITS)

    def pin(
        self, *, commit: str | None = None, version: int | None = None, at: datetime | None = None
    ) -> Snapshot:
        """The state to read: the newest, the one of a commit or version, or the newest that was there at a moment."""
        if commit is None and version is None and at is None:
            from omnigraph.api.querying import newest_snapshot

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
        from omnigraph.api.loading import LoadOptions, plan_load, run_load
        from omnigraph.base.progress import report_nothing
        from omnigraph.pipeline.session import SparkSettings

        options = LoadOptions(
            mode=mode,
            actor=self._writer(actor),
            type=type,
            base=from_,
            dry_run=dry_run,
            errors=None if errors is None else fspath(errors),
            with_indexes=with_indexes,
            spark=SparkSettings(master=spark_master),
            report=report or report_nothing,
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
        from omnigraph.api.exporting import ExportOptions, export_graph
        from omnigraph.base.progress import report_nothing
        from omnigraph.pipeline.session import SparkSettings

        options = ExportOptions(
            out=None if out is None else fspath(out),
            format=format,
            types=types,
            when=make_when(commit, version, at),
            force=force,
            spark=SparkSettings(master=spark_master),
            report=report or report_nothing,
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
        from omnigraph.api.checking import QuerySource
        from omnigraph.api.mutating import MutationOptions, run_mutation_text
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
        from omnigraph.api.cleaning import run_cleanup
        from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions
        from omnigraph.pipeline.session import SparkSettings

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
        from omnigraph.graph.pending import list_pending

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
    from omnigraph.schema import build_catalog, parse_schema

    catalog = build_catalog(parse_schema(schema, schema_name))
    create_graph(location, NewGraph(schema, catalog, how.actor or login_name(), beside_other_files=force))
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
        from omnigraph.graph.recovery.on_open import recover_on_open

        recover_on_open(location, branch)
    return Graph(location, branch, read_only, how.actor)


@checked
def _check_options(
    storage_options: Mapping[str, str] | None, actor: str | None, durability: str | None
) -> None:
    """Raise for a wrong kind of value."""


def make_when(commit: str | None, version: int | None, at: datetime | None) -> When:
    """Which state is asked for, in the words of callers."""
    return When(commit, version, None if at is None else round(at.timestamp() * 1_000_000))
