"""The JSON documents about a server: its health, its graphs, and what a caller may do."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from omnigraph import __version__
from omnigraph.base.version import INTERNAL_SCHEMA_VERSION


class HealthOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That the server runs, and which release."""

    status: str
    version: str
    internal_schema_version: int
    source_version: str | None = None


class ReadinessOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server can answer requests. `status` is `serving` or `degraded`."""

    ready: bool
    status: str
    served_graph_count: int
    quarantined_graph_count: int
    applied_revision: int
    serving_revision: int


class GraphEntryOutput(msgspec.Struct, frozen=True):
    """A graph of a server."""

    graph_id: str
    uri: str


class QuarantinedGraphOutput(msgspec.Struct, frozen=True):
    """A graph that the server cannot serve, and why."""

    graph_id: str
    code: str
    message: str


class GraphListResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The graphs of a server, by id."""

    graphs: list[GraphEntryOutput]
    quarantined: list[QuarantinedGraphOutput] | None = None


class GraphActionsOutput(msgspec.Struct, frozen=True):
    """What a caller may do with a graph: for each action `none`, `some` or `all` of its branches."""

    graph_id: str
    actions: dict[str, str]


class WhoamiOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The caller. `state` is what the server allows: `open`, `read`, `write` or `policy`."""

    actor_id: str | None
    state: str
    graphs: list[GraphActionsOutput]


class LoginOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token: of which server and actor, and where. `actor_id` is null if the server was not asked."""

    server: str
    url: str
    actor_id: str | None
    path: str


class LogoutOutput(msgspec.Struct, frozen=True):
    """Whether the token of a server was deleted."""

    server: str
    deleted: bool


class ProfileOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A profile of the operator file. `scope_kind` is `server`, `cluster` or `store`; `error` is why it is invalid."""

    name: str
    scope_kind: str | None
    target: str | None
    default_graph: str | None
    active: bool
    valid: bool
    error: str | None


class ProfileListOutput(msgspec.Struct, frozen=True):
    """The operator file, and its profiles."""

    path: str
    profiles: list[ProfileOutput]


class CatalogOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The types of a state, the number of their entities, and their indexes."""

    graph_branch: str
    graph_commit_id: str
    schema_hash: str
    catalog: dict[str, Any]
    entity_counts: dict[str, int]
    indexes: list[dict[str, Any]]


def health_output() -> HealthOutput:
    """Return the document of this release."""
    return HealthOutput(status="ok", version=__version__, internal_schema_version=INTERNAL_SCHEMA_VERSION)


class QueryParameterOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parameter of a stored query."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None


class StoredQueryOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored query, and how to call it."""

    name: str
    tool_name: str
    mutation: bool
    params: list[QueryParameterOutput]
    description: str | None = None
    instruction: str | None = None


class QueriesCatalogOutput(msgspec.Struct, frozen=True):
    """The stored queries of a graph, by name."""

    queries: list[StoredQueryOutput]


_PARAMETER_KINDS: Final = {
    "String": "string",
    "Bool": "bool",
    "I32": "int",
    "U32": "int",
    "I64": "bigint",
    "U64": "bigint",
    "F32": "float",
    "F64": "float",
    "Date": "date",
    "DateTime": "datetime",
    "Blob": "blob",
}
_VECTOR: Final = re.compile(r"Vector\((\d+)\)")


def query_parameter(name: str, type_text: str, *, nullable: bool) -> QueryParameterOutput:
    """Return the document of a parameter of a type such as `I32`, `[String]` or `Vector(3)`; an enum is a string."""
    if type_text.startswith("["):
        item = _PARAMETER_KINDS.get(type_text.strip("[]"), "string")
        return QueryParameterOutput(name=name, kind="list", nullable=nullable, item_kind=item)
    vector = _VECTOR.fullmatch(type_text)
    if vector is not None:
        return QueryParameterOutput(name=name, kind="vector", nullable=nullable, vector_dim=int(vector[1]))
    return QueryParameterOutput(name=name, kind=_PARAMETER_KINDS.get(type_text, "string"), nullable=nullable)
