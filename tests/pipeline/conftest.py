"""Fixtures of the tests of the pipeline."""

from __future__ import annotations

from tests.pipeline.worlds import fresh_world, spark_home, world

__all__ = ["fresh_world", "spark_home", "world"]
