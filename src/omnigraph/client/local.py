"""A graph in this process, with requests and documents of `wire`: what routes, tools of MCP and commands call.

In: a request. Out: the document that `--json` prints and HTTP sends. Loads run in this process; Spark is never used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from omnigraph.api.arguments import choose_actor
from omnigraph.api.graph import Graph
from omnigraph.api.history import TableNames, read_new_names
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import ErrorKind, NotFoundError, OmnigraphError, UsageError
from omnigraph.engine.options import NO_LIMITS
from omnigraph.graph.manifest.refs import read_named_commit, read_reference
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.schema.catalog import type_alias
from omnigraph.wire.commits import (
    BranchCreateOutput,
    BranchDeleteOutput,
    BranchListOutput,
    CommitListOutput,
    CommitOutput,
    LogOutput,
    SchemaOutput,
    SnapshotOutput,
    branch_create_output,
    branch_delete_output,
    branch_list_output,
    schema_output,
    snapshot_output,
)
from omnigraph.wire.results import (
    BranchDeletion,
    BranchMergeOutput,
    ChangeOutput,
    ExplainOutput,
    IngestOutput,
    LintOutput,
    ReadOutput,
    change_output,
    explain_output,
    ingest_output,
    lint_output,
    merge_output,
    read_output,
)
from omnigraph.wire.service import (
    CatalogOutput,
    GraphEntryOutput,
    GraphListResponse,
    HealthOutput,
    QueriesCatalogOutput,
    health_output,
)

if TYPE_CHECKING:
    from datetime import datetime
    from threading import Event

    from omnigraph.base.hints import Hint
    from omnigraph.embedding.provider import ConfiguredProvider
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.rows.blobs import StoredBlob
    from omnigraph.types import CommitRecord
    from omnigraph.wire import requests as wr
    from omnigraph.wire.changes import ChangeFeedOutput, CommitChangesOutput, DiffOutput
    from omnigraph.wire.maintenance import GraphHealthOutput


_LOOK_SECONDS: Final = 0.5
"""How often a waiting call reads the head of its branch."""


class ResultTooLongError(OmnigraphError):
    """The rows of a query are longer than a server sends."""

    kind = ErrorKind.LIMIT_EXCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGraph:
    """A graph that this process reads and writes."""

    graph: Graph
    uri: str
    """The address of the graph for documents. A server never shows where a graph is stored."""
    limits: QueryLimits = NO_LIMITS
    """The limits of each query."""
    result_bytes_max: int | None = None
    """The bytes of the rows of a query, in memory; above them it fails with `result_too_long`."""
    wide_as_text: bool = False
    """Whether documents have 64-bit integers of properties as text, for clients without such numbers."""
    render_hint: Callable[[Hint], str] = str
    """Renders a hint inside a document in the syntax of the surface."""
    as_of: str | int | datetime | None = None
    """The commit, manifest version or time of a branch whose state is read, where a request names only a branch."""

    def with_provider(self, provider: ConfiguredProvider) -> LocalGraph:
        """Return the graph with a provider that creates the vectors of the texts of its queries."""
        return replace(self, graph=replace(self.graph, provider=provider))

    def for_request(self, actor: str, cancelled: Event, *, wide_as_text: bool = False) -> LocalGraph:
        """Return the graph as an actor reads and writes it, with queries that end when the event is set."""
        return replace(
            self,
            graph=replace(self.graph, actor=actor),
            limits=replace(self.limits, cancelled=cancelled),
            wide_as_text=wide_as_text,
        )

    # Reading

    def branch_of(self, name: str) -> str:
        """Return the branch of a branch or commit; that of a commit is the branch that it was written on."""
        return read_named_commit(self.graph.location, name)[0].branch.name

    def has_branch(self, name: str) -> bool:
        """Return whether a branch exists."""
        return name in read_snapshot(self.graph.location, MAIN).state.branches

    def snapshot(self, state: wr.StateParameters) -> SnapshotOutput:
        """Return what a state publishes."""
        snapshot = self._read(state)
        snapshot.schema.require_intact()
        return snapshot_output(snapshot)

    def schema(self, state: wr.StateParameters) -> SchemaOutput:
        """Return the schema of a state."""
        return schema_output(self._read(state))

    def catalog(self, state: wr.StateParameters) -> CatalogOutput:
        """Return the types of a state, with the number of their entities and their indexes."""
        snapshot = self._read(state)
        schema = schema_output(snapshot)
        return CatalogOutput(
            graph_branch=schema.graph_branch,
            graph_commit_id=schema.graph_commit_id,
            schema_hash=schema.schema_hash,
            catalog=schema.catalog,
            entity_counts={alias: table.row_count for alias, table in snapshot.tables.items()},
            indexes=self.index_status(state)["indexes"],
        )

    def index_status(self, state: wr.StateParameters) -> dict[str, Any]:
        """Return how far the indexes cover the tables of a state."""
        from omnigraph.maintenance.index_status import coverage_of_snapshot
        from omnigraph.wire.maintenance import index_status_output

        snapshot = self._read(state)
        return index_status_output(self.uri, snapshot.branch.name, coverage_of_snapshot(snapshot))

    def health(self, render_hint: Callable[[Hint], str] = str) -> GraphHealthOutput:
        """Return what doctor finds about the graph, and the figures of its tables."""
        from omnigraph.maintenance.doctor.run import check_graph
        from omnigraph.maintenance.doctor.tables import read_table_figures
        from omnigraph.wire.maintenance import graph_health_output

        location = self.graph.location
        findings = check_graph(self.graph, machine=False)
        return graph_health_output(self.uri, location.uri, findings, read_table_figures(location), render_hint)

    def find_blob(self, parameters: wr.BlobParameters) -> StoredBlob:
        """Return a blob, whose bytes are read later."""
        from omnigraph.graph.rows.blobs import find_blob

        alias = type_alias(parameters.entity, parameters.type.strip())
        return find_blob(self._read(parameters), alias, parameters.id, parameters.property)

    def list_graphs(self) -> GraphListResponse:
        """Return this graph: a process opens one."""
        return GraphListResponse([GraphEntryOutput("default", self.uri)])

    def service_health(self) -> HealthOutput:
        """Return the release of this process."""
        return health_output()

    def list_queries(self) -> QueriesCatalogOutput:
        """Raise: only a server has stored queries."""
        raise _no_stored_queries()

    def invoke_query(self, name: str, request: wr.InvokeStoredQueryRequest) -> dict[str, Any]:  # noqa: ARG002  # raises
        """Raise: only a server has stored queries."""
        raise _no_stored_queries()

    def query(self, request: wr.QueryRequest) -> ReadOutput:
        """Run a read query."""
        graph, as_of = self._state(request)
        result = graph.prepare(request.query, name=request.name, limits=self.limits).run(request.params, as_of=as_of)
        self._require_result_size(result.to_arrow().nbytes)
        return read_output(result, self._requested_commit(as_of), wide_as_text=self.wide_as_text)

    def explain(self, request: wr.ExplainRequest) -> ExplainOutput:
        """Return how a query runs."""
        graph, as_of = self._state(request)
        explained = graph.explain(
            request.query, request.params, name=request.name, as_of=as_of, analyze=request.analyze, limits=self.limits
        )
        return explain_output(explained, self._requested_commit(as_of))

    def lint(self, request: wr.LintRequest) -> LintOutput:
        """Check query texts against the schema of a state."""
        from omnigraph.query.lint import lint_queries

        catalog = self._read(request).schema.catalog
        texts = [(file.name, file.text) for file in request.files]
        return lint_output(lint_queries(texts, catalog, self.limits.hops))

    def export(self, request: wr.ExportRequest, stream: BinaryIO) -> None:
        """Write a state as lines of graph data."""
        graph, as_of = self._state(request)
        graph.export(stream, types=request.type_names, as_of=as_of, runner="local")

    # Writing

    def mutate(self, request: wr.ChangeRequest, if_commit: str | None = None) -> ChangeOutput:
        """Run a query that changes a branch; with `if_commit`, only if that is its newest commit."""
        result = self._on(request.branch).mutate(
            request.query, request.params, name=request.name, if_commit=if_commit, limits=self.limits
        )
        return change_output(result, self._new_names(result.commit))

    def load(self, parameters: wr.LoadParameters, data: bytes) -> IngestOutput:
        """Load lines of graph data."""
        from omnigraph.maintenance.indexed_load import load_with_indexes
        from omnigraph.pipeline.load.plan import LoadOptions, plan_load
        from omnigraph.pipeline.spark.auto import AutoRunner, parse_runner

        options = LoadOptions(
            mode=parameters.mode,
            actor=choose_actor(None, self.graph.actor),
            base=parameters.base,
            runner=AutoRunner(parse_runner("local")),
            gate=self.graph.gate,
        )
        with NamedTemporaryFile(suffix=".ndjson") as file:
            file.write(data)
            file.flush()
            result = load_with_indexes(plan_load(self.graph.location, parameters.branch.strip(), file.name, options))
        return ingest_output(self.uri, result, self._new_names(result.commit))

    # Branches and history

    def list_branches(self) -> BranchListOutput:
        """Return every branch."""
        return branch_list_output(self.graph.list_branches())

    def create_branch(self, request: wr.BranchCreateRequest) -> BranchCreateOutput:
        """Create a branch."""
        created = self.graph.create_branch(request.name.strip(), from_=request.source.strip())
        record = created.snapshot().branch
        return branch_create_output(self.uri, request.source.strip(), record)

    def delete_branch(self, name: str) -> BranchDeleteOutput:
        """Delete a branch."""
        return branch_delete_output(self.uri, self.graph.delete_branch(name.strip()), self.graph.actor)

    def merge(self, request: wr.BranchMergeRequest, may_delete: Callable[[], None] | None = None) -> BranchMergeOutput:
        """Merge a branch. `may_delete` raises if the caller must not delete the merged branch."""
        decisions = {
            (f"{decision.entity_kind}:{decision.type_name}", decision.entity_id): decision.take
            for decision in request.resolve or ()
        }
        result = self._on(request.target).merge(
            request.source.strip(), strategy=request.strategy, resolve=decisions or None, dry_run=request.dry_run
        )
        names = self._new_names(result.commit)
        if not request.delete_branch or request.dry_run:
            return merge_output(result, names)
        try:
            if may_delete is not None:
                may_delete()
            self.graph.delete_branch(result.source, if_commit=result.source_head)
        except OmnigraphError as error:
            return merge_output(result, names, BranchDeletion(error, self.render_hint(error.advice)))
        return merge_output(result, names, BranchDeletion(None))

    def list_commits(self, parameters: wr.CommitListParameters) -> CommitListOutput:
        """Return the newest commits of a branch."""
        from omnigraph.client import history

        return history.list_commits(self._on(parameters.branch), parameters.limit)

    def get_commit(self, commit: str) -> CommitOutput:
        """Return a commit of any branch."""
        from omnigraph.client import history

        return history.get_commit(self.graph, commit)

    def commit_changes(self, commit: str, parameters: wr.ChangeFilter) -> CommitChangesOutput:
        """Return what a commit changed."""
        from omnigraph.client import history

        return history.commit_changes(self.graph, commit, parameters, wide_as_text=self.wide_as_text)

    def poll_changes(self, parameters: wr.FeedParameters) -> ChangeFeedOutput:
        """Return the commits of a branch after a cursor, with their changes.

        An empty page waits for the next commit if the request asks for it. A server waits itself, without a thread.
        """
        from omnigraph.client import history
        from omnigraph.client.paging import plan_wait

        graph = self._on(parameters.branch)
        page = history.poll_changes(graph, parameters, wide_as_text=self.wide_as_text)
        wait = plan_wait(parameters, page)
        if wait is None:
            return page
        deadline = SYSTEM_CLOCK.monotonic() + wait.seconds
        while (seconds := deadline - SYSTEM_CLOCK.monotonic()) > 0 and self.head(wait.branch) == wait.head:
            SYSTEM_CLOCK.sleep(min(_LOOK_SECONDS, seconds))
        return history.poll_changes(graph, wait.following, wide_as_text=self.wide_as_text)

    def diff(self, parameters: wr.DiffParameters) -> DiffOutput:
        """Return what differs between two states."""
        from omnigraph.client import history

        return history.diff_states(self.graph, parameters, wide_as_text=self.wide_as_text)

    def log(self, parameters: wr.LogParameters) -> LogOutput:
        """Return the commits of all branches."""
        from omnigraph.client import history

        return history.read_page_of_log(self.graph, parameters)

    def head(self, branch: str) -> str:
        """Return the newest commit of a branch."""
        return read_snapshot(self.graph.location, branch.strip()).head

    def _require_result_size(self, size: int) -> None:
        if self.result_bytes_max is not None and size > self.result_bytes_max:
            raise ResultTooLongError(
                f"the result is too long: expected at most {self.result_bytes_max:,} bytes, got {size:,}",
                code="result_too_long",
                hint="Return fewer columns or rows, for example with `limit`, or export the branch.",
                facts={
                    "resource_limit": {
                        "resource": "result",
                        "limit": self.result_bytes_max,
                        "unit": "bytes",
                        "actual": size,
                    }
                },
            )

    def _on(self, branch: str) -> Graph:
        return replace(self.graph, branch=branch.strip())

    def _new_names(self, commit: CommitRecord | None) -> TableNames:
        return read_new_names(self.graph.location, commit)

    def _state(self, state: wr.StateParameters) -> tuple[Graph, Snapshot | None]:
        """Return the graph on the branch of a state, and the state if it is that of a commit."""
        if state.snapshot is None and self.as_of is None:
            return self._on(state.branch or MAIN), None
        snapshot = self._read(state)
        return self._on(snapshot.branch.name), snapshot

    def _requested_commit(self, snapshot: Snapshot | None) -> str | None:
        """Return the commit of a state that the caller named by its commit."""
        is_named = snapshot is not None and (self.as_of is None or isinstance(self.as_of, str))
        return snapshot.head if snapshot is not None and is_named else None

    def _read(self, state: wr.StateParameters) -> Snapshot:
        if state.branch is not None and state.snapshot is not None:
            raise state_repeated()
        if state.snapshot is not None:
            return read_reference(self.graph.location, state.snapshot.strip())
        if self.as_of is not None:
            return self._on(state.branch or MAIN).snapshot(self.as_of)
        return read_snapshot(self.graph.location, (state.branch or MAIN).strip())


def state_repeated() -> UsageError:
    """Return the error for a state with a branch and a commit."""
    return UsageError(
        "`branch` and `snapshot` cannot be used together",
        code="state_twice",
        hint="Pass the branch for its newest state, or the commit as `snapshot`.",
    )


def _no_stored_queries() -> NotFoundError:
    return NotFoundError(
        "a graph without a server has no stored queries for agents",
        code="query_not_stored",
        hint="Connect the agent to a server of the cluster.",
    )
