"""Apply: makes what is deployed equal to what the files declare. The only operation of a cluster that changes graphs.

Order: graphs are created, schemas changed, resources stored, approved graphs deleted, then one object of the ledger is
created. Every step can be repeated and the plan inspects the live graphs, so after a crash at any point the next
apply continues. Before each operation on a graph the ledger must still be the one of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from omnigraph.base.authorization import AccessAction, AccessDeniedError, Authority
from omnigraph.base.diagnostics import Diagnostic
from omnigraph.base.errors import OmnigraphError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.cluster.ledger import (
    AppliedResource,
    AppliedRevision,
    Ledger,
    LedgerConflictError,
    LedgerStore,
    next_ledger,
)
from omnigraph.cluster.observe import graph_location, observe, observe_graph
from omnigraph.cluster.plan import APPLIED, BLOCKED, FAILED, ClusterPlan, block_used, make_plan
from omnigraph.cluster.resources import DesiredState, Resource, graph_of, stored_path
from omnigraph.cluster.serving import AppliedGate
from omnigraph.graph.create import NewGraph, create_graph
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.maintenance.delete_graph import delete_graph
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.pipeline.runner import RunTasks
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.wire.cluster import PlannedChangeOutput, ResourceStatus

EMPTY_REVISION: Final = AppliedRevision(config_digest=None, resources={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What an apply did: each change with its outcome, the ledger after it, and whether it wrote that."""

    changes: tuple[PlannedChangeOutput, ...]
    ledger: Ledger
    is_written: bool
    is_converged: bool
    diagnostics: tuple[Diagnostic, ...]


def apply_cluster(store: LedgerStore, desired: DesiredState, actor: str, run_tasks: RunTasks) -> ApplyResult:
    """Change what is deployed; raise if another apply was first."""
    ledger = store.read_newest() or _create_first(store, desired, actor)
    plan = make_plan(desired, ledger, observe(store, ledger, desired))
    run = _ApplyRun(
        store=store,
        desired=desired,
        ledger=ledger,
        actor=actor,
        run_tasks=run_tasks,
        changes={change.resource: change for change in plan.changes},
    )
    run.create_graphs()
    run.change_schemas()
    run.store_resources()
    run.delete_graphs()
    return run.record(plan)


def _create_first(store: LedgerStore, desired: DesiredState, actor: str) -> Ledger:
    """Create the first object of the ledger, empty, so that a killed apply can be repeated."""
    existing = [graph_id for graph_id, item in observe(store, None, desired).graphs.items() if item.exists]
    if existing:
        raise state_missing(f"the cluster has no ledger, but the graph '{existing[0]}' exists", "cluster import")
    ledger = next_ledger(None, actor, EMPTY_REVISION, {})
    store.append(ledger)
    return ledger


def state_missing(problem: str, command: str) -> RefusedError:
    """Return the error for a cluster without a ledger."""
    return RefusedError(problem, code="state_missing", hint=f"Nothing was changed. Run `omnigraph {command}` first.")


