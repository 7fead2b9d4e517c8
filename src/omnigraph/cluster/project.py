"""`Cluster`: a directory of files and the ledger of what is deployed, as Python programs and commands use it.

Each method returns the document that its command prints with `--json`. Invalid files raise `InvalidFilesError` with
every problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.api.arguments import choose_actor
from omnigraph.api.graph import Graph
from omnigraph.base.clock import SYSTEM_CLOCK, format_timestamp
from omnigraph.base.diagnostics import Diagnostic, Diagnostics
from omnigraph.base.errors import RefusedError, UsageError
from omnigraph.cluster.addressing import find_graph, find_root, require_ledger, storage_root
from omnigraph.cluster.apply import apply_cluster
from omnigraph.cluster.config import CONFIG_FILE
from omnigraph.cluster.ledger import AppliedResource, AppliedRevision, ApprovalRecord, Ledger, LedgerStore, next_ledger
from omnigraph.cluster.observe import Observations, approved_commit, observation_output, observe
from omnigraph.cluster.plan import APPLIED, find_drift, make_plan
from omnigraph.cluster.resources import DesiredState, dependencies, graph_digest, read_desired, resource_outputs
from omnigraph.pipeline.spark.auto import AutoRunner, parse_runner
from omnigraph.wire import cluster as documents

if TYPE_CHECKING:
    from omnigraph.pipeline.runner import RunTasks


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster. `omnigraph.cluster` returns it."""

    address: str
    """The directory of its `cluster.yaml`, or its root, such as `s3://bucket/prefix`."""

    def graphs(self) -> tuple[str, ...]:
        """Return the ids of the deployed graphs.

        Example:
            >>> cluster.graphs()
            ('books',)
        """
        return require_ledger(self._store()).graph_ids

    def open(self, graph_id: str | None = None, *, branch: str = "main", actor: str | None = None) -> Graph:
        """Open a deployed graph. Writes of its data ask the deployed policy; its texts use the deployed provider.

        Args:
            graph_id: The graph. Default: the only one.
            branch: The branch to read and write.
            actor: Who writes unless a call names another. Default: the login name.

        Example:
            >>> cluster.open("books").types()
            ('node:Author', 'node:Book', 'edge:Wrote')
        """
        graph = find_graph(self.address, graph_id)
        return graph.bind(Graph(graph.location, branch=branch, actor=actor))

    def validate(self) -> documents.ClusterValidateOutput:
        """Check all files, and return the resources that they declare.

        Example:
            >>> cluster.validate().ok
            True
        """
        desired = self._read_files()
        return documents.ClusterValidateOutput(
            ok=True,
            config_dir=self.address,
            diagnostics=[],
            resources=resource_outputs(desired),
            dependencies=dependencies(desired),
        )

    def plan(self) -> documents.ClusterPlanOutput:
        """Return what `apply` would change. Nothing is written.

        Example:
            >>> cluster.plan().changes
            []
        """
        desired = self._read_files()
        store = self._store(desired)
        ledger = store.read_newest()
        plan = make_plan(desired, ledger, observe(store, ledger, desired))
        return documents.ClusterPlanOutput(
            ok=True,
            config_dir=self.address,
            diagnostics=documents.diagnostic_outputs(_drift_warnings(plan.drift)),
            desired_revision=documents.RevisionOutput(config_digest=desired.config_digest),
            changes=list(plan.changes),
            approvals_required=list(plan.approvals),
            **_revision(ledger),
        )

    def apply(self, *, actor: str | None = None, run_tasks: RunTasks | None = None) -> documents.ClusterApplyOutput:
        """Make what is deployed equal to what the files declare.

        A killed apply is completed by the next one. Changes that are blocked are part of the result.

        Args:
            actor: Who applies. Default: the login name.
            run_tasks: Runs the tasks of schema changes. Default: this process, or Spark for large tables.

        Example:
            >>> cluster.apply(actor="ada").converged
            True
        """
        desired = self._read_files()
        name = choose_actor(actor, None)
        result = apply_cluster(self._store(desired), desired, name, run_tasks or AutoRunner(parse_runner(None)))
        applied = sum(change.disposition == APPLIED for change in result.changes)
        return documents.ClusterApplyOutput(
            ok=not result.diagnostics,
            config_dir=self.address,
            diagnostics=documents.diagnostic_outputs(result.diagnostics),
            actor=name,
            desired_revision=documents.RevisionOutput(config_digest=desired.config_digest),
            changes=list(result.changes),
            applied_count=applied,
            blocked_count=len(result.changes) - applied,
            converged=result.is_converged,
            state_written=result.is_written,
            resource_statuses=dict(result.ledger.resource_statuses),
            **_revision(result.ledger),
        )

    def approve(self, resource: str, *, actor: str | None = None) -> documents.ClusterApproveOutput:
        """Allow `apply` to delete a graph that the files no longer declare.

        The approval is for exactly these files and this graph: an edit, or another graph with this id, voids it.

        Args:
            resource: The address of the graph, such as `graph.books`.
            actor: Who approves. Default: the login name.

        Example:
            >>> cluster.approve("graph.books")
            Traceback (most recent call last):
            omnigraph.base.errors.UsageError: ...
        """
        desired = self._read_files()
        store = self._store(desired)
        ledger = require_ledger(store)
        observed = observe(store, ledger, desired)
        removed = {f"graph.{graph_id}": graph_id for graph_id in ledger.graph_ids if graph_id not in desired.graph_ids}
        if resource not in removed:
            reason = f"expected one of {', '.join(removed)}" if removed else "the files declare every deployed graph"
            raise UsageError(
                f"'{resource}' needs no approval: {reason}",
                code="approval_unneeded",
                hint="Run `omnigraph cluster plan`: it lists the approvals that are required.",
                facts={"resource": resource},
            )
        graph_id = removed[resource]
        first_commit = approved_commit(ledger, graph_id, observed.graphs[graph_id])
        assert first_commit is not None, "the graph was applied or is readable"
        name = choose_actor(actor, None)
        created = format_timestamp(SYSTEM_CLOCK.now_us())
        record = ApprovalRecord(version=1, resource=resource, operation="delete", approved_by=name, created_at=created)
        store.approve(desired.config_digest, resource, first_commit, record)
        return documents.ClusterApproveOutput(
            ok=True,
            config_dir=self.address,
            diagnostics=[],
            resource=resource,
            operation="delete",
            approved_by=name,
            **_revision(ledger),
        )

    def status(self) -> documents.ClusterStatusOutput:
        """Return what is deployed, and where the live graphs differ from it. Needs only the ledger.

        Example:
            >>> cluster.status().resource_statuses["graph.books"].status
            'applied'
        """
        store = self._store()
        ledger = require_ledger(store)
        return self._status(ledger, observe(store, ledger, None))

    def import_graphs(self, *, actor: str | None = None) -> documents.ClusterStatusOutput:
        """Create the first revision of the ledger, with the declared graphs that exist.

        Args:
            actor: Who imports them. Default: the login name.

        Example:
            >>> cluster.import_graphs()
            Traceback (most recent call last):
            omnigraph.base.errors.RefusedError: ...
        """
        desired = self._read_files()
        store = self._store(desired)
        ledger = store.read_newest()
        if ledger is not None:
            raise RefusedError(
                f"the cluster already has a ledger, at revision {ledger.state_revision}",
                code="state_exists",
                hint="Nothing was changed. Run `omnigraph cluster plan`.",
                facts={"revision": ledger.state_revision},
            )
        observed = observe(store, None, desired)
        resources: dict[str, AppliedResource] = {}
        for graph_id, item in observed.graphs.items():
            if item.schema_digest is not None:
                resources[f"schema.{graph_id}"] = AppliedResource(digest=item.schema_digest)
                resources[f"graph.{graph_id}"] = AppliedResource(
                    digest=graph_digest(graph_id, item.schema_digest, {}, None), first_commit_id=item.first_commit_id
                )
        statuses = {address: documents.ResourceStatus(status="applied") for address in resources}
        revision = AppliedRevision(config_digest=None, resources=dict(sorted(resources.items())))
        ledger = next_ledger(None, choose_actor(actor, None), revision, statuses)
        store.append(ledger)
        return self._status(ledger, observed)

    def _status(self, ledger: Ledger, observed: Observations) -> documents.ClusterStatusOutput:
        drift = find_drift(ledger.resources, observed)
        observations = {}
        for graph_id, item in observed.graphs.items():
            schema = ledger.resources.get(f"schema.{graph_id}")
            observations[f"graph.{graph_id}"] = observation_output(item, None if schema is None else schema.digest)
        return documents.ClusterStatusOutput(
            ok=True,
            config_dir=self.address,
            diagnostics=documents.diagnostic_outputs(_drift_warnings(drift)),
            resource_digests={address: item.digest for address, item in ledger.resources.items()},
            resource_statuses={**ledger.resource_statuses, **drift},
            observations=observations,
            **_revision(ledger),
        )

    def _read_files(self) -> DesiredState:
        if not (Path(self.address) / CONFIG_FILE).exists():
            raise UsageError(
                f"'{self.address}' has no {CONFIG_FILE}",
                code="cluster_missing",
                hint="Nothing was changed. Pass the directory of the file: `--config DIR` or `omnigraph.cluster(DIR)`.",
                facts={"cluster": self.address},
            )
        problems = Diagnostics()
        desired = read_desired(Path(self.address), problems)
        problems.raise_errors(
            f"the cluster '{self.address}'",
            "Nothing was changed. Correct the files.",
            {"ok": False, "config_dir": self.address},
        )
        assert desired is not None
        return desired

    def _store(self, desired: DesiredState | None = None) -> LedgerStore:
        if desired is None:
            return LedgerStore(find_root(self.address))
        return LedgerStore(storage_root(Path(self.address), desired.config.storage))


def _revision(ledger: Ledger | None) -> dict[str, Any]:
    if ledger is None:
        return {}
    digest = ledger.applied_revision.config_digest
    return {"state_revision": ledger.state_revision, "applied_config_digest": digest}


_DRIFT_TEXTS: Final = {
    "graph_missing": "the deployed graph does not exist; if the files declare it, `cluster apply` creates it, empty",
    "graph_replaced": "another graph than the deployed one is stored at its location",
    "schema_drifted": "the schema of the graph is not the deployed one",
    "resource_missing": "the stored content does not exist; `cluster apply` stores it again",
    "resource_altered": "the stored content does not match its digest; `cluster apply` replaces it",
}
"""What the conditions of `find_drift` mean."""


def _drift_warnings(drift: Mapping[str, documents.ResourceStatus]) -> list[Diagnostic]:
    return [
        Diagnostic(
            code=status.conditions[0],
            path=address,
            message=status.message or _DRIFT_TEXTS[status.conditions[0]],
            severity="warning",
        )
        for address, status in drift.items()
    ]
