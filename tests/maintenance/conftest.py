"""What the tests of maintenance on Spark share."""

from __future__ import annotations

from tests.pipeline.worlds import spark_home, world

__all__ = ["spark_home", "world"]
