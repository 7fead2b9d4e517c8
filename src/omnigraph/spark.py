"""`omnigraph.spark`: what Spark programs use: a session that is set up, and the data source `omnigraph`."""

from __future__ import annotations

from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.spark.session import session

__all__ = ["OmnigraphDataSource", "session"]
