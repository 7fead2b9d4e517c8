"""What must change so that what is deployed is what the files declare. Pure: values in, changes out.

A graph is never deleted without an approval, and an unsupported schema blocks only its own graph. `apply` executes the
changes; `plan` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from omnigraph.cluster.ledger import AppliedResource, Ledger
from omnigraph.cluster.observe import GraphObservation, Observations
from omnigraph.cluster.resources import DesiredState, Resource, graph_of
from omnigraph.wire.cluster import ApprovalOutput, PlannedChangeOutput, ResourceStatus

APPLIED: Final = "applied"
BLOCKED: Final = "blocked"
FAILED: Final = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The changes in the order of their addresses, the approvals that they need, and the state of drifted resources."""

    changes: tuple[PlannedChangeOutput, ...]
    approvals: tuple[ApprovalOutput, ...]
    drift: Mapping[str, ResourceStatus]


def make_plan(desired: DesiredState, ledger: Ledger | None, observed: Observations) -> ClusterPlan:
    """Return what must change."""
    applied = {} if ledger is None else dict(ledger.resources)
    planner = _Planner(desired, applied, observed)
    changes = block_used(
        [*planner.graph_changes(), *planner.shared_changes(), *planner.removed_graphs()], applied, desired
    )
    approvals = [
        ApprovalOutput(
            resource=change.resource,
            reason="graph_delete",
            satisfied=graph_of(change.resource) in observed.approved_graphs,
        )
        for change in changes
        if change.operation == "delete" and change.resource.startswith("graph.")
    ]
    return ClusterPlan(
        changes=tuple(changes), approvals=tuple(approvals), drift=find_drift(applied, observed, desired.resources)
    )


def block_used(
    changes: Iterable[PlannedChangeOutput], applied: Mapping[str, AppliedResource], desired: DesiredState
) -> list[PlannedChangeOutput]:
    """Block each change that needs what a blocked one leaves.

    A graph that is not deleted keeps its policy and its provider. A scope has one policy: while a blocked change leaves
    a policy on its scopes, no other one can apply to them. A new graph waits for its policy: without one everyone could
    use it.
    """
    changes = list(changes)
    while True:  # each blocked change can block others
        rest = [change for change in changes if change.disposition != APPLIED]
        needed = _find_needed(rest, applied, desired)
        blocked = [change for change in changes if change.disposition == APPLIED and needed(change.resource)]
        if not blocked:
            return changes
        changes = [_block(change, "dependency_not_applied") if change in blocked else change for change in changes]


def _find_needed(
    rest: Iterable[PlannedChangeOutput], applied: Mapping[str, AppliedResource], desired: DesiredState
) -> Callable[[str], bool]:
    """Return whether the change of a resource needs what the changes that are not applied would have changed."""
    addresses = {change.resource for change in rest}
    kept_graphs = {item.resource[6:] for item in rest if item.operation == "delete" and item.resource[:6] == "graph."}
    providers = {applied[address].embedding_provider for address in addresses if address in applied}
    policies = [address for address in addresses if address.startswith("policy.")]

    def scopes(resources: Mapping[str, AppliedResource] | Mapping[str, Resource], address: str) -> set[str]:
        return set(resources[address].applies_to or ()) if address in resources else set()

    taken = {scope for address in policies for scope in scopes(applied, address)}
    waiting = {scope for address in policies for scope in scopes(desired.resources, address)}

    def is_needed(address: str) -> bool:
        if address.startswith("provider."):
            return address in providers and address not in desired.resources
        if address.startswith("policy."):
            before, after = scopes(applied, address), scopes(desired.resources, address)
            return not kept_graphs.isdisjoint(before - after) or not taken.isdisjoint(after)
        graph_id = graph_of(address)
        return graph_id in waiting and f"graph.{graph_id}" not in applied

    return is_needed


def find_drift(
    applied: Mapping[str, AppliedResource], observed: Observations, desired: Mapping[str, Resource] | None = None
) -> dict[str, ResourceStatus]:
    """Return the state of deployed resources that are not what the ledger says."""
    drift: dict[str, ResourceStatus] = {}
    for address, reason in observed.damaged.items():
        drift[address] = ResourceStatus(status="drifted", conditions=[reason])
    for graph_id, observation in observed.graphs.items():
        address = f"graph.{graph_id}"
        entry = applied.get(address)
        if observation.error is not None:
            drift[address] = ResourceStatus(
                status="error", conditions=["graph_observation_error"], message=observation.error
            )
        elif entry is not None and not observation.exists:
            drift[address] = ResourceStatus(status="drifted", conditions=["graph_missing"])
        elif entry is not None and entry.first_commit_id != observation.first_commit_id:
            drift[address] = ResourceStatus(status="drifted", conditions=["graph_replaced"])
        elif entry is not None and _is_schema_drifted(applied, graph_id, observation, desired):
            drift[f"schema.{graph_id}"] = ResourceStatus(status="drifted", conditions=["schema_drifted"])
    return drift


def _is_schema_drifted(
    applied: Mapping[str, AppliedResource],
    graph_id: str,
    observation: GraphObservation,
    desired: Mapping[str, Resource] | None,
) -> bool:
    entry = applied.get(f"schema.{graph_id}")
    declared = None if desired is None else desired.get(f"schema.{graph_id}")
    if entry is None:
        return False
    if declared is None:
        return entry.digest != observation.schema_digest
    is_declared = entry.digest == declared.digest
    return is_declared and observation.migration is not None and observation.migration.is_needed


