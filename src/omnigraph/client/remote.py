"""A graph of a server, with requests and documents of `wire`: the same methods as `LocalGraph`, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

import msgspec

from omnigraph.api.texts import source_name
from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind
from omnigraph.client.errors import RemoteError, with_source
from omnigraph.client.http import Connection, HttpRequest
from omnigraph.wire import changes, commits, maintenance, results, service
from omnigraph.wire import requests as wr

Document = TypeVar("Document")
_CONDITION = "Omnigraph-If-Graph-Commit"


QUERY_SOURCE = "<query>"
"""What messages call query text without a name."""


def choose_graph(connection: Connection) -> str:
    """Return the only graph of a server that the caller may see; raise if there are several, or none."""
    graph_ids = list_graph_ids(connection)
    if len(graph_ids) == 1:
        return graph_ids[0]
    raise RemoteError(
        f"the server at {connection.url} has several graphs: expected one of {', '.join(graph_ids)}"
        if graph_ids
        else f"the server at {connection.url} has no graph that you may read",
        code="graph_unnamed",
        kind=ErrorKind.BAD_REQUEST,
        hint="Name one of its graphs." if graph_ids else "Ask its operator for access.",
        facts={"graphs": list(graph_ids)},
    )


def list_graph_ids(connection: Connection) -> list[str]:
    """Return the graphs of a server, or those that the caller may use if it may not list them."""
    try:
        return [entry.graph_id for entry in read_graphs(connection).graphs]
    except RemoteError as error:
        if error.kind is not ErrorKind.FORBIDDEN:
            raise
    return [entry.graph_id for entry in read_whoami(connection).graphs]


def read_graphs(connection: Connection) -> service.GraphListResponse:
    """Return the graphs of a server."""
    return _read(connection, "/graphs", service.GraphListResponse)


def read_whoami(connection: Connection) -> service.WhoamiOutput:
    """Return who the caller is, and what it may do."""
    return _read(connection, "/whoami", service.WhoamiOutput)


def _read(connection: Connection, path: str, kind: type[Document]) -> Document:
    request = HttpRequest(method="GET", path=path)
    return connection.decode(request, connection.send(request), kind)


@dataclass(frozen=True, slots=True)
class RemoteBlob:
    """A blob of a server. The requests for its parts are independent, so that a part fails alone and is sent again."""

    connection: Connection
    request: HttpRequest
    size: int
    tag: str

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return its bytes, or a part of them."""
        end = self.size if end is None else end
        if start >= end:
            return b""
        return self.connection.send(replace(self.request, headers={"Range": f"bytes={start}-{end - 1}"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGraph:
    """A graph of a server."""

    connection: Connection
    graph_id: str

    @property
    def uri(self) -> str:
        """The address of the graph on its server."""
        return f"graphs/{self.graph_id}"

    # Reading

    def snapshot(self, state: wr.StateParameters) -> commits.SnapshotOutput:
        """Return what a state publishes."""
        return self._get("snapshot", state, commits.SnapshotOutput)

    def schema(self, state: wr.StateParameters) -> commits.SchemaOutput:
        """Return the schema of a state."""
        return self._get("schema", state, commits.SchemaOutput)

    def catalog(self, state: wr.StateParameters) -> service.CatalogOutput:
        """Return the types of a state, with the number of their entities and their indexes."""
        return self._get("catalog", state, service.CatalogOutput)

    def index_status(self, state: wr.StateParameters) -> dict[str, Any]:
        """Return how far the indexes cover the tables of a state."""
        catalog = self.catalog(state)
        return {"uri": self.uri, "graph_branch": catalog.graph_branch, "indexes": catalog.indexes}

    def health(self) -> maintenance.GraphHealthOutput:
        """Return what doctor finds about the graph, and the figures of its tables."""
        return self._get("health", None, maintenance.GraphHealthOutput)

    def list_graphs(self) -> service.GraphListResponse:
        """Return the graphs of the server."""
        return read_graphs(self.connection)

    def service_health(self) -> service.HealthOutput:
        """Return the release of the server."""
        return _read(self.connection, "/healthz", service.HealthOutput)

    def list_queries(self) -> service.QueriesCatalogOutput:
        """Return the stored queries."""
        return self._get("queries", None, service.QueriesCatalogOutput)

    def invoke_query(self, name: str, request: wr.InvokeStoredQueryRequest) -> dict[str, Any]:
        """Run a stored query, and return the document of a query or of a change."""
        return self._post(f"queries/{quote(name, safe='')}", request, dict[str, Any], is_write=True)

    def query(self, request: wr.QueryRequest) -> results.ReadOutput:
        """Run a read query. Without a text, the stored query of that name."""
        if not request.query and request.name is not None:
            stored = wr.InvokeStoredQueryRequest(
                params=request.params, branch=request.branch, snapshot=request.snapshot, expect_mutation=False
            )
            return self._post(f"queries/{quote(request.name, safe='')}", stored, results.ReadOutput)
        return self._post("query", request, results.ReadOutput)

    def explain(self, request: wr.ExplainRequest) -> results.ExplainOutput:
        """Return how a query runs."""
        return self._post("explain", request, results.ExplainOutput)

    def lint(self, request: wr.LintRequest) -> results.LintOutput:
        """Check query texts against the schema of a state."""
        return self._post("lint", request, results.LintOutput)

    def export(self, request: wr.ExportRequest, stream: BinaryIO) -> None:
        """Write a state as lines of graph data."""
        sent = HttpRequest(method="POST", path=self._path("export"), body=_encode(request))
        for chunk in self.connection.stream(sent):
            stream.write(chunk)

    def find_blob(self, parameters: wr.BlobParameters) -> RemoteBlob:
        """Return a blob of one commit, whose bytes are read later."""
        state = wr.StateParameters(branch=parameters.branch, snapshot=parameters.snapshot)
        commit = self.snapshot(state).graph_commit_id
        request = HttpRequest(
            method="HEAD",
            path=self._path("blob"),
            parameters=_fields(msgspec.structs.replace(parameters, branch=None, snapshot=commit)),
        )
        try:
            headers = self.connection.read_headers(request)
        except RemoteError as error:
            if error.code == "server_answer":  # a response to HEAD has no document of the error, and one to GET has it
                self.connection.send(replace(request, method="GET", headers={"Range": "bytes=0-0"}))
            raise
        blob_request = replace(request, method="GET")
        return RemoteBlob(self.connection, blob_request, int(headers["Content-Length"]), headers["ETag"].strip('"'))

    # Writing

    def mutate(self, request: wr.ChangeRequest, if_commit: str | None = None) -> results.ChangeOutput:
        """Run a query that changes a branch; with `if_commit`, only if that is its newest commit.

        Without a text, run the stored query of that name.
        """
        path = "mutate"
        sent: wr.WireRequest = request
        if not request.query and request.name is not None:
            path = f"queries/{quote(request.name, safe='')}"
            sent = wr.InvokeStoredQueryRequest(params=request.params, branch=request.branch, expect_mutation=True)
        if if_commit is not None:
            path = f"{path}/if-graph-commit"
        headers = {} if if_commit is None else {_CONDITION: if_commit}
        return self._post(path, sent, results.ChangeOutput, is_write=True, headers=headers)

    def load(self, parameters: wr.LoadParameters, data: bytes) -> results.IngestOutput:
        """Load lines of graph data."""
        if len(data) > limits.SERVER_LOAD_BYTES_MAX:
            raise RemoteError(
                f"the data is too long for a server: expected at most {limits.SERVER_LOAD_BYTES_MAX:,} bytes, got "
                f"{len(data):,}",
                code="body_too_long",
                kind=ErrorKind.LIMIT_EXCEEDED,
                hint="Nothing was sent. Load it without a server, on a machine that reaches the storage of the graph.",
            )
        request = HttpRequest(
            method="POST",
            path=self._path("load/ndjson"),
            parameters={**_fields(parameters), "mode": parameters.mode},
            body=data,
            content_type="application/x-ndjson",
            is_write=True,
        )
        loaded = self.connection.decode(request, self.connection.send(request), results.GraphBatchLoadOutput)
        return results.IngestOutput.of(self.uri, loaded)

    # Branches and history

    def list_branches(self) -> commits.BranchListOutput:
        """Return every branch."""
        return self._get("branches", None, commits.BranchListOutput)

    def create_branch(self, request: wr.BranchCreateRequest) -> commits.BranchCreateOutput:
        """Create a branch."""
        return self._post("branches", request, commits.BranchCreateOutput, is_write=True)

    def delete_branch(self, name: str) -> commits.BranchDeleteOutput:
        """Delete a branch."""
        path = self._path(f"branches/{quote(name, safe='')}")
        request = HttpRequest(method="DELETE", path=path, is_write=True)
        return self.connection.decode(request, self.connection.send(request), commits.BranchDeleteOutput)

    def merge(self, request: wr.BranchMergeRequest) -> results.BranchMergeOutput:
        """Merge a branch."""
        return self._post("branches/merge", request, results.BranchMergeOutput, is_write=not request.dry_run)

    def list_commits(self, parameters: wr.CommitListParameters) -> commits.CommitListOutput:
        """Return the newest commits of a branch."""
        return self._get("commits", parameters, commits.CommitListOutput)

    def get_commit(self, commit: str) -> commits.CommitOutput:
        """Return a commit of any branch."""
        return self._get(f"commits/{quote(commit, safe='')}", None, commits.CommitOutput)

    def commit_changes(self, commit: str, parameters: wr.ChangeFilter) -> changes.CommitChangesOutput:
        """Return what a commit changed."""
        return self._get(f"commits/{quote(commit, safe='')}/changes", parameters, changes.CommitChangesOutput)

    def poll_changes(self, parameters: wr.FeedParameters) -> changes.ChangeFeedOutput:
        """Return the commits of a branch after a cursor, with their changes."""
        return self._get("changes", parameters, changes.ChangeFeedOutput, wait_seconds=parameters.wait or 0.0)

    def diff(self, parameters: wr.DiffParameters) -> changes.DiffOutput:
        """Return what differs between two states."""
        return self._get("diff", parameters, changes.DiffOutput)

    def log(self, parameters: wr.LogParameters) -> commits.LogOutput:
        """Return the commits of all branches."""
        return self._get("log", parameters, commits.LogOutput)

    def _path(self, path: str) -> str:
        return f"/graphs/{quote(self.graph_id, safe='')}/{path}"

    def _get(
        self, path: str, parameters: wr.WireRequest | None, kind: type[Document], wait_seconds: float = 0.0
    ) -> Document:
        request = HttpRequest(
            method="GET",
            path=self._path(path),
            parameters={} if parameters is None else _fields(parameters),
            wait_seconds=wait_seconds,
        )
        return self.connection.decode(request, self.connection.send(request), kind)

    def _post(
        self,
        path: str,
        document: wr.WireRequest,
        kind: type[Document],
        *,
        is_write: bool = False,
        headers: dict[str, str] | None = None,
    ) -> Document:
        request = HttpRequest(
            method="POST", path=self._path(path), body=_encode(document), is_write=is_write, headers=headers or {}
        )
        try:
            return self.connection.decode(request, self.connection.send(request), kind)
        except RemoteError as error:
            text = getattr(document, "query", None)
            if text is None or "problems" not in error.facts:
                raise
            raise with_source(error, text, source_name(text, QUERY_SOURCE)) from error


def _encode(document: wr.WireRequest) -> bytes:
    return msgspec.json.encode(document, enc_hook=_plain_text)


def _plain_text(value: Any) -> str:
    """Return text with a name as plain text: msgspec encodes no subclass of `str`."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a request cannot contain a {type(value).__name__}")


def _fields(parameters: wr.WireRequest) -> dict[str, Any]:
    """Return the parameters that are not the default, by their names in a URL."""
    return dict(msgspec.to_builtins(parameters))
