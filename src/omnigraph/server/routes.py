"""The routes of the server as one table: routing, checks and the OpenAPI document follow from it.

A route of a graph is relative to `/graphs/{graph_id}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.client.local import state_repeated
from omnigraph.graph.manifest.refs import missing_reference
from omnigraph.server.gate import GraphAction, Subject
from omnigraph.server.served import StoredQuery, missing_query
from omnigraph.wire import changes, commits, maintenance, requests, results, service

if TYPE_CHECKING:
    from threading import Event

    from omnigraph.base.errors import OmnigraphError
    from omnigraph.client.local import LocalGraph


CONDITION: Final = "Omnigraph-If-Graph-Commit"
"""The header with the commit that must be the newest of the branch."""


class LaneName(Enum):
    """Which threads a route uses."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCall:
    """One request to a route of a graph: its path parameters, URL parameters, body and condition."""

    graph: LocalGraph
    cancelled: Event
    """Set when the client disconnects during a read, which ends the read."""
    path: dict[str, str]
    parameters: Any
    may_delete: Callable[[str], None]
    """Raises if the caller must not delete a branch."""
    health: Callable[[], maintenance.GraphHealthOutput]
    """Returns the health of the graph, which is cached."""
    protects: Callable[[], Callable[[str], bool] | None] = lambda: None
    """Returns what a policy protects."""
    condition: str | None = None
    """The commit of the header `Omnigraph-If-Graph-Commit`."""
    body: Any = None
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    """The stored queries of the graph."""

    @property
    def query(self) -> StoredQuery:
        """The stored query that the path names."""
        name = self.path["name"].strip()
        if name not in self.queries:
            raise missing_query()
        return self.queries[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route of a graph."""

    method: str
    path: str
    operation: str
    """The name of the operation."""
    summary: str
    action: GraphAction
    run: Callable[[RouteCall], Any]
    """Does the work, in a thread, and returns a document; for a stream, returns what writes it."""
    response: type[msgspec.Struct] | None
    other_response: type[msgspec.Struct] | None = None
    """The other document that it may return: a stored query reads, or changes a branch."""
    subject: Callable[[RouteCall], Subject] = lambda _: Subject()
    """What the action concerns."""
    is_preview: Callable[[RouteCall], bool] = lambda _: False
    """Whether a request to a route that writes only shows what it would do: it then needs `read` of the branches."""
    then: Callable[[RouteCall], tuple[GraphAction, Subject]] | None = None
    """What the action leads to, which must be allowed too: the body of a stored query reads or changes a branch."""
    choose_lane: Callable[[RouteCall], LaneName] | None = None
    """Returns the threads of a request if they depend on it."""
    is_body_optional: bool = False
    """Whether a request without a body is one with the default of each member."""
    missing: Callable[[RouteCall], OmnigraphError] | None = None
    """The error of a denied request that must not show whether its subject exists."""
    creates: Callable[[RouteCall], Subject | None] = lambda _: None
    """The branch that a request creates, which needs `branch_create` too."""
    is_ours: bool = False
    """Whether the route is not one of the public OmniGraph HTTP API."""
    is_subject_in_url: bool = True
    """Whether the subject is known before the body is read."""
    parameters: type[requests.WireRequest] = requests.NoParameters
    body: type[requests.WireRequest] | type[bytes] | None = None
    lane: LaneName = LaneName.READ
    is_blob: bool = False
    """Whether the response is bytes with an ETag and ranges."""
    body_bytes_max: int = limits.SERVER_BODY_BYTES_MAX
    is_conditional: bool = False
    """Whether it requires the header `Omnigraph-If-Graph-Commit`."""
    statuses: tuple[int, ...] = ()
    """The statuses besides those of every route."""

    @property
    def operation_id(self) -> str:
        """The name of the operation in the OpenAPI document."""
        return self.operation if self.is_ours else f"cluster_{self.operation}"


def _state_of_parameters(call: RouteCall) -> Subject:
    return _subject_of(call.parameters)


def _state_of_body(call: RouteCall) -> Subject:
    return _subject_of(call.body)


def _subject_of(state: requests.StateParameters) -> Subject:
    if state.snapshot is None:
        return Subject(branch=(state.branch or "main").strip())
    if state.branch is not None:
        raise state_repeated()
    return Subject(references=(state.snapshot.strip(),))


def _branch_of_body(call: RouteCall) -> Subject:
    return Subject(branch=call.body.branch.strip())


def _branch_of_parameters(call: RouteCall) -> Subject:
    return Subject(branch=call.parameters.branch.strip())


def _created_by_load(call: RouteCall) -> Subject | None:
    parameters = call.parameters if call.body is None or isinstance(call.body, bytes) else call.body
    name = parameters.branch.strip()
    if parameters.base is None or call.graph.has_branch(name):
        return None
    return Subject(branch=parameters.base.strip(), target=name)


def _list_branches(call: RouteCall) -> commits.BranchListOutput:
    document, is_protected = call.graph.list_branches(), call.protects()
    return document if is_protected is None else commits.with_protection(document, is_protected)


def _merge(call: RouteCall) -> results.BranchMergeOutput:
    return call.graph.merge(call.body, lambda: call.may_delete(call.body.source.strip()))


def _enter_query(call: RouteCall) -> tuple[GraphAction, Subject]:
    """Return what the body of a stored query does, and to which branch."""
    is_mutation = call.query.description.mutation
    expected = call.body.expect_mutation
    if expected is not None and expected is not is_mutation:
        actual = "changes the graph" if is_mutation else "reads the graph"
        raise UsageError(
            f"the stored query '{call.path['name']}' {actual}: expected the opposite",
            code="query_kind",
            hint="Send the other value as `expect_mutation`, or omit it.",
        )
    if is_mutation and call.body.snapshot is not None:
        raise UsageError(
            "a stored query that changes the graph cannot read a commit",
            code="query_kind",
            hint="Omit `snapshot`, and name a branch.",
        )
    action = GraphAction.CHANGE if is_mutation else GraphAction.READ
    return action, _subject_of(call.body)


def _invoke(call: RouteCall) -> results.ReadOutput | results.ChangeOutput:
    body, query = call.body, call.query
    name = query.description.name
    if not query.description.mutation:
        if call.condition is not None:
            raise UsageError(
                f"the stored query '{name}' writes nothing, so it has no condition",
                code="query_kind",
                hint="Send the request without the condition.",
            )
        request = requests.QueryRequest(
            query=query.text, name=name, params=body.params, branch=body.branch, snapshot=body.snapshot
        )
        return call.graph.query(request)
    change = requests.ChangeRequest(query=query.text, name=name, params=body.params, branch=body.branch or "main")
    return call.graph.mutate(change, call.condition)


def _lane_of_query(call: RouteCall) -> LaneName:
    return LaneName.WRITE if call.query.description.mutation else LaneName.READ


_WRITE_STATUSES: Final = (409, 429, 503)
_QUERY_STATUSES: Final = (502, 504)
_LOAD: Final = limits.SERVER_LOAD_BYTES_MAX

ROUTES: Final = (
    Route(
        method="GET",
        path="/snapshot",
        operation="getSnapshot",
        summary="What a state publishes",
        action=GraphAction.READ,
        subject=_state_of_parameters,
        parameters=requests.StateParameters,
        run=lambda call: call.graph.snapshot(call.parameters),
        response=commits.SnapshotOutput,
    ),
    Route(
        method="GET",
        path="/schema",
        operation="getSchema",
        summary="The schema of a state",
        action=GraphAction.READ,
        subject=_state_of_parameters,
        parameters=requests.StateParameters,
        run=lambda call: call.graph.schema(call.parameters),
        response=commits.SchemaOutput,
    ),
    Route(
        method="GET",
        path="/catalog",
        operation="getCatalog",
        is_ours=True,
        summary="The types of a state, with counts and indexes",
        action=GraphAction.READ,
        subject=_state_of_parameters,
        parameters=requests.StateParameters,
        run=lambda call: call.graph.catalog(call.parameters),
        response=service.CatalogOutput,
    ),
    Route(
        method="POST",
        path="/query",
        operation="query",
        summary="Run a read query",
        action=GraphAction.READ,
        subject=_state_of_body,
        is_subject_in_url=False,
        body=requests.QueryRequest,
        run=lambda call: call.graph.query(call.body),
        response=results.ReadOutput,
        statuses=_QUERY_STATUSES,
    ),
    Route(
        method="POST",
        path="/explain",
        operation="explainQuery",
        is_ours=True,
        summary="How a query runs",
        action=GraphAction.READ,
        subject=_state_of_body,
        is_subject_in_url=False,
        body=requests.ExplainRequest,
        run=lambda call: call.graph.explain(call.body),
        response=results.ExplainOutput,
        statuses=_QUERY_STATUSES,
    ),
    Route(
        method="POST",
        path="/lint",
        operation="lintQueries",
        is_ours=True,
        summary="Check query texts",
        action=GraphAction.READ,
        subject=_state_of_body,
        is_subject_in_url=False,
        body=requests.LintRequest,
        run=lambda call: call.graph.lint(call.body),
        response=results.LintOutput,
    ),
    Route(
        method="POST",
        path="/export",
        operation="export",
        summary="The entities of a state as lines of graph data",
        action=GraphAction.EXPORT,
        subject=_state_of_body,
        is_subject_in_url=False,
        body=requests.ExportRequest,
        run=lambda call: partial(call.graph.export, call.body),
        response=None,
        lane=LaneName.STREAM,
    ),
    Route(
        method="POST",
        path="/mutate",
        operation="mutate",
        summary="Run a query that changes a branch",
        action=GraphAction.CHANGE,
        subject=_branch_of_body,
        is_subject_in_url=False,
        body=requests.ChangeRequest,
        run=lambda call: call.graph.mutate(call.body),
        response=results.ChangeOutput,
        lane=LaneName.WRITE,
        statuses=(*_WRITE_STATUSES, *_QUERY_STATUSES),
    ),
    Route(
        method="POST",
        path="/mutate/if-graph-commit",
        operation="mutate_if_graph_commit",
        summary="Run a query that changes a branch, if a commit is its newest",
        action=GraphAction.CHANGE,
        subject=_branch_of_body,
        is_subject_in_url=False,
        body=requests.ChangeRequest,
        run=lambda call: call.graph.mutate(call.body, call.condition),
        response=results.ChangeOutput,
        lane=LaneName.WRITE,
        is_conditional=True,
        statuses=(412, *_WRITE_STATUSES, *_QUERY_STATUSES),
    ),
    Route(
        method="POST",
        path="/load",
        operation="load",
        summary="Load lines of graph data that are a member of a document",
        action=GraphAction.CHANGE,
        subject=_branch_of_body,
        is_subject_in_url=False,
        body=requests.IngestRequest,
        body_bytes_max=_LOAD,
        creates=_created_by_load,
        run=lambda call: call.graph.load(call.body, call.body.data.encode()),
        response=results.IngestOutput,
        lane=LaneName.WRITE,
        statuses=_WRITE_STATUSES,
    ),
    Route(
        method="POST",
        path="/load/ndjson",
        operation="loadNdjson",
        summary="Load lines of graph data",
        action=GraphAction.CHANGE,
        subject=_branch_of_parameters,
        parameters=requests.LoadParameters,
        body=bytes,
        body_bytes_max=_LOAD,
        creates=_created_by_load,
        run=lambda call: call.graph.load(call.parameters, call.body).without_uri(),
        response=results.GraphBatchLoadOutput,
        lane=LaneName.WRITE,
        statuses=_WRITE_STATUSES,
    ),
    Route(
        method="GET",
        path="/branches",
        operation="listBranches",
        summary="The branches",
        action=GraphAction.READ,
        run=_list_branches,
        response=commits.BranchListOutput,
    ),
    Route(
        method="POST",
        path="/branches",
        operation="createBranch",
        summary="Create a branch",
        action=GraphAction.BRANCH_CREATE,
        subject=lambda call: Subject(branch=call.body.source.strip(), target=call.body.name.strip()),
        is_subject_in_url=False,
        body=requests.BranchCreateRequest,
        run=lambda call: call.graph.create_branch(call.body),
        response=commits.BranchCreateOutput,
        lane=LaneName.WRITE,
        statuses=_WRITE_STATUSES,
    ),
    Route(
        method="POST",
        path="/branches/merge",
        operation="mergeBranches",
        summary="Merge a branch into another",
        action=GraphAction.BRANCH_MERGE,
        subject=lambda call: Subject(branch=call.body.source.strip(), target=call.body.target.strip()),
        is_preview=lambda call: call.body.dry_run,
        is_subject_in_url=False,
        body=requests.BranchMergeRequest,
        run=_merge,
        response=results.BranchMergeOutput,
        lane=LaneName.WRITE,
        statuses=_WRITE_STATUSES,
    ),
    Route(
        method="DELETE",
        path="/branches/{branch:path}",
        operation="deleteBranch",
        summary="Delete a branch",
        action=GraphAction.BRANCH_DELETE,
        subject=lambda call: Subject(target=call.path["branch"].strip()),
        run=lambda call: call.graph.delete_branch(call.path["branch"]),
        response=commits.BranchDeleteOutput,
        lane=LaneName.WRITE,
        statuses=_WRITE_STATUSES,
    ),
    Route(
        method="GET",
        path="/commits",
        operation="listCommits",
        summary="The newest commits of a branch",
        action=GraphAction.READ,
        subject=_branch_of_parameters,
        parameters=requests.CommitListParameters,
        run=lambda call: call.graph.list_commits(call.parameters),
        response=commits.CommitListOutput,
    ),
    Route(
        method="GET",
        path="/commits/{commit}/changes",
        operation="getCommitChanges",
        summary="What a commit changed",
        action=GraphAction.READ,
        subject=lambda call: Subject(references=(call.path["commit"],)),
        missing=lambda call: missing_reference(call.path["commit"]),
        parameters=requests.ChangeFilter,
        run=lambda call: call.graph.commit_changes(call.path["commit"], call.parameters),
        response=changes.CommitChangesOutput,
        statuses=(409, 410),
    ),
    Route(
        method="GET",
        path="/changes",
        operation="pollChanges",
        summary="The commits of a branch after a cursor, with their changes",
        action=GraphAction.READ,
        subject=_branch_of_parameters,
        parameters=requests.FeedParameters,
        run=lambda call: call.graph.poll_changes(msgspec.structs.replace(call.parameters, wait=None)),
        response=changes.ChangeFeedOutput,
        statuses=(409, 410),
    ),
    Route(
        method="GET",
        path="/diff",
        operation="diffStates",
        is_ours=True,
        summary="What differs between two branches or commits",
        action=GraphAction.READ,
        subject=lambda call: Subject(references=(call.parameters.before.strip(), call.parameters.after.strip())),
        parameters=requests.DiffParameters,
        run=lambda call: call.graph.diff(call.parameters),
        response=changes.DiffOutput,
        statuses=(409,),
    ),
    Route(
        method="GET",
        path="/blob",
        operation="getBlob",
        summary="The bytes of a Blob property, or a range of them",
        action=GraphAction.READ,
        subject=_state_of_parameters,
        parameters=requests.BlobParameters,
        run=lambda call: call.graph.find_blob(call.parameters),
        response=None,
        is_blob=True,
        statuses=(206, 304, 412, 416),
    ),
    Route(
        method="GET",
        path="/log",
        operation="listLog",
        is_ours=True,
        summary="The commits of all branches",
        action=GraphAction.READ,
        parameters=requests.LogParameters,
        run=lambda call: call.graph.log(call.parameters),
        response=commits.LogOutput,
    ),
    Route(
        method="GET",
        path="/health",
        operation="getGraphHealth",
        is_ours=True,
        summary="What doctor finds about the graph, and the figures of its tables",
        action=GraphAction.READ,
        run=lambda call: call.health(),
        response=maintenance.GraphHealthOutput,
    ),
    Route(
        method="GET",
        path="/queries",
        operation="list_queries",
        summary="The stored queries",
        action=GraphAction.READ,
        run=lambda call: service.QueriesCatalogOutput([query.description for query in call.queries.values()]),
        response=service.QueriesCatalogOutput,
    ),
    Route(
        method="POST",
        path="/queries/{name}",
        operation="invoke_query",
        summary="Run a stored query",
        action=GraphAction.INVOKE_QUERY,
        subject=lambda call: Subject(query=call.query.description.name),
        missing=lambda _: missing_query(),
        then=_enter_query,
        choose_lane=_lane_of_query,
        body=requests.InvokeStoredQueryRequest,
        is_body_optional=True,
        run=_invoke,
        response=results.ReadOutput,
        other_response=results.ChangeOutput,
        lane=LaneName.WRITE,
        statuses=(*_WRITE_STATUSES, *_QUERY_STATUSES),
    ),
    Route(
        method="POST",
        path="/queries/{name}/if-graph-commit",
        operation="invoke_query_if_graph_commit",
        summary="Run a stored query, if a commit is the newest of its branch",
        action=GraphAction.INVOKE_QUERY,
        subject=lambda call: Subject(query=call.query.description.name),
        missing=lambda _: missing_query(),
        then=_enter_query,
        choose_lane=_lane_of_query,
        body=requests.InvokeStoredQueryRequest,
        is_body_optional=True,
        run=_invoke,
        response=results.ChangeOutput,
        lane=LaneName.WRITE,
        is_conditional=True,
        statuses=(412, *_WRITE_STATUSES, *_QUERY_STATUSES),
    ),
    Route(
        method="GET",
        path="/commits/{commit}",
        operation="getCommit",
        summary="A commit",
        action=GraphAction.READ,
        run=lambda call: call.graph.get_commit(call.path["commit"]),
        response=commits.CommitOutput,
    ),
)
"""The routes of a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRoute:
    """A route of the server itself, answered to GET and HEAD."""

    path: str
    operation: str
    summary: str
    response: type[msgspec.Struct] | None
    is_public: bool = False
    """Whether it needs no token."""
    media_type: str = "application/json"


SERVER_ROUTES: Final = (
    ServerRoute(
        path="/healthz", operation="health", summary="That it runs", response=service.HealthOutput, is_public=True
    ),
    ServerRoute(
        path="/readyz",
        operation="ready",
        summary="Whether it can answer requests",
        response=service.ReadinessOutput,
        is_public=True,
    ),
    ServerRoute(
        path="/graphs", operation="listGraphs", summary="The graphs of the server", response=service.GraphListResponse
    ),
    ServerRoute(path="/whoami", operation="whoami", summary="The caller and its rights", response=service.WhoamiOutput),
    ServerRoute(path="/openapi.json", operation="openapi", summary="This document", response=None, is_public=True),
    ServerRoute(
        path="/metrics", operation="metrics", summary="Figures for Prometheus", response=None, media_type="text/plain"
    ),
)
"""The routes of the server."""
