"""Nodes and edges as a NetworkX graph.

In: a query that returns nodes and edges, or types. Out: a `networkx.MultiDiGraph`. A node and the key of an edge are
`(type, id)`, because an id is unique only within its type; the attributes are the properties that are not null, without
blobs and vectors. NetworkX is not installed with Omnigraph. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.api.arguments import query_source, read_names
from omnigraph.base.errors import MachineError, UsageError
from omnigraph.engine.prepare import find_planner
from omnigraph.query.plan.types import EntityValueType
from omnigraph.schema.catalog import Catalog, EdgeType, Entity

if TYPE_CHECKING:
    from omnigraph.api.results import Result
    from omnigraph.graph.manifest.snapshot import Snapshot

RunQuery = Callable[[str, Mapping[str, object] | None], "Result"]


def make_networkx_graph(
    snapshot: Snapshot, selection: str | Iterable[str] | None, params: Mapping[str, object] | None, run: RunQuery
) -> Any:
    """Return what a query text returns, or all rows of types. `run` runs a query on the snapshot."""
    try:
        import networkx
    except ImportError as missing:
        raise MachineError(
            "NetworkX is not installed", code="networkx_missing", hint="Install the package `networkx`."
        ) from missing
    catalog = snapshot.schema.catalog
    if isinstance(selection, str):
        queries = [(selection, params)]
    else:
        types = catalog.select_types(read_names("selection", selection))
        queries = [(_query_of_type(entity), None) for entity in types]
    graph = networkx.MultiDiGraph()
    for text, values in queries:
        plan = find_planner(query_source(text, None)).bound_plan(snapshot, values)
        columns = {
            field.name: catalog.require_type(f"{field.type.kind.value}:{field.type.name}")
            for field in plan.outputs
            if isinstance(field.type, EntityValueType)
        }
        if not columns:
            names = ", ".join(field.name for field in plan.outputs)
            raise UsageError(
                f"expected a query that returns nodes or edges, got the columns {names}",
                code="result_shape",
                hint="Return the variables themselves, as in `return { $a, $e, $b }`.",
            )
        for row in run(text, values):
            for name, entity in columns.items():
                if row[name] is not None:
                    _add(graph, catalog, entity, row[name])
    return graph


def _query_of_type(entity: Entity) -> str:
    if isinstance(entity, EdgeType):
        edge = entity.name[0].lower() + entity.name[1:]
        return f"query edges() {{ match {{ $a $e:{edge} $b }} return {{ $e }} }}"
    return f"query nodes() {{ match {{ $n: {entity.name} }} return {{ $n }} }}"


def _add(graph: Any, catalog: Catalog, entity: Entity, row: Mapping[str, Any]) -> None:
    properties = {name: value for name, value in row.items() if not name.startswith("@")}
    key = (entity.name, row["@id"])
    if isinstance(entity, EdgeType):
        source = (catalog.source_of(entity).name, row["@from"])
        target = (catalog.target_of(entity).name, row["@to"])
        graph.add_edges_from([(source, target, key, properties)])
    else:
        graph.add_nodes_from([(key, properties)])