@dataclass(frozen=True, slots=True)
class _Planner:
    desired: DesiredState
    applied: Mapping[str, AppliedResource]
    observed: Observations

    def graph_changes(self) -> Iterator[PlannedChangeOutput]:
        for graph_id in self.desired.graph_ids:
            observation = self.observed.graphs[graph_id]
            schema = self._schema_change(graph_id, observation)
            graph = self._graph_change(graph_id, observation)
            queries = list(self._differences("query", graph_id))
            if observation.error is not None:
                blocked = [change for change in (graph, schema, *queries) if change is not None]
                yield from (_block(change, "graph_observation_error") for change in blocked)
                continue
            is_blocked = schema is not None and schema.disposition == BLOCKED
            if graph is not None:
                yield _block(graph, "dependency_not_applied") if is_blocked else graph
            if schema is not None:
                yield schema
            yield from (_block(change, "dependency_not_applied") if is_blocked else change for change in queries)

    def shared_changes(self) -> Iterator[PlannedChangeOutput]:
        yield from self._differences("provider", None)
        yield from self._differences("policy", None)

    def removed_graphs(self) -> Iterator[PlannedChangeOutput]:
        for graph_id in self._removed():
            reason = self._delete_obstacle(graph_id)
            for address in sorted(self.applied, key=lambda address: (not address.startswith("graph."), address)):
                if graph_of(address) == graph_id:
                    change = PlannedChangeOutput(
                        resource=address,
                        operation="delete",
                        disposition=APPLIED,
                        before_digest=self.applied[address].digest,
                    )
                    yield change if reason is None else _block(change, reason)

    def _removed(self) -> list[str]:
        """Return the deployed graphs that are no longer declared."""
        graphs = [address[6:] for address in sorted(self.applied) if address.startswith("graph.")]
        return [graph_id for graph_id in graphs if graph_id not in self.desired.graph_ids]

    def _delete_obstacle(self, graph_id: str) -> str | None:
        if self.observed.graphs[graph_id].error is not None:
            return "graph_observation_error"
        return None if graph_id in self.observed.approved_graphs else "approval_required"

    def _graph_change(self, graph_id: str, observation: GraphObservation) -> PlannedChangeOutput | None:
        address = f"graph.{graph_id}"
        before, after = self.applied.get(address), self.desired.resources[address]
        if before is None:
            return _change(after, None, "create", "root_exists" if observation.exists else None)
        if not observation.exists:
            return _change(after, before, "create", "graph_missing")
        if observation.first_commit_id not in (None, before.first_commit_id):
            return _change(after, before, "update", "graph_replaced", is_metadata=before.digest == after.digest)
        if before.digest != after.digest or before.embedding_provider != after.embedding_provider:
            return _change(after, before, "update", None)
        return None

    def _schema_change(self, graph_id: str, observation: GraphObservation) -> PlannedChangeOutput | None:
        address = f"schema.{graph_id}"
        before, after = self.applied.get(address), self.desired.resources[address]
        migration = observation.migration if observation.migration and observation.migration.is_needed else None
        if before is None or not observation.exists:
            change = _change(after, before, "create", _create_reason(before, observation))
        elif migration is not None:
            change = _change(after, before, "update", "schema_drifted" if before.digest == after.digest else None)
        elif before.digest != after.digest:
            change = _change(after, before, "update", None)
        else:
            return None
        if migration is None:
            return change
        change = msgspec.structs.replace(change, migration=migration)
        return change if migration.supported else _block(change, "schema_unsupported")

    def _differences(self, kind: str, graph_id: str | None) -> Iterator[PlannedChangeOutput]:
        declared = {
            address: item
            for address, item in self.desired.resources.items()
            if item.kind == kind and item.graph == graph_id
        }
        deployed = {
            address: item
            for address, item in self.applied.items()
            if address.startswith(f"{kind}.") and graph_of(address) == graph_id
        }
        for address in sorted({*declared, *deployed}):
            before, after = deployed.get(address), declared.get(address)
            if after is None:
                assert before is not None
                yield PlannedChangeOutput(
                    resource=address, operation="delete", disposition=APPLIED, before_digest=before.digest
                )
            elif before is None:
                yield _change(after, None, "create", None)
            elif before.digest != after.digest or address in self.observed.damaged:
                yield _change(after, before, "update", self.observed.damaged.get(address))
            elif list(after.applies_to) != (before.applies_to or []):
                yield _change(after, before, "update", None, is_metadata=True)


def _create_reason(before: AppliedResource | None, observation: GraphObservation) -> str | None:
    if before is not None:
        return "graph_missing"
    return "root_exists" if observation.exists else None


def _change(
    after: Resource, before: AppliedResource | None, operation: str, reason: str | None, *, is_metadata: bool = False
) -> PlannedChangeOutput:
    return PlannedChangeOutput(
        resource=after.address,
        operation=operation,
        disposition=APPLIED,
        reason=reason,
        before_digest=None if before is None else before.digest,
        after_digest=after.digest,
        metadata_change=is_metadata,
    )


def _block(change: PlannedChangeOutput, reason: str) -> PlannedChangeOutput:
    return msgspec.structs.replace(change, disposition=BLOCKED, reason=reason)
