"""What the Python reference shows: the public types and functions, the errors, and what of them is kept out of it.

The page is for programs, so fields and methods that only our own rooms use are named in `INTERNAL`. A test fails when
one of them is gone, and when a signature names one of our types that is neither described nor explained here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omnigraph.api import history, loading, merging, mutating, querying, results
from omnigraph.api.branching import BranchRecord, BranchStanding
from omnigraph.api.exporting import ExportOutcome
from omnigraph.api.graph import Graph, OpenOptions, init, open  # noqa: A004  # users write omnigraph.open
from omnigraph.base import errors
from omnigraph.base.progress import Progress
from omnigraph.engine.embedding import EmbeddingProvider
from omnigraph.engine.mutate import MutationRejectedError
from omnigraph.engine.mutation_stage import EntityCounts
from omnigraph.engine.options import QueryLimits
from omnigraph.graph import check, commit, lease, pending, publish, records, requirements, schema_plan
from omnigraph.graph.diff import ChangeKind, SchemaDiffError
from omnigraph.graph.feed import ChangeFeedGapError
from omnigraph.graph.merge.conflicts import ConflictKind, EntityName, EntityStates, Side
from omnigraph.graph.snapshot import GraphReplacedError, Snapshot
from omnigraph.maintenance import cleanup, cleanup_options, health, index_status, optimize, repair, retention
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.index_outcome import IndexOutcome, IndexRow
from omnigraph.maintenance.index_plan import IndexStatus
from omnigraph.maintenance.optimize_stats import PendingIndex, SkipReason, TableOptimizeStats
from omnigraph.maintenance.repair_outcome import RepairAction, RepairOptions, TableRepairStats
from omnigraph.maintenance.schema_apply import SchemaApplied, SchemaRejectedError
from omnigraph.pipeline.data_source import OmnigraphDataSource
from omnigraph.pipeline.export_part import ExportFormat
from omnigraph.pipeline.export_target import TargetKind
from omnigraph.pipeline.load import LoadRejectedError
from omnigraph.pipeline.session import session
from omnigraph.pipeline.source_errors import DataSourceError
from omnigraph.pipeline.source_write import TableMovedError
from omnigraph.pipeline.task_errors import TaskError
from omnigraph.schema.evolution import Cost, Unsupported
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.commit import DisplacedCommitError
from omnigraph.storage.coverage import Degraded, Indexed
from omnigraph.storage.durability import IncompleteFileError
from omnigraph.storage.failures import CommitRaceError, DatasetExistsError
from omnigraph.storage.sync import SyncError

SECTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Opening": (init, open, OpenOptions),
    "The graph": (Graph,),
    "Reading": (
        results.Result,
        results.ResultSource,
        querying.PreparedQuery,
        EmbeddingProvider,
        QueryLimits,
        Snapshot,
        records.TableRecord,
        records.Pin,
        records.SchemaRecord,
    ),
    "Writing": (
        loading.LoadOutcome,
        mutating.MutationResult,
        EntityCounts,
        ExportOutcome,
        TargetKind,
        ExportFormat,
        schema_plan.SchemaPlan,
        schema_plan.PlannedStep,
        Cost,
        Unsupported,
        SchemaApplied,
        Progress,
    ),
    "Branches and history": (
        BranchStanding,
        BranchRecord,
        records.BranchParent,
        records.CommitRecord,
        records.TableMove,
        records.StreamBatch,
        history.EntityChange,
        ChangeKind,
        history.ChangeFeed,
        history.CommitChanges,
        history.SchemaStep,
        merging.MergeOutcome,
        merging.MergeResult,
        merging.TableCounts,
        merging.Conflict,
        ConflictKind,
        EntityName,
        EntityStates,
        Side,
    ),
    "Maintenance": (
        optimize.optimize_all_tables,
        optimize.OptimizeOptions,
        TableOptimizeStats,
        SkipReason,
        PendingIndex,
        IndexOutcome,
        IndexRow,
        IndexStatus,
        IndexKind,
        repair.repair_all_tables,
        RepairOptions,
        TableRepairStats,
        Classification,
        RepairAction,
        cleanup.cleanup_all_tables,
        cleanup_options.CleanupPolicyOptions,
        cleanup_options.TableCleanupStats,
        cleanup_options.KeptVersions,
        retention.KeepReason,
        health.Finding,
        health.Check,
        health.Health,
        index_status.IndexCoverage,
        Indexed,
        Degraded,
        pending.PendingIntent,
        pending.PendingState,
        records.RecoveryRecord,
    ),
    "Spark": (session, OmnigraphDataSource),
}
ERRORS: Final[tuple[type[Exception], ...]] = (
    errors.OmnigraphError,
    errors.UsageError,
    errors.ParameterError,
    errors.ContentError,
    errors.TextError,
    errors.SchemaTextError,
    errors.QueryTextError,
    errors.RunError,
    LoadRejectedError,
    MutationRejectedError,
    SchemaRejectedError,
    errors.NotFoundError,
    errors.RefusedError,
    check.DriftError,
    schema_plan.SchemaRefusedError,
    SchemaDiffError,
    requirements.PreconditionFailedError,
    errors.ConflictError,
    merging.MergeConflictError,
    requirements.ReadSetConflictError,
    GraphReplacedError,
    lease.LeaseBusyError,
    lease.LeaseLostError,
    check.StagingTooOldError,
    commit.UnsettledTableError,
    publish.PublishContentionError,
    publish.PublishLostError,
    CommitRaceError,
    DisplacedCommitError,
    DatasetExistsError,
    TableMovedError,
    commit.RecoveryRequiredError,
    ChangeFeedGapError,
    errors.StorageError,
    publish.PublishUnknownError,
    IncompleteFileError,
    SyncError,
    errors.MachineError,
    TaskError,
    errors.FormatError,
    errors.InvariantError,
    DataSourceError,
)
MADE_BY_PROGRAMS: Final = frozenset(
    {
        OpenOptions,
        EmbeddingProvider,
        QueryLimits,
        optimize.OptimizeOptions,
        RepairOptions,
        cleanup_options.CleanupPolicyOptions,
    }
)
"""Whose defaults matter. The others are made here and only read by programs."""

INTERNAL: Final[Mapping[str, tuple[str, ...]]] = {
    "Graph": ("location", "refuse_if_read_only"),
    "Result": ("stream",),
    "PreparedQuery": ("source_name", "hops_ceiling", "checked", "plan", "bind"),
    "QueryLimits": ("engine_options",),
    "Snapshot": ("root", "manifest", "state", "identities"),
    "TableRecord": ("type_id", "incarnation"),
    "SchemaRecord": ("refuse_altered",),
    "LoadOutcome": ("loaded",),
    "ExportOutcome": ("exported",),
    "SchemaPlan": ("catalog", "counted", "null_counts", "refuse_unsupported"),
    "PlannedStep": ("step",),
    "CommitRecord": ("manifest_hint", "pins", "extra"),
    "OptimizeOptions": ("blobs_compact", "world", "bounds", "refuse_nonsense"),
    "RepairOptions": ("refuse_contradiction",),
    "TableRepairStats": ("flag_error",),
    "CleanupPolicyOptions": ("policy", "warnings"),
    "OmnigraphDataSource": ("schema", "reader", "streamReader", "writer", "streamWriter"),
}
"""What is public for our own rooms only. Whatever a program needs of it has another way: a property, or `to_json`."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    "BranchId": "A string. A branch that is made again under the same name has another one.",
    "BranchPlace": "A `Graph`.",
    "CommitId": "A string of 26 letters and digits.",
    "Coverage": "`Indexed` or `Degraded`.",
    "EvolutionCode": "Has `code`, such as `OG-DS-101`, `meaning`, and `advice`: what to do instead.",
    "Fact": "A value as in JSON.",
    "GraphPlace": "A `Graph`.",
    "Intent": "What a write said before it began, among it `op_id`, `kind`, `actor`, `branch` and `created_us`.",
    "Json": "A value as in JSON.",
    "OperationId": "A string: the name of one write, in its commit and in the record of its recovery.",
    "QueryOptions": "`omnigraph.api.querying.QueryOptions(spark_master=…, limits=QueryLimits(…), report=…)`.",
    "Report": "A function that takes a `Progress`.",
    "RunOptions": "`omnigraph.engine.run.RunOptions(QueryLimits(…).engine_options(), embed=EmbeddingProvider(…))`.",
    "RunTasks": "A function that takes a function and a list of tasks, and gives the results in their order.",
    "SchemaHash": "A string: the SHA-256 of the compiled schema.",
    "TableId": "A string. It stays when the type gets another name.",
    "World": "The clock and the leases of a write; for tests.",
}
"""Names in signatures that need no more than a sentence."""
