"""Cleanup as the surfaces ask for it: a graph with many versions or files is looked through on Spark, a small one here.

A session takes longer to start than a small graph to be looked through. Either way the same tasks run: a listing, what
its versions need, and the anti-join of the two (decision 0013).
"""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.base.progress import Report, report_nothing
from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.recovery.on_open import recover_every_branch
from omnigraph.maintenance.cleanup import cleanup_all_tables
from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.graph_place import GraphPlace
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.session import SparkSettings
from omnigraph.pipeline.spark_runner import on_spark
from omnigraph.storage.files import has_more_files
from omnigraph.storage.location import Location


def run_cleanup(
    graph: GraphPlace, options: CleanupPolicyOptions, spark: SparkSettings, report: Report = report_nothing
) -> list[TableCleanupStats]:
    """Return what was deleted, or would be. A master that was named is used for any size.

    A run that deletes first recovers the writes that stopped, on every branch.
    """
    options.policy(0)  # raises for options that are not valid, before anything is written
    if options.confirm:
        recover_every_branch(graph.location)
    is_large = spark.master is not None or is_for_spark(graph.location)
    run: RunTasks | None = on_spark(spark, report) if is_large else None
    return cleanup_all_tables(graph, options, run_tasks=run)


def is_for_spark(root: Location) -> bool:
    """Whether a graph has more manifest versions or more files than this process looks through alone."""
    versions = root.child(MANIFEST).child("_versions")
    return has_more_files(versions, limits.CLEANUP_DRIVER_VERSIONS_MAX) or has_more_files(
        root, limits.CLEANUP_DRIVER_FILES_MAX
    )
