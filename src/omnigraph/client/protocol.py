"""What every client of a graph can do, in this process or behind a server: requests in, documents out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from omnigraph.wire import changes, commits, maintenance, results, service
    from omnigraph.wire import requests as wr


class BlobContent(Protocol):
    """A stored blob, whose bytes are read on request. Blobs with equal tags have equal bytes."""

    @property
    def size(self) -> int:
        """The number of its bytes."""

    @property
    def tag(self) -> str:
        """The version, as in the header `ETag` but without quotes."""

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return its bytes, or a part of them."""


class GraphClient(Protocol):
    """A graph through requests and documents."""

    @property
    def uri(self) -> str:
        """The address of the graph for documents."""

    def snapshot(self, state: wr.StateParameters) -> commits.SnapshotOutput:
        """Return what a state publishes."""

    def schema(self, state: wr.StateParameters) -> commits.SchemaOutput:
        """Return the schema of a state."""

    def catalog(self, state: wr.StateParameters) -> service.CatalogOutput:
        """Return the types of a state, with the number of their entities and their indexes."""

    def index_status(self, state: wr.StateParameters) -> dict[str, Any]:
        """Return how far the indexes cover the tables of a state."""

    def health(self) -> maintenance.GraphHealthOutput:
        """Return what doctor finds about the graph, and the figures of its tables."""

    def list_graphs(self) -> service.GraphListResponse:
        """Return the graphs next to this one."""

    def service_health(self) -> service.HealthOutput:
        """Return the release that serves the graph."""

    def list_queries(self) -> service.QueriesCatalogOutput:
        """Return the stored queries."""

    def invoke_query(self, name: str, request: wr.InvokeStoredQueryRequest) -> dict[str, Any]:
        """Run a stored query, and return the document of a query or of a change."""

    def query(self, request: wr.QueryRequest) -> results.ReadOutput:
        """Run a read query."""

    def explain(self, request: wr.ExplainRequest) -> results.ExplainOutput:
        """Return how a query runs."""

    def lint(self, request: wr.LintRequest) -> results.LintOutput:
        """Check query texts against the schema of a state."""

    def export(self, request: wr.ExportRequest, stream: BinaryIO) -> None:
        """Write a state as lines of graph data."""

    def find_blob(self, parameters: wr.BlobParameters) -> BlobContent:
        """Return a blob, whose bytes are read later."""

    def mutate(self, request: wr.ChangeRequest, if_commit: str | None = None) -> results.ChangeOutput:
        """Run a query that changes a branch; with `if_commit`, only if that is its newest commit."""

    def load(self, parameters: wr.LoadParameters, data: bytes) -> results.IngestOutput:
        """Load lines of graph data."""

    def list_branches(self) -> commits.BranchListOutput:
        """Return every branch."""

    def create_branch(self, request: wr.BranchCreateRequest) -> commits.BranchCreateOutput:
        """Create a branch."""

    def delete_branch(self, name: str) -> commits.BranchDeleteOutput:
        """Delete a branch."""

    def merge(self, request: wr.BranchMergeRequest) -> results.BranchMergeOutput:
        """Merge a branch."""

    def list_commits(self, parameters: wr.CommitListParameters) -> commits.CommitListOutput:
        """Return the newest commits of a branch."""

    def get_commit(self, commit: str) -> commits.CommitOutput:
        """Return a commit of any branch."""

    def commit_changes(self, commit: str, parameters: wr.ChangeFilter) -> changes.CommitChangesOutput:
        """Return what a commit changed."""

    def poll_changes(self, parameters: wr.FeedParameters) -> changes.ChangeFeedOutput:
        """Return the commits of a branch after a cursor, with their changes."""

    def diff(self, parameters: wr.DiffParameters) -> changes.DiffOutput:
        """Return what differs between two states."""

    def log(self, parameters: wr.LogParameters) -> commits.LogOutput:
        """Return the commits of all branches."""
