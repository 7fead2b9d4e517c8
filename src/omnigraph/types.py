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
    from omnigraph.graph.branch_list import BranchStatus
    from omnigraph.graph.coordination.intent import PendingIntent, PendingState
    from omnigraph.graph.diff import ChangeKind, EntityChange, EntityChanges
    from omnigraph.graph.feed import ChangeFeed, CommitChanges, SchemaStep
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
        WriteOperation,
    )
    from omnigraph.graph.manifest.snapshot import Snapshot
    from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, EntityStates, Side
    from omnigraph.graph.merge.run import MergeOutcome, MergeResult, TableCounts
    from omnigraph.graph.schema_plan import PlannedStep, SchemaPlan
    from omnigraph.integrity.report import Violation, ViolationGroup, ViolationReport
    from omnigraph.maintenance.cleanup.options import KeptVersions, TableCleanupStats
    from omnigraph.maintenance.cleanup.retention import KeepReason
    from omnigraph.maintenance.doctor.findings import Check, Finding, Health
    from omnigraph.maintenance.drift import Classification
    from omnigraph.maintenance.index_status import IndexCoverage, IndexState
    from omnigraph.maintenance.indexed_load import LoadResult
    from omnigraph.maintenance.maintain import MaintainResult
    from omnigraph.maintenance.optimize.index_plan import IndexStatus
    from omnigraph.maintenance.optimize.options import (
        IndexResult,
        IndexRow,
        PendingIndex,
        SkipReason,
        TableOptimizeStats,
    )
    from omnigraph.maintenance.relocation import LocationFix
    from omnigraph.maintenance.repair import RepairAction, TableRepairStats
    from omnigraph.maintenance.schema_apply import SchemaResult
    from omnigraph.pipeline.embed.run import EmbedResult, EmbedStats, RowFailure
    from omnigraph.pipeline.export.run import ExportResult
    from omnigraph.pipeline.export.target import TargetKind
    from omnigraph.pipeline.export.tasks import ExportFormat
    from omnigraph.pipeline.load.run import LoadCounts
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
    "EmbedResult",
    "EmbedStats",
    "EntityChange",
    "EntityChanges",
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
    "IndexState",
    "IndexStatus",
    "Indexed",
    "KeepReason",
    "KeptVersions",
    "LintReport",
    "LoadCounts",
    "LoadResult",
    "LocationFix",
    "MaintainResult",
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
    "RowFailure",
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
    "ViolationGroup",
    "ViolationReport",
    "WriteOperation",
]

_NAMES_BY_MODULE: Final = {
    "api.prepared": "PreparedQuery",
    "api.results": "CleanupResult OptimizeResult RepairResult Result ResultSource",
    "base.errors": "Applied ErrorKind Problem",
    "base.progress": "Progress",
    "engine.mutation.stage": "EntityCounts",
    "engine.mutation.text": "MutationResult",
    "engine.prepare": "ExplainResult",
    "graph.branch_list": "BranchStatus",
    "graph.coordination.intent": "PendingIntent PendingState",
    "graph.diff": "ChangeKind EntityChange EntityChanges",
    "graph.feed": "ChangeFeed CommitChanges SchemaStep",
    "graph.manifest.records": "BranchParent BranchRecord CommitRecord Pin RecoveryRecord SchemaRecord StreamBatch "
    "TableMove TableRecord WriteOperation",
    "graph.manifest.snapshot": "Snapshot",
    "graph.merge.conflicts": "Conflict ConflictKind EntityName EntityStates Side",
    "graph.merge.run": "MergeOutcome MergeResult TableCounts",
    "graph.schema_plan": "PlannedStep SchemaPlan",
    "integrity.report": "Violation ViolationGroup ViolationReport",
    "maintenance.cleanup.options": "KeptVersions TableCleanupStats",
    "maintenance.cleanup.retention": "KeepReason",
    "maintenance.doctor.findings": "Check Finding Health",
    "maintenance.drift": "Classification",
    "maintenance.index_status": "IndexCoverage IndexState",
    "maintenance.indexed_load": "LoadResult",
    "maintenance.relocation": "LocationFix",
    "maintenance.maintain": "MaintainResult",
    "maintenance.optimize.index_plan": "IndexStatus",
    "maintenance.optimize.options": "IndexResult IndexRow PendingIndex SkipReason TableOptimizeStats",
    "maintenance.repair": "RepairAction TableRepairStats",
    "maintenance.schema_apply": "SchemaResult",
    "pipeline.embed.run": "EmbedResult EmbedStats RowFailure",
    "pipeline.export.run": "ExportResult",
    "pipeline.export.target": "TargetKind",
    "pipeline.export.tasks": "ExportFormat",
    "pipeline.load.run": "LoadCounts",
    "query.lint": "LintReport",
    "schema.evolution.steps": "Cost Unsupported",
    "schema.property_types": "IndexKind",
    "storage.lance.indexes": "Degraded Indexed",
}
_MODULES: Final = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a type when it is first used: most of them need Lance or Spark."""
    if name not in _MODULES:
        raise AttributeError(f"module 'omnigraph.types' has no attribute '{name}'")
    return getattr(import_module(f"omnigraph.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
