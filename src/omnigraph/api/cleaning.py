"""Cleanup as the surfaces ask for it: a graph with a long history is looked through on Spark, a small one here."""

from __future__ import annotations

from omnigraph.base.limits import CLEANUP_DRIVER_VERSIONS_MAX
from omnigraph.base.progress import Report, report_nothing
from omnigraph.graph.layout import MANIFEST
from omnigraph.maintenance.cleanup import HasLocation, cleanup_all_tables
from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.spark_workers import on_spark
from omnigraph.pipeline.load_source import RunTasks
from omnigraph.pipeline.session import SparkSettings
from omnigraph.storage.files import list_files


def run_cleanup(
    graph: HasLocation, options: CleanupPolicyOptions, spark: SparkSettings, report: Report = report_nothing
) -> list[TableCleanupStats]:
    """What went, or would go. A master that was named is used, whatever the size."""
    versions = len(list_files(graph.location.child(MANIFEST), "_versions"))
    is_large = versions > CLEANUP_DRIVER_VERSIONS_MAX or spark.master is not None
    run: RunTasks | None = on_spark(spark, report) if is_large else None
    return cleanup_all_tables(graph, options, run_tasks=run)
