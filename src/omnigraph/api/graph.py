"""`Graph`: one graph on one branch, as Python programs and the command line use it.

In: a URI and plain arguments. Out: frozen values. A read-only graph never writes. Every method that writes first
recovers the interrupted writes that concern it. The write path, the engine and Spark are imported by the methods that
need them, so that a command that only reads starts twice as fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraph.api.arguments import (
    check_storage_options,
    choose_actor,
    query_source,
    read_as_of,
    read_duration,
    read_names,
    require_choice,
    require_positive,
    select_state,
)
from omnigraph.api.texts import build_schema, read_schema
from omnigraph.base.authorization import AccessAction, AllowAll, Authority, GraphGate
from omnigraph.base.display import Displayed
from omnigraph.base.errors import ConflictError, UsageError
from omnigraph.base.progress import ignore_progress
from omnigraph.graph.manifest.lineage import make_lineage, require_full_id
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, RecoveryRecord
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_named_commit, open_table, read_snapshot
from omnigraph.storage.location import Location, parse_location

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    from lance import LanceDataset
    from pyspark.sql import SparkSession

    from omnigraph.api.prepared import PreparedQuery
    from omnigraph.api.results import CleanupResult, OptimizeResult, RepairResult, Result
    from omnigraph.base.progress import Report
    from omnigraph.embedding.provider import AnyProvider, EmbeddingProvider
    from omnigraph.engine.mutation.text import MutationResult
    from omnigraph.engine.options import QueryLimits
    from omnigraph.engine.prepare import ExplainResult
    from omnigraph.graph.branch_list import BranchStatus
    from omnigraph.graph.coordination.intent import PendingIntent
    from omnigraph.graph.diff import EntityChanges
    from omnigraph.graph.feed import ChangeFeed
    from omnigraph.graph.merge.run import MergeResult
    from omnigraph.graph.schema_plan import SchemaPlan
    from omnigraph.maintenance.doctor.findings import Finding
    from omnigraph.maintenance.index_status import IndexCoverage
    from omnigraph.maintenance.indexed_load import LoadResult
    from omnigraph.maintenance.maintain import MaintainResult
    from omnigraph.maintenance.optimize.options import IndexResult
    from omnigraph.maintenance.relocation import LocationFix
    from omnigraph.maintenance.schema_apply import SchemaResult
    from omnigraph.pipeline.embed.run import EmbedResult
    from omnigraph.pipeline.export.run import ExportResult
    from omnigraph.pipeline.spark.auto import AutoRunner


def init(
    uri: str | PathLike[str],
    schema: str | PathLike[str],
    *,
    force: bool = False,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    durability: str | None = None,
) -> Graph:
    """Create a graph.

    Args:
        uri: A local path, `file:///path` or `s3://bucket/prefix`.
        schema: `.pg` text, or a file: a path object, or a string that ends in `.pg`.
        force: Allow a directory that has other files in it.
        storage_options: Settings of the object store, such as `aws_region`. Default: the environment.
        actor: Who creates the graph, and who writes unless a call names another. Default: the login name.
        durability: `sync`: an acknowledged write survives a power failure. `process`: it survives only a crash of the
            process. Default: `OMNIGRAPH_DURABILITY`, or `sync`.

    Example:
        >>> new = og.init("new.omni", "node City { name: String @key }")
        >>> new.types()
        ('node:City',)
    """
    location = parse_location(fspath(uri), check_storage_options(storage_options), durability)
    creator = choose_actor(actor, None)
    text = read_schema(schema)
    from omnigraph.graph.create import NewGraph, create_graph
    from omnigraph.graph.managed import require_unmanaged

    require_unmanaged(location)
    create_graph(location, NewGraph(str(text), build_schema(text), creator, allow_other_files=force))
    return Graph(location, actor=actor)


def open(  # noqa: A001  # users write omnigraph.open
    uri: str | PathLike[str],
    branch: str = MAIN,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    spark: str | SparkSession | None = None,
    durability: str | None = None,
) -> Graph:
    """Open a graph; raise if it does not exist or if this release cannot read it.

    Unless it is read-only, it first finishes or undoes the interrupted writes of the branch.

    Args:
        uri: A local path, `file:///path` or `s3://bucket/prefix`.
        branch: The branch to read and write.
        read_only: Refuse every call that writes.
        storage_options: Settings of the object store, such as `aws_region`. Default: the environment.
        actor: Who writes unless a call names another. Default: the login name.
        spark: A Spark master, a Connect address or a session. Default: the active session, or the configured one.
        durability: As for `init`.

    Example:
        >>> with og.open("people.omni", read_only=True) as reader:
        ...     reader.branch
        'main'
    """
    location = parse_location(fspath(uri), check_storage_options(storage_options), durability)
    if actor is not None:
        choose_actor(actor, None)
    if branch == MAIN:
        open_manifest(location)
    else:
        read_snapshot(location, branch)
    if not read_only:
        from omnigraph.graph.recovery.run import recover_on_open

        recover_on_open(location, branch)
    return Graph(location, branch=branch, read_only=read_only, actor=actor, spark=spark)


@dataclass(frozen=True, slots=True, repr=False)
class Graph(Displayed):
    """A graph on one branch. `omnigraph.open` and `omnigraph.init` return it.

    `runner` says where the tasks of a call run: `local` is this process, `spark` is Spark, and `auto` is this process
    if the job is small, and Spark otherwise. The variable `OMNIGRAPH_RUNNER` changes the default.

    Example:
        >>> graph
        Graph
          uri       ...people.omni
          branch    main
          snapshot  commit ...
    """

    location: Location
    """Where it is stored, with the options of the store; `uri` is its text."""
    _: KW_ONLY
    branch: str = MAIN
    """The branch that it reads and writes."""
    read_only: bool = False
    """Whether every call that writes is refused."""
    actor: str | None = None
    """Who writes unless a call names another; None: the login name."""
    spark: str | SparkSession | None = None
    """The Spark master or session; None: the active session, or the configured one."""
    gate: GraphGate = field(default=AllowAll(), compare=False, repr=False)
    """Decides who may write. A graph that is opened by its location allows everything."""
    provider: AnyProvider | None = field(default=None, compare=False, repr=False)
    """Makes vectors unless a call names another; None: the provider that the environment configures."""

    @property
    def uri(self) -> str:
        """The location of the graph: an absolute path, or `s3://bucket/prefix`."""
        return self.location.uri

    @property
    def schema(self) -> str:
        """The `.pg` text of the schema of the branch."""
        return self.snapshot().schema.source

    def close(self) -> None:
        """Drop the cached states of the graph and their handles. A graph in a `with` statement is closed at its end.

        Example:
            >>> graph.close()
        """
        from omnigraph.graph.manifest.newest import forget_graph

        forget_graph(self.location)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _summary(self) -> Mapping[str, object]:
        return {"uri": self.uri, "branch": self.branch, "snapshot": f"commit {self.snapshot().head}"}

    # Reading

    def snapshot(self, as_of: str | int | date | datetime | Snapshot | None = None) -> Snapshot:
        """Return a published state of the branch, which never changes.

        Args:
            as_of: A commit, a manifest version, a time (the state that was current then) or a snapshot. Default: the
                newest state. A time is a `datetime` with an offset or text: `"2026-05-31T12:00:00Z"`. A `date` or
                `"2026-05-31"` is the beginning of that day in UTC.

        Example:
            >>> snapshot = graph.snapshot()
            >>> snapshot.tables["node:Person"].row_count
            2
        """
        return read_as_of(self.location, self.branch, as_of)

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        as_of: str | int | date | datetime | Snapshot | None = None,
        runner: Literal["local", "spark"] = "local",
        embed: EmbeddingProvider | None = None,
        limits: QueryLimits | None = None,
        exact: bool = False,
        progress: Report | None = None,
    ) -> Result:
        """Run a read query.

        Args:
            text: Text with one query or several.
            params: The values of its parameters.
            name: Which query of the text to run.
            as_of: The state to read, as for `snapshot`.
            runner: `spark` is for graphs that are too large for one machine. It searches without indexes.
            embed: Makes vectors from the texts that the query passes to `nearest`. Default: the provider of the cluster
                of the graph, or the one that the environment configures.
            limits: How much memory and time the query may use.
            exact: Search without indexes, which can be approximate.
            progress: A function that receives the progress of Spark.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist()
            [{'p.slug': 'ada'}, {'p.slug': 'bob'}]
        """
        from omnigraph.engine.options import NO_LIMITS

        if exact:
            limits = replace(limits or NO_LIMITS, exact=True)
        return self.prepare(text, name=name, limits=limits).run(
            params, as_of=as_of, runner=runner, embed=embed, limits=limits, progress=progress
        )

    def prepare(self, text: str, *, name: str | None = None, limits: QueryLimits | None = None) -> PreparedQuery:
        """Return a query that is parsed and planned once and can be run often.

        Args:
            text: Text with one query or several.
            name: Which query of the text to use.
            limits: `QueryLimits(hops=…)` allows traversals without an upper bound.

        Example:
            >>> query = graph.prepare("query q($s: String) { match { $p: Person {slug: $s} } return { $p.age } }")
            >>> query.run({"s": "ada"}).scalar()
            36
        """
        from omnigraph.api.prepared import PreparedQuery

        return PreparedQuery(
            location=self.location,
            branch=self.branch,
            spark=self.spark,
            source=query_source(text, name),
            limits=limits,
            provider=self.provider,
        )

    def explain(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        as_of: str | int | date | datetime | Snapshot | None = None,
        analyze: bool = False,
        limits: QueryLimits | None = None,
    ) -> ExplainResult:
        """Return how a query would run; with `analyze`, run it and return how it ran.

        Args:
            text: Text with one query or several.
            params: The values of its parameters; without them, the plan for any values.
            name: Which query of the text to explain.
            as_of: The state to read, as for `snapshot`.
            analyze: Run the query, which must be a read.
            limits: How much memory and time the query may use.

        Example:
            >>> graph.explain("query q() { match { $p: Person } return { $p.slug } }").query_name
            'q'
        """
        from omnigraph.engine.options import NO_LIMITS
        from omnigraph.engine.prepare import ExplainOptions, explain_query

        snapshot = self.snapshot(as_of)
        source = query_source(text, name)
        options = ExplainOptions(analyze=analyze, limits=limits or NO_LIMITS, embed=self.provider)
        return explain_query(snapshot, source, params, options)

    def types(self) -> tuple[str, ...]:
        """Return the aliases of the types of the branch, nodes first.

        Example:
            >>> graph.types()
            ('node:Person', 'edge:Knows')
        """
        return tuple(entity.alias for entity in self.snapshot().schema.catalog.types)

    def table(
        self,
        type: str,  # noqa: A002  # as in `load`
        *,
        as_of: str | int | date | datetime | Snapshot | None = None,
    ) -> LanceDataset:
        """Return the Lance dataset of a type, at the version that a state publishes. Do not write to it.

        Args:
            type: A type by its name or alias, `Person` or `node:Person`.
            as_of: The state, as for `snapshot`.

        Example:
            >>> graph.table("Person").count_rows()
            2
        """
        snapshot = self.snapshot(as_of)
        entity = snapshot.schema.catalog.require_type(type)
        return open_table(self.location, snapshot.tables[entity.alias]).native

    def to_networkx(
        self,
        selection: str | Iterable[str] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        as_of: str | int | date | datetime | Snapshot | None = None,
        limits: QueryLimits | None = None,
    ) -> Any:
        """Return nodes and edges as a `networkx.MultiDiGraph` in memory. NetworkX is not installed with Omnigraph.

        A node, and the key of an edge, is `(type, id)`. The attributes are the properties that are not null, without
        blobs and vectors. An endpoint that is not selected has no attributes.

        Args:
            selection: Text with one query that returns nodes and edges, as in `return { $a, $e, $b }`; or types by name
                or alias. Default: all types.
            params: The values of the parameters of the query.
            as_of: The state to read, as for `snapshot`.
            limits: How much memory and time each query may use.

        Example:
            >>> people = graph.to_networkx(["Person", "Knows"])
            >>> people.nodes["Person", "ada"], people.number_of_edges()
            ({'slug': 'ada', 'age': 36}, 1)
        """
        from omnigraph.api.networkx_graph import make_networkx_graph

        snapshot = self.snapshot(as_of)
        return make_networkx_graph(
            snapshot, selection, params, lambda text, values: self.query(text, values, as_of=snapshot, limits=limits)
        )

    def export(
        self,
        out: str | PathLike[str] | BinaryIO | None = None,
        *,
        format: str = "ndjson",  # noqa: A002  # as in pandas and Spark
        types: Iterable[str] | None = None,
        as_of: str | int | date | datetime | Snapshot | None = None,
        force: bool = False,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> ExportResult:
        """Write the graph to a file or a directory.

        Args:
            out: A file, or a directory if it exists or the name ends in `/`; or an open binary file. Default: stdout.
            format: `ndjson`, which `load` reads, or `parquet`.
            types: Types by name or alias. Default: all.
            as_of: The state to export, as for `snapshot`.
            force: Replace an earlier export.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> graph.export("people.jsonl").total
            3
        """
        from omnigraph.pipeline.export.run import ExportOptions, export
        from omnigraph.pipeline.export.target import TargetKind, parse_format, parse_target

        names = read_names("types", types)
        export_format = parse_format(format)
        path = fspath(out) if isinstance(out, str | PathLike) else None
        stream = None if isinstance(out, str | PathLike) else out
        options, durability = dict(self.location.options), self.location.durability
        target = parse_target(path, export_format, options, force=force, durability=durability)
        if isinstance(as_of, Snapshot):
            branch = self.snapshot(as_of).branch.name
            state = SnapshotSelector(version=as_of.version)
        else:
            branch, state = self.branch, select_state(as_of)
        if target.kind is TargetKind.STREAM and stream is None:
            stream = sys.stdout.buffer
        request = ExportOptions(
            target=target, format=export_format, types=names, branch=branch, selector=state, stream=stream
        )
        return export(self.location, request, self._runner(runner, progress))

    # Writing

    def load(
        self,
        data: object,
        *,
        type: str | None = None,  # noqa: A002  # as in `table`
        mode: str = "append",
        actor: str | None = None,
        dry_run: bool = False,
        rejects: str | PathLike[str] | None = None,
        build_indexes: bool = False,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> LoadResult:
        """Load files or frames as one commit, or raise with nothing written.

        Args:
            data: A file, a directory or a glob, a list of them, a frame (pyarrow, pandas, Polars, Spark), a list of
                dicts, or a dict of frames, lists of dicts or files by type.
            type: The type of the rows of a frame, of dicts, or of Parquet and CSV files.
            mode: `append`, `merge`, `patch` or `overwrite`.
            actor: Who loads. Default: the actor of the graph.
            dry_run: Check the input and write nothing.
            rejects: A file for every violation, as lines of JSON.
            build_indexes: Build the declared indexes of the loaded types directly after the commit.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> import pyarrow as pa
            >>> graph.load(pa.table({"slug": ["eve"], "age": [29]}), type="Person").total
            1
        """
        self._require_writable()
        from omnigraph.maintenance.indexed_load import load_with_indexes
        from omnigraph.pipeline.load.plan import LoadOptions, plan_load

        options = LoadOptions(
            mode=mode,
            actor=choose_actor(actor, self.actor),
            type=type,
            dry_run=dry_run,
            rejects=None if rejects is None else fspath(rejects),
            runner=self._runner(runner, progress),
            progress=progress or ignore_progress,
            gate=self.gate,
        )
        plan = plan_load(self.location, self.branch, data, options)
        return load_with_indexes(plan, build_indexes=build_indexes)

    def mutate(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        if_commit: str | None = None,
        actor: str | None = None,
        limits: QueryLimits | None = None,
    ) -> MutationResult:
        """Run a query that inserts, updates or deletes, as one commit.

        Args:
            text: Text with one query or several.
            params: The values of its parameters.
            name: Which query of the text to run.
            if_commit: The full id of the commit that the branch must have; otherwise nothing is written.
            actor: Who writes. Default: the actor of the graph.
            limits: How much memory and time it may use before it commits.

        Example:
            >>> graph.mutate('query add() { insert Person { slug: "eve", age: 29 } }').affected_nodes
            1
        """
        self._require_writable()
        from omnigraph.engine.mutation.text import MutationOptions, run_mutation_text
        from omnigraph.engine.options import NO_LIMITS

        writer = self._authorize(actor, AccessAction.CHANGE, branch=self.branch)
        options = MutationOptions(actor=writer, branch=self.branch, if_commit=if_commit, limits=limits or NO_LIMITS)
        return run_mutation_text(self.location, query_source(text, name), params, options)

    def embed(
        self,
        *,
        types: Iterable[str] | None = None,
        property: str | None = None,  # noqa: A002  # the name of the flag
        missing: bool = True,
        dry_run: bool = False,
        max_tokens: int | None = None,
        truncate: bool = False,
        rejects: str | PathLike[str] | None = None,
        build_indexes: bool = False,
        provider: AnyProvider | None = None,
        actor: str | None = None,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> EmbedResult:
        """Fill the vectors that are declared with `@embed` from their texts, in waves with one commit each.

        Earlier waves stay committed if it fails or is interrupted; the next call continues. Rows whose text the
        provider rejects are reported in the result and do not stop the others.

        Args:
            types: Types by name or alias. Default: all.
            property: Only the vectors with this name.
            missing: Embed only rows without a vector. False: every row with a text.
            dry_run: Only count the rows and characters; send nothing.
            max_tokens: Refuse a run with more tokens, about 4 characters each.
            truncate: Embed the first 32 KiB of a longer text. Default: such a row is an error.
            rejects: A file for the rows that failed, as NDJSON. The result has the first 100.
            build_indexes: Build the declared indexes of these types afterwards.
            provider: An `EmbeddingProvider` with a function, which is called in this process. Default: the provider
                of the cluster of the graph, or the one that the environment configures.
            actor: Who writes. Default: the actor of the graph.
            runner: Where the requests are sent from: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> graph.embed(dry_run=True).pending
            0
        """
        if not dry_run:
            self._require_writable()
            self._authorize(actor, AccessAction.CHANGE, branch=self.branch)
        from omnigraph.embedding.provider import find_provider
        from omnigraph.maintenance.indexed_load import embed_with_indexes
        from omnigraph.pipeline.embed.run import EmbedRequest
        from omnigraph.pipeline.load.rejects import locate_rejects

        request = EmbedRequest(
            actor=choose_actor(actor, self.actor),
            provider=provider or self.provider or find_provider(os.environ),
            branch=self.branch,
            types=read_names("types", types),
            property=property,
            every_row=not missing,
            dry_run=dry_run,
            tokens_max=max_tokens,
            truncate=truncate,
            errors=None if rejects is None else locate_rejects(fspath(rejects), self.location),
        )
        return embed_with_indexes(self.location, request, self._runner(runner, progress), build_indexes=build_indexes)

    def plan_schema(self, schema: str | PathLike[str], *, allow_data_loss: bool = False) -> SchemaPlan:
        """Return the steps from the schema of the branch to another schema, and the changes that are not supported.

        Args:
            schema: As for `init`.
            allow_data_loss: Delete the values of what is dropped permanently.

        Example:
            >>> plan = graph.plan_schema(graph.schema.replace("age: I32?", "age: I32?  name: String?"))
            >>> plan.can_apply
            True
        """
        from omnigraph.graph.schema_plan import plan_schema

        text = read_schema(schema)
        return plan_schema(self.snapshot(), str(text), source_name=text.source_name, hard=allow_data_loss)

    def apply_schema(
        self,
        schema: str | PathLike[str],
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> SchemaResult:
        """Change the schema of the branch as one commit, or raise with nothing written.

        New rules are checked against the rows first. What is dropped can be read at earlier commits until `cleanup`;
        with `allow_data_loss` the new commit has no file with its values, and the next `cleanup` deletes the earlier
        states.

        Args:
            schema: As for `init`.
            allow_data_loss: Delete the values of what is dropped permanently.
            actor: Who changes it. Default: the actor of the graph.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> changed = graph.apply_schema(graph.schema.replace("age: I32?", "age: I32?  name: String?"))
            >>> "name: String?" in graph.schema
            True
        """
        self._require_writable()
        text = read_schema(schema)
        from omnigraph.graph.managed import require_unmanaged
        from omnigraph.graph.recovery.run import recover_on_open
        from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema

        request = SchemaRequest(
            source=str(text), actor=choose_actor(actor, self.actor), source_name=text.source_name, hard=allow_data_loss
        )
        require_unmanaged(self.location)
        recover_on_open(self.location, self.branch)
        tasks = self._runner(runner, progress)
        result = apply_schema(self.location, self.branch, request, tasks)
        return replace(result, runner=tasks.description)

    # Branches and history

    def checkout(self, branch: str) -> Graph:
        """Return the graph on another branch.

        Example:
            >>> graph.create_branch("review/1").branch
            'review/1'
            >>> graph.checkout("review/1").branch
            'review/1'
        """
        read_snapshot(self.location, branch)
        return replace(self, branch=branch)

    def create_branch(
        self, name: str, *, from_: str | None = None, exist_ok: bool = False, actor: str | None = None
    ) -> Graph:
        """Create a branch and return the graph on it. Nothing is copied.

        Args:
            name: The new branch.
            from_: The branch or commit to start from. Default: the branch of the graph.
            exist_ok: Return the graph on the branch, unchanged, if the branch exists.
            actor: Who creates it. Default: the actor of the graph.

        Example:
            >>> review = graph.create_branch("review/1", from_="main")
            >>> review.branch
            'review/1'
        """
        self._require_writable()
        from omnigraph.graph.branches import create_branch
        from omnigraph.graph.manifest.refs import read_reference

        source = from_ or self.branch
        creator = self._authorize(actor, AccessAction.BRANCH_CREATE, branch=source, target=name)
        try:
            create_branch(self.location, name, creator, read_reference(self.location, source))
        except ConflictError as error:
            if not exist_ok or error.code != "branch_exists":
                raise
        return replace(self, branch=name)

    def list_branches(self) -> tuple[BranchStatus, ...]:
        """Return every branch, main first, with its newest commit and its distance from main.

        Example:
            >>> [status.record.name for status in graph.list_branches()]
            ['main']
        """
        from omnigraph.graph.branch_list import list_branches

        return list_branches(self.location)

    def delete_branch(self, name: str, *, if_commit: str | None = None, actor: str | None = None) -> BranchRecord:
        """Delete a branch. Main, and a branch that another branch was created from, cannot be deleted.

        Args:
            name: The branch.
            if_commit: The full id of the commit that the branch must have; otherwise it is not deleted.
            actor: Who deletes it, for a policy. Default: the actor of the graph.

        Example:
            >>> review = graph.create_branch("review/1")
            >>> graph.delete_branch("review/1").name
            'review/1'
        """
        self._require_writable()
        self._authorize(actor, AccessAction.BRANCH_DELETE, target=name)
        from omnigraph.graph.branches import delete_branch

        return delete_branch(self.location, name, head=None if if_commit is None else require_full_id(if_commit))

    def merge(
        self,
        source: str,
        *,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeResult:
        """Merge a branch, or a commit of one, into the branch of the graph as one commit, or raise with every conflict.

        Args:
            source: The branch or commit to merge.
            strategy: `ours` (the state of this branch) or `theirs` (of the source), for every conflict or by kind.
            resolve: `ours` or `theirs` for single entities, by type (`Person` or `node:Person`) and id.
            dry_run: Write nothing and return the conflicts.
            actor: Who merges. Default: the actor of the graph.

        Example:
            >>> review = graph.create_branch("review/1")
            >>> added = review.mutate('query add() { insert Person { slug: "eve" } }')
            >>> graph.merge("review/1").outcome.value
            'fast_forward'
        """
        if not dry_run:
            self._require_writable()
        from omnigraph.graph.merge.request import make_resolution, run_merge
        from omnigraph.graph.merge.run import MergeRequest

        resolution = make_resolution(strategy, resolve, lambda: self.snapshot().schema.catalog)
        writer = choose_actor(actor, self.actor)
        if not dry_run:
            self._authorize(actor, AccessAction.BRANCH_MERGE, branch=source, target=self.branch)
        return run_merge(
            self.location,
            MergeRequest(source=source, actor=writer, target=self.branch, resolution=resolution, dry_run=dry_run),
        )

    def revert(
        self,
        commit: str,
        *,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeResult:
        """Undo what a commit of the branch changed, as a new commit.

        Args:
            commit: The commit: its id, a unique part of it, or `HEAD`.
            strategy: As for `merge`. `ours` is the current state, `theirs` the state before the commit.
            resolve: As for `merge`.
            dry_run: Write nothing and return the conflicts.
            actor: Who reverts. Default: the actor of the graph.

        Example:
            >>> added = graph.mutate('query add() { insert Person { slug: "eve" } }')
            >>> graph.revert("HEAD").outcome.value
            'merged'
        """
        if not dry_run:
            self._require_writable()
        from omnigraph.graph.merge.request import make_resolution, run_revert
        from omnigraph.graph.merge.run import MergeRequest

        resolution = make_resolution(strategy, resolve, lambda: self.snapshot().schema.catalog)
        writer = choose_actor(actor, self.actor)
        if not dry_run:
            self._authorize(actor, AccessAction.CHANGE, branch=self.branch)
        commit_id = self.get_commit(commit).id
        return run_revert(
            self.location,
            MergeRequest(source=commit_id, actor=writer, target=self.branch, resolution=resolution, dry_run=dry_run),
        )

    def log(self, limit: int | None = 50) -> tuple[CommitRecord, ...]:
        """Return the commits of the branch, newest first.

        Args:
            limit: How many at most; None: all.

        Example:
            >>> [commit.operation.value for commit in graph.log()]
            ['mutate', 'init']
        """
        if limit is not None:
            require_positive("limit", limit)
        snapshot = read_snapshot(self.location, self.branch)
        return tuple(islice(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history(), limit))

    def get_commit(self, commit: str) -> CommitRecord:
        """Return a commit of the branch, by its id, a unique beginning or end of it, or `HEAD`.

        Example:
            >>> graph.get_commit("HEAD").created_at.tzinfo
            datetime.timezone.utc
        """
        return find_named_commit(read_snapshot(self.location, self.branch), commit)

    def diff(self, left: str, right: str | None = None) -> EntityChanges:
        """Return the changes from one branch or commit to another; with one commit, what it changed.

        The result is a sequence. A loop reads the changes one after the other; `len`, `list`, an index and a slice
        read all of them once and keep them in memory.

        Args:
            left: A branch or commit. Without `right`, a commit of the branch, compared with its first parent.
            right: A branch or commit.

        Example:
            >>> sorted(change.id for change in graph.diff("HEAD") if change.table == "node:Person")
            ['ada', 'bob']
        """
        from omnigraph.api.history import read_diff
        from omnigraph.graph.feed import read_commit_diff

        if right is None:
            return read_commit_diff(self.location, self.branch, left)
        return read_diff(self.location, left, right).changes

    def changes(self, since: str | None = None, *, limit: int = 100) -> ChangeFeed:
        """Return the next commits of the branch with their changes, oldest first.

        Args:
            since: The cursor of an earlier call, which is a commit id. Default: the first commit.
            limit: How many commits at most.

        Example:
            >>> feed = graph.changes()
            >>> [changes.commit.operation.value for changes in feed], feed.has_more
            (['init', 'mutate'], False)
        """
        require_positive("limit", limit)
        from omnigraph.graph.feed import read_feed

        return read_feed(self.location, self.branch, since, limit)

    # Maintenance

    def optimize(
        self,
        *,
        types: Iterable[str] | None = None,
        dry_run: bool = False,
        partial_progress: bool = False,
        max_rows_per_task: int | None = None,
        max_tasks: int | None = None,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> OptimizeResult:
        """Compact the tables of the branch, and extend and build their indexes, as at most one commit. No row changes.

        Args:
            types: Types by name or alias. Default: all.
            dry_run: Only plan.
            partial_progress: Commit groups of tasks as they finish.
            max_rows_per_task: How many rows one task rewrites at most.
            max_tasks: How many tasks the run executes at most.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> graph.optimize(dry_run=True).manifest.table_key
            '__manifest'
        """
        if not dry_run:
            self._require_writable()
        from omnigraph.api.results import OptimizeResult
        from omnigraph.graph.recovery.run import recover_every_branch
        from omnigraph.maintenance.optimize.options import OptimizeOptions
        from omnigraph.maintenance.optimize.run import optimize_all_tables

        options = OptimizeOptions(
            tables=frozenset(read_names("types", types)) or None,
            dry_run=dry_run,
            partial_progress=partial_progress,
            rows_per_task=max_rows_per_task,
            tasks_max=max_tasks,
        )
        options.validate()
        if not dry_run:
            recover_every_branch(self.location)
        tasks = self._runner(runner, progress)
        *tables, manifest = optimize_all_tables(self, options, tasks)
        commits = sorted({row.commit for row in tables if row.commit is not None})
        return OptimizeResult(tuple(tables), manifest, commits[-1] if commits else None, tasks.description)

    def build_indexes(
        self,
        *,
        types: Iterable[str] | None = None,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> IndexResult:
        """Build the declared indexes that do not exist, as at most one commit.

        Args:
            types: Types by name or alias. Default: all.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> sorted({row.table_key for row in graph.build_indexes(types=["Person"]).built})
            ['node:Person']
        """
        self._require_writable()
        from omnigraph.maintenance.optimize.plan import MaintenanceRequest
        from omnigraph.maintenance.optimize.run import ensure_indices

        request = MaintenanceRequest(types=frozenset(read_names("types", types)) or None)
        tasks = self._runner(runner, progress)
        result = ensure_indices(self.location, self.branch, tasks, request)
        return replace(result, runner=tasks.description)

    def index_status(self) -> tuple[IndexCoverage, ...]:
        """Return how well the declared indexes cover the tables of the branch, and which columns have no index.

        Example:
            >>> sorted({row.table_key for row in graph.index_status()})
            ['edge:Knows', 'node:Person']
        """
        from omnigraph.maintenance.index_status import index_status

        return tuple(index_status(self, self.branch))

    def repair(
        self,
        *,
        unverified: Literal["skip", "publish", "discard"] = "skip",
        types: Iterable[str] | None = None,
        branches: Iterable[str] | None = None,
        dry_run: bool = True,
        actor: str | None = None,
    ) -> RepairResult:
        """Find changes that other tools made to the tables of every branch, and publish or discard them.

        Args:
            unverified: What to do with a change that is not known to be harmless. `skip` refuses it.
            types: Types by name or alias. Default: all.
            branches: The branches. Default: all.
            dry_run: Only report.
            actor: Who repairs. Default: `omnigraph:repair`.

        Example:
            >>> {row.action.value for row in graph.repair().tables}
            {'no_op'}
        """
        from omnigraph.api.results import RepairResult
        from omnigraph.graph.recovery.run import recover_every_branch
        from omnigraph.maintenance.repair import RepairOptions, repair_all_tables

        require_choice("unverified", unverified, ("skip", "publish", "discard"))
        if actor is not None:
            choose_actor(actor, None)
        options = RepairOptions(types=read_names("types", types), branches=read_names("branches", branches))
        if not dry_run:
            self._require_writable()
            is_forced, is_discarded = unverified == "publish", unverified == "discard"
            options = replace(options, confirm=True, force=is_forced, discard=is_discarded, actor=actor)
            recover_every_branch(self.location)
        rows = repair_all_tables(self, options)
        commits = {row.branch: row.commit for row in rows if row.commit is not None}
        return RepairResult(tuple(rows), commits)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        orphans_older_than: timedelta | str | None = None,
        dry_run: bool = True,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> CleanupResult:
        """Delete old versions and files that nothing references, on every branch. One of the first two is required.

        Args:
            keep: Keep this many of the newest published versions of each table.
            older_than: Keep versions that are not older, such as `"14d"`.
            orphans_older_than: How old an unreferenced file must be, at least 2 days. Default: 3 days.
            dry_run: Only report what would be deleted.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> graph.cleanup(keep=10).files_removed
            0
        """
        from omnigraph.api.results import CleanupResult
        from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
        from omnigraph.maintenance.cleanup.run import run_cleanup

        options = CleanupPolicyOptions(keep, read_duration("older_than", older_than), confirm=not dry_run)
        grace = read_duration("orphans_older_than", orphans_older_than)
        if grace is not None:
            options = replace(options, orphans_older_than=grace)
        if not dry_run:
            self._require_writable()
        tasks = self._runner(runner, progress)
        rows = run_cleanup(self, options, tasks)
        return CleanupResult(tuple(rows), dry_run, tasks.description)

    def maintain(
        self,
        *,
        keep: int | None = 10,
        older_than: timedelta | str | None = "14d",
        cleanup: bool = True,
        branches: Iterable[str] | None = None,
        max_tasks: int | None = None,
        delete: bool = False,
        runner: Literal["auto", "local", "spark"] | None = None,
        progress: Report | None = None,
    ) -> MaintainResult:
        """Recover interrupted writes, optimize the branches that need it, clean up, and check the graph.

        It never repairs: `needs_repair` says that an external tool changed a table.

        Args:
            keep: As for `cleanup`.
            older_than: As for `cleanup`.
            cleanup: Whether to clean up.
            branches: The branches to optimize. Default: those that need it.
            max_tasks: How many tasks optimize runs per branch at most.
            delete: Whether cleanup deletes; otherwise it only reports what it would delete.
            runner: Where the tasks run: `auto` (default), `local` or `spark`; see `Graph`.
            progress: A function that receives the progress.

        Example:
            >>> graph.maintain().needs_repair
            False
        """
        self._require_writable()
        from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
        from omnigraph.maintenance.maintain import MaintainOptions, maintain

        policy = CleanupPolicyOptions(keep, read_duration("older_than", older_than), confirm=delete)
        policy.policy(0)  # raises for an invalid policy before anything is written
        options = MaintainOptions(read_names("branches", branches), max_tasks, policy if cleanup else None)
        return maintain(self, options, self._runner(runner, progress))

    def doctor(self, *, deep: bool = False) -> tuple[Finding, ...]:
        """Check the graph and this machine, and return findings with the command that fixes each.

        Args:
            deep: Also open each data file and index, and find edges without nodes in large tables.

        Example:
            >>> [finding for finding in graph.doctor() if finding.health.value == "problem"]
            []
        """
        from omnigraph.maintenance.doctor.run import check_graph

        return tuple(check_graph(self, deep=deep))

    def fix_location(self, *, dry_run: bool = True) -> LocationFix:
        """Make the branches of a moved or copied graph usable where it is now, or show what must be rewritten.

        Args:
            dry_run: Return what would be rewritten, and change nothing.

        Example:
            >>> graph.fix_location().is_needed
            False
        """
        from omnigraph.maintenance.relocation import fix_location

        if not dry_run:
            self._require_writable()
        return fix_location(self, dry_run=dry_run)

    def recoveries(self) -> tuple[RecoveryRecord, ...]:
        """Return the finished recoveries of the branch, newest first.

        Example:
            >>> graph.recoveries()
            ()
        """
        records = self.snapshot().manifest.read_recoveries()
        return tuple(sorted(records, key=lambda record: record.recovered_us, reverse=True))

    def pending_writes(self) -> tuple[PendingIntent, ...]:
        """Return every write in progress or waiting for recovery, on any branch, and every unreadable intent.

        Example:
            >>> graph.pending_writes()
            ()
        """
        from omnigraph.graph.coordination.intent import list_pending

        return list_pending(self.location)

    def _require_writable(self) -> None:
        """Raise if the graph is read-only."""
        if self.read_only:
            raise UsageError("the graph is read-only", code="graph_read_only", hint="Open it without `read_only`.")

    def _authorize(
        self, actor: str | None, action: AccessAction, *, branch: str | None = None, target: str | None = None
    ) -> str:
        """Return who writes; raise unless the gate of the graph allows it."""
        writer = choose_actor(actor, self.actor)
        self.gate.check(Authority(action=action, branch=branch, target=target), writer)
        return writer

    def _runner(self, runner: str | None, progress: Report | None) -> AutoRunner:
        from omnigraph.pipeline.spark.auto import AutoRunner, choose_for_graph, parse_runner
        from omnigraph.pipeline.spark.session import spark_settings

        choice = choose_for_graph(parse_runner(runner), self.location)
        return AutoRunner(choice, spark_settings(self.spark), progress or ignore_progress)
