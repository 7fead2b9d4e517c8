"""`omnigraph.spark`: what Spark programs use. A ready session, and the data source `omnigraph`."""

from __future__ import annotations

from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.spark.session import session

__all__ = ["OmnigraphDataSource", "session"]