@dataclass(slots=True, kw_only=True)
class _ApplyRun:
    store: LedgerStore
    desired: DesiredState
    ledger: Ledger
    actor: str
    run_tasks: RunTasks
    changes: dict[str, PlannedChangeOutput]
    messages: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    has_failed: bool = False

    def create_graphs(self) -> None:
        for change in self._changes("graph.", "create"):
            if change.reason != "root_exists":
                self._operate(change.resource, self._create_graph)

    def change_schemas(self) -> None:
        for change in [*self._changes("schema.", "create"), *self._changes("schema.", "update")]:
            if change.migration is not None:
                self._operate(change.resource, self._change_schema)

    def store_resources(self) -> None:
        for change in self.changes.values():
            resource = self.desired.resources.get(change.resource)
            if change.disposition != APPLIED or resource is None:
                continue
            path = stored_path(resource.address, resource.digest)
            if path is not None:
                self._store(path, resource.content)

    def delete_graphs(self) -> None:
        for change in self._changes("graph.", "delete"):
            self._operate(change.resource, self._delete_graph)
        # A graph whose operation failed or was denied keeps what it uses.
        changes = block_used(self.changes.values(), self.ledger.resources, self.desired)
        self.changes = {change.resource: change for change in changes}

    def record(self, plan: ClusterPlan) -> ApplyResult:
        """Create the next object of the ledger, unless nothing differs from the current one."""
        resources = self._new_resources()
        statuses = self._new_statuses(plan, resources)
        is_converged = all(status.status == "applied" for status in statuses.values())
        digest = self.desired.config_digest if is_converged else None
        revision = AppliedRevision(config_digest=digest, resources=resources)
        is_written = revision != self.ledger.applied_revision or statuses != self.ledger.resource_statuses
        ledger = self.ledger
        if is_written:
            self.store.require_revision(ledger.state_revision)
            ledger = next_ledger(ledger, self.actor, revision, statuses)
            self.store.append(ledger)
            self.store.delete_old()
        return ApplyResult(
            changes=tuple(self.changes.values()),
            ledger=ledger,
            is_written=is_written,
            is_converged=is_converged,
            diagnostics=tuple(self.diagnostics),
        )

    def _changes(self, prefix: str, operation: str) -> list[PlannedChangeOutput]:
        return [
            change
            for change in self.changes.values()
            if change.disposition == APPLIED and change.operation == operation and change.resource.startswith(prefix)
        ]

    def _operate(self, address: str, operation: Callable[[str], None]) -> None:
        """Run one operation on a graph. After a failed one no further one starts."""
        graph_id = graph_of(address)
        assert graph_id is not None
        if self.has_failed:
            self._fail(graph_id, address, BLOCKED, "earlier_operation_failed")
            return
        self.store.require_revision(self.ledger.state_revision)
        try:
            operation(graph_id)
        except LedgerConflictError:
            raise
        except AccessDeniedError as error:
            self.messages[address] = error.message
            self._fail(graph_id, address, BLOCKED, "policy_denied")
        except OmnigraphError as error:
            self.has_failed = True
            self.messages[address] = error.render()
            self.diagnostics.append(Diagnostic(code=error.code, path=address, message=error.render()))
            self._fail(graph_id, address, FAILED, error.code)

    def _fail(self, graph_id: str, address: str, disposition: str, reason: str) -> None:
        """Mark a change as not applied, and every other change of its graph as blocked by it."""
        for other, change in self.changes.items():
            if other == address:
                self.changes[other] = msgspec.structs.replace(change, disposition=disposition, reason=reason)
            elif graph_of(other) == graph_id and change.disposition == APPLIED:
                self.changes[other] = msgspec.structs.replace(
                    change, disposition=BLOCKED, reason="dependency_not_applied"
                )

    def _create_graph(self, graph_id: str) -> None:
        resource = self.desired.resources[f"schema.{graph_id}"]
        text = resource.content.decode()
        catalog = build_catalog(parse_schema(text, resource.path or "<schema>"))
        failpoint(Failpoint.CLUSTER_CREATE_BEFORE)
        create_graph(graph_location(self.store.root, graph_id), NewGraph(text, catalog, self.actor))

    def _change_schema(self, graph_id: str) -> None:
        self._require_schema_rights(graph_id)
        resource = self.desired.resources[f"schema.{graph_id}"]
        location = graph_location(self.store.root, graph_id)
        request = SchemaRequest(
            source=resource.content.decode(), actor=self.actor, source_name=resource.path or "<schema>"
        )
        failpoint(Failpoint.CLUSTER_SCHEMA_BEFORE)
        recover_on_open(location, MAIN)
        apply_schema(location, MAIN, request, self.run_tasks)

    def _delete_graph(self, graph_id: str) -> None:
        self._require_schema_rights(graph_id)
        delete_graph(graph_location(self.store.root, graph_id))

    def _require_schema_rights(self, graph_id: str) -> None:
        """Ask the deployed policy of the graph, never the new one."""
        gate = AppliedGate(self.store, self.ledger, graph_id)
        gate.check(Authority(action=AccessAction.SCHEMA_APPLY, target=MAIN), self.actor)

    def _store(self, path: str, content: bytes) -> None:
        """Store a resource. What has its path but not its content is damaged, and is replaced."""
        objects = self.store.objects
        failpoint(Failpoint.CLUSTER_RESOURCE_BEFORE)
        if not objects.create(path, content):
            failpoint(Failpoint.CLUSTER_REPLACE_BEFORE)
            objects.delete(path)
            failpoint(Failpoint.CLUSTER_RESOURCE_BEFORE)
            objects.create(path, content)

    def _new_resources(self) -> dict[str, AppliedResource]:
        resources = dict(self.ledger.resources)
        for address, change in self.changes.items():
            if change.disposition != APPLIED:
                continue
            if change.operation == "delete":
                resources.pop(address, None)
            else:
                resources[address] = self._applied(self.desired.resources[address])
        return dict(sorted(resources.items()))

    def _applied(self, resource: Resource) -> AppliedResource:
        first_commit = None
        if resource.kind == "graph" and resource.graph is not None:
            first_commit = observe_graph(graph_location(self.store.root, resource.graph), None).first_commit_id
        profile = resource.embedding_profile
        return AppliedResource(
            digest=resource.digest,
            applies_to=list(resource.applies_to) or None,
            embedding_provider=resource.embedding_provider,
            embedding_profile=None if profile is None else dict(profile),
            first_commit_id=first_commit,
        )

    def _new_statuses(self, plan: ClusterPlan, resources: Mapping[str, AppliedResource]) -> dict[str, ResourceStatus]:
        statuses = {address: ResourceStatus(status="applied") for address in resources}
        statuses |= {address: status for address, status in plan.drift.items() if status.status == "error"}
        for address, change in self.changes.items():
            if change.disposition != APPLIED:
                drift = plan.drift.get(address)
                reasons = [change.reason or "", *(() if drift is None else drift.conditions)]
                statuses[address] = ResourceStatus(
                    status=change.disposition,
                    conditions=list(dict.fromkeys(reasons)),
                    message=self.messages.get(address) or (None if drift is None else drift.message),
                )
        return dict(sorted(statuses.items()))
