"""The JSON documents and URL parameters that HTTP requests send, named as in the OpenAPI document.

An unknown member is an error. A member that may be omitted has a default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class WireRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A document or the parameters of a request."""


class StateParameters(WireRequest, frozen=True, kw_only=True):
    """The state to read: the newest of a branch, or the one of a commit. Without both, the newest of main."""

    branch: str | None = None
    snapshot: str | None = None


class BlobParameters(StateParameters, frozen=True, kw_only=True):
    """A blob: a property of one entity of a state."""

    entity: Literal["node", "edge"]
    type: str
    id: str
    property: str


class QueryRequest(StateParameters, frozen=True, kw_only=True):
    """A read query: its text, which of its queries to run, and the values of its parameters."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None


class InvokeStoredQueryRequest(StateParameters, frozen=True, kw_only=True):
    """The parameters of a stored query. `expect_mutation`: fail unless it changes the graph, or unless it reads it."""

    params: dict[str, Any] | None = None
    expect_mutation: bool | None = None


class ExplainRequest(QueryRequest, frozen=True, kw_only=True):
    """A query to explain; with `analyze` it runs."""

    analyze: bool = False


class ChangeRequest(WireRequest, frozen=True, kw_only=True):
    """A query that changes a branch."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str = "main"


class LintFile(WireRequest, frozen=True, kw_only=True):
    """A query text with a name for messages."""

    name: str
    text: str


class LintRequest(StateParameters, frozen=True, kw_only=True):
    """Query texts to check against the schema of a state."""

    files: list[LintFile]


LoadModeName = Literal["append", "merge", "patch", "overwrite"]


class LoadParameters(WireRequest, frozen=True, kw_only=True, rename={"base": "from"}):
    """Where and how to load lines of graph data. `base`: the branch to create a missing branch from."""

    branch: str = "main"
    base: str | None = None
    mode: LoadModeName = "merge"


class IngestRequest(LoadParameters, frozen=True, kw_only=True, rename={"base": "from"}):
    """Lines of graph data to load."""

    data: str


class ExportRequest(StateParameters, frozen=True, kw_only=True):
    """The types to export; without types, all."""

    type_names: list[str] | None = None


class BranchCreateRequest(WireRequest, frozen=True, kw_only=True, rename={"source": "from"}):
    """A branch to create, and the branch or commit to create it from."""

    name: str
    source: str = "main"


class ConflictDecision(WireRequest, frozen=True, kw_only=True):
    """Which side of a conflict a merge takes for one entity."""

    entity_kind: Literal["node", "edge"]
    type_name: str
    entity_id: str
    take: Literal["ours", "theirs"]


class BranchMergeRequest(WireRequest, frozen=True, kw_only=True):
    """A branch or commit to merge. `strategy` decides every conflict, or every conflict of a kind."""

    source: str
    target: str = "main"
    delete_branch: bool = False
    dry_run: bool = False
    strategy: Literal["ours", "theirs"] | dict[str, Literal["ours", "theirs"]] | None = None
    resolve: list[ConflictDecision] | None = None


class NoParameters(WireRequest, frozen=True, kw_only=True):
    """The parameters of an operation that has none."""


class CommitListParameters(WireRequest, frozen=True, kw_only=True):
    """The branch, and how many of its newest commits to list."""

    branch: str = "main"
    limit: int = 50


class LogParameters(WireRequest, frozen=True, kw_only=True):
    """How many commits of all branches to list on a page."""

    limit: int = 100
    page_token: str | None = None


class ChangeFilter(WireRequest, frozen=True, kw_only=True):
    """Which changed entities to list, and how many on a page."""

    kind: list[Literal["node", "edge"]] | None = None
    type: list[str] | None = None
    op: list[Literal["insert", "update", "delete"]] | None = None
    limit: int = 1_000
    page_token: str | None = None


class FeedParameters(ChangeFilter, frozen=True, kw_only=True):
    """Where a feed of changes starts: `cursor` of an earlier page, or `start` (`now`, `beginning`, `after:ID`).

    `wait`: how many seconds to wait for a commit if there is none.
    """

    branch: str = "main"
    cursor: str | None = None
    start: str | None = None
    wait: float | None = None


class DiffParameters(ChangeFilter, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """The two branches or commits to compare."""

    before: str
    after: str
