"""`omnigraph.types`: the types of what calls return, for annotations and for `isinstance`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from omnigraph.api.prepared import PreparedQuery
    from omnigraph.api.results import CleanupResult, OptimizeResult, RepairResult, Result, ResultSource
    from omnigraph.base.errors import Applied, ErrorKind, Problem
    from omnigraph.base.progress import Progress
    from omnigraph.engine.mutation.stage import EntityCounts
    from omnigraph.engine.mutation.text import MutationResult
    from omnigraph.engine.prepare import ExplainResult
    from omnigraph.graph.branches import BranchStatus
    from omnigraph.graph.coordination.intent import PendingIntent, PendingState
    from omnigraph.graph.diff import ChangeKind
    from omnigraph.graph.entity_changes import ChangeFeed, CommitChanges, EntityChange
    from omnigraph.graph.feed import SchemaStep
    from omnigraph.graph.manifest.records import (
        BranchParent,
        BranchRecord,
        CommitRecord,
        Pin,
        RecoveryRecord,
        SchemaRecord,
        StreamBatch,
        TableMove,
        TableRecord,
    )
    from omnigraph.graph.manifest.snapshot import Snapshot
    from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, EntityStates, Side
    from omnigraph.graph.merge.run import MergeOutcome, MergeResult, TableCounts
    from omnigraph.graph.schema_plan import PlannedStep, SchemaPlan
    from omnigraph.integrity.report import Violation, ViolationReport
    from omnigraph.maintenance.cleanup.options import KeptVersions, TableCleanupStats
    from omnigraph.maintenance.cleanup.retention import KeepReason
    from omnigraph.maintenance.doctor.findings import Check, Finding, Health
    from omnigraph.maintenance.drift import Classification
    from omnigraph.maintenance.index_status import IndexCoverage
    from omnigraph.maintenance.indexed_load import LoadResult
    from omnigraph.maintenance.optimize.index_plan import IndexStatus
    from omnigraph.maintenance.optimize.options import (
        IndexResult,
        IndexRow,
        PendingIndex,
        SkipReason,
        TableOptimizeStats,
    )
    from omnigraph.maintenance.repair import RepairAction, TableRepairStats
    from omnigraph.maintenance.schema_apply import SchemaResult
    from omnigraph.pipeline.export.run import ExportResult
    from omnigraph.pipeline.export.target import TargetKind
    from omnigraph.pipeline.export.tasks import ExportFormat
    from omnigraph.query.lint import LintReport
    from omnigraph.schema.evolution.steps import Cost, Unsupported
    from omnigraph.schema.property_types import IndexKind
    from omnigraph.storage.lance.indexes import Degraded, Indexed

__all__ = [
    "Applied",
    "BranchParent",
    "BranchRecord",
    "BranchStatus",
    "ChangeFeed",
    "ChangeKind",
    "Check",
    "Classification",
    "CleanupResult",
    "CommitChanges",
    "CommitRecord",
    "Conflict",
    "ConflictKind",
    "Cost",
    "Degraded",
    "EntityChange",
    "EntityCounts",
    "EntityName",
    "EntityStates",
    "ErrorKind",
    "ExplainResult",
    "ExportFormat",
    "ExportResult",
    "Finding",
    "Health",
    "IndexCoverage",
    "IndexKind",
    "IndexResult",
    "IndexRow",
    "IndexStatus",
    "Indexed",
    "KeepReason",
    "KeptVersions",
    "LintReport",
    "LoadResult",
    "MergeOutcome",
    "MergeResult",
    "MutationResult",
    "OptimizeResult",
    "PendingIndex",
    "PendingIntent",
    "PendingState",
    "Pin",
    "PlannedStep",
    "PreparedQuery",
    "Problem",
    "Progress",
    "RecoveryRecord",
    "RepairAction",
    "RepairResult",
    "Result",
    "ResultSource",
    "SchemaPlan",
    "SchemaRecord",
    "SchemaResult",
    "SchemaStep",
    "Side",
    "SkipReason",
    "Snapshot",
    "StreamBatch",
    "TableCleanupStats",
    "TableCounts",
    "TableMove",
    "TableOptimizeStats",
    "TableRecord",
    "TableRepairStats",
    "TargetKind",
    "Unsupported",
    "Violation",
    "ViolationReport",
]

_MODULES: Final = {
    "Applied": "omnigraph.base.errors",
    "BranchParent": "omnigraph.graph.manifest.records",
    "BranchRecord": "omnigraph.graph.manifest.records",
    "BranchStatus": "omnigraph.graph.branches",
    "ChangeFeed": "omnigraph.graph.entity_changes",
    "ChangeKind": "omnigraph.graph.diff",
    "Check": "omnigraph.maintenance.doctor.findings",
    "Classification": "omnigraph.maintenance.drift",
    "CleanupResult": "omnigraph.api.results",
    "CommitChanges": "omnigraph.graph.entity_changes",
    "CommitRecord": "omnigraph.graph.manifest.records",
    "Conflict": "omnigraph.graph.merge.conflicts",
    "ConflictKind": "omnigraph.graph.merge.conflicts",
    "Cost": "omnigraph.schema.evolution.steps",
    "Degraded": "omnigraph.storage.lance.indexes",
    "EntityChange": "omnigraph.graph.entity_changes",
    "EntityCounts": "omnigraph.engine.mutation.stage",
    "EntityName": "omnigraph.graph.merge.conflicts",
    "EntityStates": "omnigraph.graph.merge.conflicts",
    "ErrorKind": "omnigraph.base.errors",
    "ExplainResult": "omnigraph.engine.prepare",
    "ExportFormat": "omnigraph.pipeline.export.tasks",
    "ExportResult": "omnigraph.pipeline.export.run",
    "Finding": "omnigraph.maintenance.doctor.findings",
    "Health": "omnigraph.maintenance.doctor.findings",
    "IndexCoverage": "omnigraph.maintenance.index_status",
    "IndexKind": "omnigraph.schema.property_types",
    "IndexResult": "omnigraph.maintenance.optimize.options",
    "IndexRow": "omnigraph.maintenance.optimize.options",
    "IndexStatus": "omnigraph.maintenance.optimize.index_plan",
    "Indexed": "omnigraph.storage.lance.indexes",
    "KeepReason": "omnigraph.maintenance.cleanup.retention",
    "KeptVersions": "omnigraph.maintenance.cleanup.options",
    "LintReport": "omnigraph.query.lint",
    "LoadResult": "omnigraph.maintenance.indexed_load",
    "MergeOutcome": "omnigraph.graph.merge.run",
    "MergeResult": "omnigraph.graph.merge.run",
    "MutationResult": "omnigraph.engine.mutation.text",
    "OptimizeResult": "omnigraph.api.results",
    "PendingIndex": "omnigraph.maintenance.optimize.options",
    "PendingIntent": "omnigraph.graph.coordination.intent",
    "PendingState": "omnigraph.graph.coordination.intent",
    "Pin": "omnigraph.graph.manifest.records",
    "PlannedStep": "omnigraph.graph.schema_plan",
    "PreparedQuery": "omnigraph.api.prepared",
    "Problem": "omnigraph.base.errors",
    "Progress": "omnigraph.base.progress",
    "RecoveryRecord": "omnigraph.graph.manifest.records",
    "RepairAction": "omnigraph.maintenance.repair",
    "RepairResult": "omnigraph.api.results",
    "Result": "omnigraph.api.results",
    "ResultSource": "omnigraph.api.results",
    "SchemaPlan": "omnigraph.graph.schema_plan",
    "SchemaRecord": "omnigraph.graph.manifest.records",
    "SchemaResult": "omnigraph.maintenance.schema_apply",
    "SchemaStep": "omnigraph.graph.feed",
    "Side": "omnigraph.graph.merge.conflicts",
    "SkipReason": "omnigraph.maintenance.optimize.options",
    "Snapshot": "omnigraph.graph.manifest.snapshot",
    "StreamBatch": "omnigraph.graph.manifest.records",
    "TableCleanupStats": "omnigraph.maintenance.cleanup.options",
    "TableCounts": "omnigraph.graph.merge.run",
    "TableMove": "omnigraph.graph.manifest.records",
    "TableOptimizeStats": "omnigraph.maintenance.optimize.options",
    "TableRecord": "omnigraph.graph.manifest.records",
    "TableRepairStats": "omnigraph.maintenance.repair",
    "TargetKind": "omnigraph.pipeline.export.target",
    "Unsupported": "omnigraph.schema.evolution.steps",
    "Violation": "omnigraph.integrity.report",
    "ViolationReport": "omnigraph.integrity.report",
}


def __getattr__(name: str) -> Any:
    """Import a type when it is first used: most of them need Lance or Spark."""
    if name not in _MODULES:
        raise AttributeError(f"module 'omnigraph.types' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
