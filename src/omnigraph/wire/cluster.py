"""The JSON documents of `omnigraph cluster`."""

from __future__ import annotations

from typing import Any

import msgspec

from omnigraph.base.diagnostics import Diagnostic


class DiagnosticOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem of a file or of a step."""

    code: str
    severity: str
    path: str
    message: str
    line: int | None = None


class ResourceOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A declared resource and the digest of its content."""

    address: str
    kind: str
    digest: str
    path: str | None = None


class DependencyOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, `from`, that needs another one, `to`."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class MigrationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from the live schema of a graph to the declared one."""

    supported: bool
    steps: list[dict[str, Any]]
    unsupported: list[dict[str, Any]]

    @property
    def is_needed(self) -> bool:
        """Whether the schemas differ."""
        return bool(self.steps) or not self.supported


class PlannedChangeOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A difference between the files and what is deployed. `disposition` is `applied`, `blocked` or `error`."""

    resource: str
    operation: str
    disposition: str
    reason: str | None = None
    before_digest: str | None = None
    after_digest: str | None = None
    metadata_change: bool = False
    migration: MigrationOutput | None = None


class ApprovalOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A change that needs an approval, and whether it has one."""

    resource: str
    reason: str
    satisfied: bool


class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a resource: `applied`, `pending`, `drifted`, `blocked` or `error`, with the reasons."""

    status: str
    conditions: list[str] = []
    message: str | None = None


class RevisionOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of the configuration that the files declare."""

    config_digest: str


class ObservationOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a graph is, as it was read."""

    exists: bool
    graph_manifest_version: int | None = None
    schema_matches: bool | None = None
    error: str | None = None


class ClusterOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What all documents of a cluster have. Without a ledger there is no revision."""

    ok: bool
    config_dir: str | None
    diagnostics: list[DiagnosticOutput]
    state_revision: int | msgspec.UnsetType = msgspec.UNSET
    applied_config_digest: str | msgspec.UnsetType | None = msgspec.UNSET


class ClusterValidateOutput(ClusterOutput, frozen=True, kw_only=True):
    """The resources of valid files."""

    resources: list[ResourceOutput]
    dependencies: list[DependencyOutput]


class ClusterPlanOutput(ClusterOutput, frozen=True, kw_only=True):
    """What `apply` would change."""

    desired_revision: RevisionOutput
    changes: list[PlannedChangeOutput]
    approvals_required: list[ApprovalOutput]


class ClusterApplyOutput(ClusterOutput, frozen=True, kw_only=True):
    """What an apply changed."""

    actor: str
    desired_revision: RevisionOutput
    changes: list[PlannedChangeOutput]
    applied_count: int
    blocked_count: int
    converged: bool
    state_written: bool
    resource_statuses: dict[str, ResourceStatus]


class ClusterApproveOutput(ClusterOutput, frozen=True, kw_only=True):
    """An approval."""

    resource: str
    operation: str
    approved_by: str


class ClusterStatusOutput(ClusterOutput, frozen=True, kw_only=True):
    """What is deployed, and what the live graphs are."""

    resource_digests: dict[str, str]
    resource_statuses: dict[str, ResourceStatus]
    observations: dict[str, ObservationOutput]


def diagnostic_outputs(items: tuple[Diagnostic, ...] | list[Diagnostic]) -> list[DiagnosticOutput]:
    """Return the documents of problems."""
    return [
        DiagnosticOutput(code=item.code, severity=item.severity, path=item.path, message=item.message, line=item.line)
        for item in items
    ]
