"""Finds the graphs of a cluster: a directory or a root, and the id of a deployed graph, become a location and a gate.

Only the ledger is read, and of `cluster.yaml` only `storage`: a damaged resource or an invalid file does not prevent
the repair of a graph.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.api.graph import Graph
from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.cluster.config import CONFIG_FILE, parse_root, parse_storage
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.cluster.observe import graph_location
from omnigraph.cluster.serving import AppliedGate, find_applied_provider
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGraph:
    """A deployed graph: where it is stored, and the gate for writes of its data."""

    id: str
    location: Location
    store: LedgerStore
    ledger: Ledger

    @property
    def gate(self) -> AppliedGate:
        """The gate of its deployed policy; without one it allows everything."""
        return AppliedGate(self.store, self.ledger, self.id)

    def bind(self, graph: Graph) -> Graph:
        """Return the opened graph with its deployed policy and embedding provider."""
        return replace(graph, gate=self.gate, provider=self.find_provider(os.environ))

    def find_provider(self, environment: Mapping[str, str]) -> ConfiguredProvider | None:
        """Return its deployed embedding provider, or None. Its key is a variable of the environment."""
        return find_applied_provider(self.ledger, self.id, environment)


def find_root(address: str) -> Location:
    """Return the root of a cluster: of a directory with `cluster.yaml`, or the address itself if it is a URI."""
    if "://" in address:
        return parse_root(address)
    directory = Path(address)
    try:
        text = (directory / CONFIG_FILE).read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        root = parse_root(address)
        if LedgerStore(root).newest_revision():
            return root
        raise UsageError(
            f"'{address}' is not a cluster: it has no {CONFIG_FILE} and no ledger",
            code="cluster_missing",
            hint="Pass the directory of `cluster.yaml`, or the root of the cluster, such as s3://bucket/prefix.",
            facts={"cluster": address},
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"'{directory / CONFIG_FILE}' cannot be read: {error}", code="cluster_missing", hint="Check the file."
        ) from error
    return storage_root(directory, parse_storage(text))


def storage_root(directory: Path, storage: str | None) -> Location:
    """Return where a configuration stores ledger, resources and graphs. Default: in its own directory."""
    if storage is None:
        return parse_root(str(directory))
    return parse_root(storage if "://" in storage else str(directory / storage))


def require_ledger(store: LedgerStore) -> Ledger:
    """Return the current ledger; raise if nothing was applied."""
    ledger = store.read_newest()
    if ledger is None:
        raise NotFoundError(
            f"the cluster at {store.root} has no ledger: nothing was applied",
            code="state_missing",
            hint="Run `omnigraph cluster apply` first.",
            facts={"root": store.root.uri},
        )
    return ledger


def find_graphs(address: str, graph_id: str | None = None) -> tuple[ClusterGraph, ...]:
    """Return every deployed graph of a cluster, or the one of an id."""
    store = LedgerStore(find_root(address))
    ledger = require_ledger(store)
    if graph_id is not None and graph_id not in ledger.graph_ids:
        raise NotFoundError(
            f"the cluster has no graph '{graph_id}': {_listed(ledger)}",
            code="graph_not_applied",
            hint=hint("Pass one of them as {}.", Argument("graph_id", Placeholder("ID"))),
            facts={"graph": graph_id, "graphs": list(ledger.graph_ids)},
        )
    ids = ledger.graph_ids if graph_id is None else (graph_id,)
    return tuple(
        ClusterGraph(id=name, location=graph_location(store.root, name), store=store, ledger=ledger) for name in ids
    )


def find_graph(address: str, graph_id: str | None = None) -> ClusterGraph:
    """Return a deployed graph; without an id, the only one of the cluster."""
    graphs = find_graphs(address, graph_id)
    if len(graphs) != 1:
        ledger = require_ledger(LedgerStore(find_root(address)))
        raise UsageError(
            f"the cluster has {'no graph' if not graphs else 'several graphs'}: {_listed(ledger)}",
            code="graph_unnamed",
            hint=hint("Pass one of them as {}.", Argument("graph_id", Placeholder("ID"))),
            facts={"graphs": list(ledger.graph_ids)},
        )
    return graphs[0]


def _listed(ledger: Ledger) -> str:
    names = ", ".join(ledger.graph_ids)
    return f"applied are {names}" if names else "none is applied"
