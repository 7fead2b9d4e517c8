"""Serves what a cluster has applied: reads the ledger, opens its graphs, and follows it while the server runs.

In: the root of a cluster. Out: a `ServedRevision` per revision of the ledger. A graph that cannot be served is
quarantined; a damaged policy, or no graph that can be served, rejects the whole revision. A revision that is rejected
while the server runs is logged, and the old one is kept. Nothing here applies anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from omnigraph.base.errors import MachineError, OmnigraphError, UsageError
from omnigraph.client.local import LocalGraph
from omnigraph.cluster.addressing import require_ledger
from omnigraph.cluster.config import SERVER_SCOPE
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.cluster.observe import graph_location
from omnigraph.cluster.serving import find_applied_provider, read_policy_of, read_stored_query, stored_queries
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.policy.cedar import CompiledPolicy
from omnigraph.query.lint import lint_queries
from omnigraph.schema.catalog import Catalog
from omnigraph.server.boot import AccessState
from omnigraph.server.gate import AccessGate, ActionGate, ListingGate, PolicyActionGate
from omnigraph.server.health import HealthCache
from omnigraph.server.logs import log_event
from omnigraph.server.served import QuarantinedGraph, ServedGraph, ServedRevision, StoredQuery
from omnigraph.storage.location import Location
from omnigraph.wire.service import StoredQueryOutput, query_parameter

OPENED_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSettings:
    """How the graphs of a cluster are served."""

    store: LedgerStore
    open_graph: Callable[[Location, str], LocalGraph]
    """Opens a graph for an id, and finishes interrupted writes."""
    decide_state: Callable[[bool], AccessState]
    """Returns the state of the server, with policies or without."""
    access: AccessState
    """What a token may do with a graph without a policy."""
    check_health: Callable[[LocalGraph], HealthCache]
    environment: Mapping[str, str]
    requires_all_graphs: bool


class Deployment:
    """What is served now, and the newest revision of the ledger."""

    def __init__(self, settings: DeploymentSettings) -> None:
        self._settings = settings
        self._changed = threading.Event()
        ledger = require_ledger(settings.store)
        self._applied = ledger.state_revision
        self._rejection: tuple[int, str] | None = None
        self._current = make_revision(settings, ledger, is_boot=True)

    def current(self) -> ServedRevision:
        """Return what is served."""
        return self._current

    def applied_revision(self) -> int:
        """Return the newest revision of the ledger that was read."""
        return self._applied

    def follow(self, interval_seconds: float) -> None:
        """Read the ledger at an interval and after SIGHUP, in a thread that ends with the process."""

        def run() -> None:
            while True:
                self._changed.wait(interval_seconds or None)
                self._changed.clear()
                self.read_again()

        threading.Thread(target=run, name="omnigraph-ledger", daemon=True).start()

    def notice(self, *_: object) -> None:
        """Read the ledger soon: the handler of a signal must not do it itself."""
        self._changed.set()

    def read_again(self) -> None:
        """Serve the newest revision of the ledger; keep the old one if that cannot be served.

        A rejected revision is tried again each time: what it lacks can be restored without a new one. It is logged
        again only if the reason differs.
        """
        try:
            self._read_ledger()
        except OmnigraphError as error:
            self._reject(error.render())
        except Exception as error:  # the thread that follows the ledger must not end
            log_event("revision not served", error=error, revision=self._applied)
        else:
            self._rejection = None

    def _reject(self, reason: str) -> None:
        if self._rejection != (self._applied, reason):
            log_event("revision not served", revision=self._applied, reason=reason)
        self._rejection = (self._applied, reason)

    def _read_ledger(self) -> None:
        is_current = self._settings.store.newest_revision() == self._current.revision
        if is_current and not self._current.quarantined:
            return
        ledger = require_ledger(self._settings.store)
        if ledger.state_revision == self._current.revision:
            self._current = retry_quarantined(self._settings, ledger, self._current)
            return
        self._applied = ledger.state_revision
        self._current = make_revision(self._settings, ledger)
        log_event("revision served", revision=ledger.state_revision, graphs=len(self._current.graphs))


def make_revision(settings: DeploymentSettings, ledger: Ledger, *, is_boot: bool = False) -> ServedRevision:
    """Return what a revision of the ledger serves; raise if it cannot be served."""
    store = settings.store
    policies = {scope: read_policy_of(store, ledger, scope) for scope in (SERVER_SCOPE, *ledger.graph_ids)}
    state = settings.decide_state(any(policy is not None for policy in policies.values()))
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        make = partial(_make_graph, settings, ledger, state, policies)
        outcomes = dict(zip(ledger.graph_ids, pool.map(make, ledger.graph_ids), strict=True))
    graphs = {graph_id: item for graph_id, item in outcomes.items() if isinstance(item, ServedGraph)}
    quarantined = {graph_id: item for graph_id, item in outcomes.items() if isinstance(item, QuarantinedGraph)}
    if quarantined and (not graphs or (is_boot and settings.requires_all_graphs)):
        reasons = "; ".join(f"{graph_id}: {graph.message}" for graph_id, graph in sorted(quarantined.items()))
        raise MachineError(
            f"{len(quarantined)} of {len(outcomes)} graphs cannot be served: {reasons}",
            code="graphs_unavailable",
            hint="Correct the graphs or their files, then run `omnigraph cluster apply`.",
            facts={"graphs": list(quarantined)},
        )
    for graph_id, graph in quarantined.items():
        log_event("graph quarantined", graph=graph_id, code=graph.code, reason=graph.message)
    is_open = state is AccessState.OPEN
    return ServedRevision(
        graphs=graphs,
        state=state,
        server_gate=None if is_open else ListingGate(policies[SERVER_SCOPE]),
        quarantined=quarantined,
        revision=ledger.state_revision,
    )


def retry_quarantined(settings: DeploymentSettings, ledger: Ledger, served: ServedRevision) -> ServedRevision:
    """Return a revision with those of its quarantined graphs that can be served now; the other graphs are kept."""
    policies = {graph_id: read_policy_of(settings.store, ledger, graph_id) for graph_id in served.quarantined}
    graphs, quarantined = dict(served.graphs), dict(served.quarantined)
    for graph_id, before in served.quarantined.items():
        outcome = _make_graph(settings, ledger, served.state, policies, graph_id)
        if isinstance(outcome, ServedGraph):
            graphs[graph_id] = outcome
            del quarantined[graph_id]
            log_event("graph served", graph=graph_id, revision=served.revision)
        elif (outcome.code, outcome.message) != (before.code, before.message):
            quarantined[graph_id] = outcome
            log_event("graph quarantined", graph=graph_id, code=outcome.code, reason=outcome.message)
    return replace(served, graphs=dict(sorted(graphs.items())), quarantined=quarantined)


def _make_graph(
    settings: DeploymentSettings,
    ledger: Ledger,
    state: AccessState,
    policies: Mapping[str, CompiledPolicy | None],
    graph_id: str,
) -> ServedGraph | QuarantinedGraph:
    policy = policies[graph_id]
    location = graph_location(settings.store.root, graph_id)
    gate = _make_gate(settings, state, policy, location)
    try:
        graph = settings.open_graph(location, graph_id)
        provider = _find_provider(settings, ledger, graph_id)
        catalog = read_snapshot(location, MAIN).schema.catalog
        queries = {
            name: _read_query(settings.store, ledger, graph_id, name, catalog)
            for name in stored_queries(ledger, graph_id)
        }
    except OmnigraphError as error:
        return QuarantinedGraph(error.code, error.message, gate, location.uri)
    graph = graph if provider is None else graph.with_provider(provider)
    return ServedGraph(graph=graph, gate=gate, health=settings.check_health(graph), queries=queries)


def _make_gate(
    settings: DeploymentSettings, state: AccessState, policy: CompiledPolicy | None, location: Location
) -> ActionGate:
    if policy is None:
        return AccessGate(state if state is AccessState.OPEN else settings.access)

    def list_branches() -> list[str]:
        return sorted(read_snapshot(location, MAIN).state.branches)

    return PolicyActionGate(lambda: policy, list_branches)


def _find_provider(settings: DeploymentSettings, ledger: Ledger, graph_id: str) -> ConfiguredProvider | None:
    provider = find_applied_provider(ledger, graph_id, settings.environment)
    variable = None if provider is None else provider.settings.key_variable
    if variable is not None and not settings.environment.get(variable, "").strip():
        raise MachineError(
            f"the embedding provider of graph '{graph_id}' needs the variable {variable}, which is not set",
            code="embedding_key_missing",
            hint=f"Set {variable} for the server.",
        )
    return provider


def _read_query(store: LedgerStore, ledger: Ledger, graph_id: str, name: str, catalog: Catalog) -> StoredQuery:
    text = read_stored_query(store, ledger, graph_id, name)
    report = lint_queries([(f"query.{graph_id}.{name}", text)], catalog)
    shape = next((shape for shape in report.queries if shape.name == name), None)
    if shape is None or not report.is_valid:
        reason = report.errors[0].message if report.errors else "its file does not declare it"
        raise UsageError(
            f"the stored query '{name}' does not fit the schema: {reason}",
            code="query_invalid",
            hint="Correct the file, then run `omnigraph cluster apply`.",
        )
    parameters = [
        query_parameter(parameter.name, parameter.type, nullable=parameter.nullable) for parameter in shape.parameters
    ]
    description = StoredQueryOutput(
        name=name, tool_name=name, mutation=shape.is_mutation, params=parameters, description=shape.description
    )
    return StoredQuery(text, description)
