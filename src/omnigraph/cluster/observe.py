"""Reads what is deployed: the live graphs and the stored resources. Nothing here writes.

A graph that cannot be read is an observation with an error, so that it blocks only its own changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph.base.errors import OmnigraphError
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.cluster.resources import DesiredState, digest_of, stored_path
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.schema_plan import plan_schema
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from omnigraph.wire.cluster import MigrationOutput, ObservationOutput
from omnigraph.wire.results import schema_plan_output

_INTERRUPTED_DELETE: Final = "if an apply was to delete it, remove it from the files, apply, and declare it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphObservation:
    """A graph as it was read. `migration` is what its schema needs to become the declared one."""

    exists: bool
    first_commit_id: str | None = None
    manifest_version: int | None = None
    schema_digest: str | None = None
    migration: MigrationOutput | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What is deployed: the graphs by id, the resources whose stored content is missing or altered, the approvals."""

    graphs: Mapping[str, GraphObservation]
    damaged: Mapping[str, str] = field(default_factory=dict)
    approved_graphs: frozenset[str] = frozenset()


def graph_location(root: Location, graph_id: str) -> Location:
    """Return where a graph of a cluster is stored."""
    return replace(root, uri=f"{root.uri}/graphs/{graph_id}.omni", root="")


def observe(store: LedgerStore, ledger: Ledger | None, desired: DesiredState | None) -> Observations:
    """Return the graphs that are declared or deployed, the damaged resources, and the valid approvals."""
    declared = () if desired is None else desired.graph_ids
    applied = () if ledger is None else ledger.graph_ids
    graphs = {
        graph_id: observe_graph(graph_location(store.root, graph_id), _schema_text(desired, graph_id))
        for graph_id in sorted({*declared, *applied})
    }
    removed = [] if desired is None else [graph_id for graph_id in applied if graph_id not in declared]
    approved = {graph_id for graph_id in removed if _is_approved(store, ledger, desired, graph_id, graphs[graph_id])}
    damaged = {} if ledger is None else find_damaged(store.objects, ledger)
    return Observations(graphs=graphs, damaged=damaged, approved_graphs=frozenset(approved))


def observe_graph(location: Location, schema: str | None) -> GraphObservation:
    """Return a graph as it is on main, and what its schema needs to become another one."""
    try:
        snapshot = read_snapshot(location, MAIN)
        migration = None if schema is None else _plan_migration(snapshot, schema)
        first_commit = read_first_commit(snapshot)
    except OmnigraphError as error:
        if error.code in ("graph_missing", "init_unfinished"):
            return GraphObservation(exists=False)
        if error.code in ("not_a_graph", "manifest_damaged") and not _has_version(location):
            if schema is None:
                return GraphObservation(exists=False)  # its deletion was interrupted
            return GraphObservation(exists=True, error=f"{error.message}; {_INTERRUPTED_DELETE}")
        return GraphObservation(exists=True, error=error.message)
    return GraphObservation(
        exists=True,
        first_commit_id=first_commit,
        manifest_version=snapshot.version,
        schema_digest=digest_of(snapshot.schema.source.encode()),
        migration=migration,
    )


def _has_version(location: Location) -> bool:
    entries = ObjectStore(location).list(f"{MANIFEST}/_versions")
    return any(entry.path.endswith(".manifest") for entry in entries)


def read_first_commit(snapshot: Snapshot) -> str:
    """Return the first commit of the graph, which identifies it."""
    return min(commit.id for commit in make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())


def find_damaged(objects: ObjectStore, ledger: Ledger) -> dict[str, str]:
    """Return the deployed resources whose stored content is missing or does not match its digest."""
    damaged: dict[str, str] = {}
    for address, resource in ledger.resources.items():
        path = stored_path(address, resource.digest)
        content = None if path is None else objects.read(path)
        if path is not None and content is None:
            damaged[address] = "resource_missing"
        elif content is not None and digest_of(content) != resource.digest:
            damaged[address] = "resource_altered"
    return damaged


def observation_output(observation: GraphObservation, applied_schema: str | None) -> ObservationOutput:
    """Return the document of an observation; the schema is compared with the deployed one."""
    if not observation.exists or observation.error is not None:
        return ObservationOutput(exists=observation.exists, error=observation.error)
    return ObservationOutput(
        exists=True,
        graph_manifest_version=observation.manifest_version,
        schema_matches=observation.schema_digest == applied_schema,
    )


def _schema_text(desired: DesiredState | None, graph_id: str) -> str | None:
    resource = None if desired is None else desired.resources.get(f"schema.{graph_id}")
    return None if resource is None else resource.content.decode()


def _plan_migration(snapshot: Snapshot, schema: str) -> MigrationOutput:
    document = schema_plan_output(plan_schema(snapshot, schema))
    return MigrationOutput(
        supported=document["can_apply"], steps=document["steps"], unsupported=document["unsupported"]
    )


def _is_approved(
    store: LedgerStore,
    ledger: Ledger | None,
    desired: DesiredState | None,
    graph_id: str,
    observation: GraphObservation,
) -> bool:
    assert ledger is not None
    assert desired is not None
    address = f"graph.{graph_id}"
    first_commit = approved_commit(ledger, graph_id, observation)
    return first_commit is not None and store.is_approved(desired.config_digest, address, first_commit)


def approved_commit(ledger: Ledger, graph_id: str, observation: GraphObservation) -> str | None:
    """Return the first commit of the graph that an approval is about: of the live one, or of the deleted one."""
    return observation.first_commit_id or ledger.resources[f"graph.{graph_id}"].first_commit_id
