"""What a server serves at one time: graphs with their gates and stored queries. One immutable value per revision.

A request takes the current value once and keeps it, so that a new revision never changes a running request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.base.errors import ErrorKind
from omnigraph.server.errors import RequestError
from omnigraph.server.gate import may_list

if TYPE_CHECKING:
    from omnigraph.client.local import LocalGraph
    from omnigraph.server.boot import AccessState
    from omnigraph.server.gate import ActionGate, ListingGate
    from omnigraph.server.health import HealthCache
    from omnigraph.wire.service import StoredQueryOutput


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A deployed query: the text of its file, and what a caller must know about it."""

    text: str
    description: StoredQueryOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """A graph, who may use it, its last check, and its stored queries by name."""

    graph: LocalGraph
    gate: ActionGate
    health: HealthCache
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuarantinedGraph:
    """A graph that cannot be served, why, and who may know that it exists."""

    code: str
    message: str
    gate: ActionGate
    location: str
    """Where it is stored, which no response may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRevision:
    """The graphs of a server by id, its state, and who may list its graphs. `revision` is 0 without a cluster."""

    graphs: Mapping[str, ServedGraph]
    state: AccessState
    server_gate: ListingGate | None = None
    """Decides who may list the graphs; None: everyone."""
    quarantined: Mapping[str, QuarantinedGraph] = field(default_factory=dict)
    revision: int = 0

    def addresses(self) -> dict[str, str]:
        """Return the address on the server of each location, which no response may show."""
        return {served.graph.graph.location.uri: served.graph.uri for served in self.graphs.values()}

    def find(self, graph_id: str, actor: str) -> ServedGraph:
        """Return a graph; raise if the server does not have it, or cannot serve it to an actor that may read it."""
        if graph_id in self.graphs:
            return self.graphs[graph_id]
        quarantined = self.quarantined.get(graph_id)
        if quarantined is not None and may_list(quarantined.gate, actor):
            raise RequestError(
                f"the graph '{graph_id}' cannot be served: {quarantined.code}",
                code="graph_unavailable",
                kind=ErrorKind.UNAVAILABLE,
                hint="The log of the server has the reason. Correct the graph or its files, then run `cluster apply`.",
                facts={"graph": graph_id},
            )
        raise RequestError(
            f"the server has no graph '{graph_id}'",
            code="graph_missing",
            kind=ErrorKind.NOT_FOUND,
            hint="Send `GET /graphs` for the graphs of the server.",
            facts={"graph": graph_id},
        )


def missing_query() -> RequestError:
    """Return the error for a stored query that does not exist, or that a caller must not know: the same for both."""
    return RequestError(
        "the graph has no such stored query",
        code="query_not_stored",
        kind=ErrorKind.NOT_FOUND,
        hint="Send `GET /graphs/{graph_id}/queries` for its stored queries.",
    )
