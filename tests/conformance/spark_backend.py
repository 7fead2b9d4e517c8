"""Spark as a backend: read queries as DataFrame operations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from tests.conformance.case_files import CaseFile, CaseStep, Expected, LanguageCase, Rows
from tests.conformance.engine_backend import PLAIN, build
from tests.engine.running import PlannedText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}
"""For many tiny queries: they are not split, and not replanned while they run."""


@contextmanager
def small_session(home: Path, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start a local session that leaves no process, and no file outside `home`."""
    from pyspark import SparkContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_HOME", str(home))
        patch.setenv("OMNIGRAPH_CLASS_ARCHIVE", "off")
        session = spark_session(SparkSettings("local[2]", _SMALL if conf is None else conf))
        try:
            yield session
        finally:
            session.stop()
            gateway: Any = SparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


@dataclass(frozen=True, slots=True)
class SparkBackend:
    """Queries on Spark."""

    name: str = "spark"

    def runs(self, case: LanguageCase) -> bool:
        """Return whether Spark supports the case: no mutations."""
        return not case.changes

    def open(self, cases: CaseFile, directory: Path) -> SparkGraph:
        return SparkGraph(read_snapshot(build(cases, PLAIN, directory)))


@dataclass(frozen=True, slots=True)
class SparkGraph:
    """An open graph."""

    snapshot: Snapshot

    def run(self, step: CaseStep) -> Expected:
        result = PlannedText(step.text).run_on_spark(self.snapshot, step.params)
        rows: list[dict[str, Any]] = json.loads(result.to_json())
        return Rows(tuple(result.columns), tuple(tuple(row.values()) for row in rows))

    def copy(self, directory: Path) -> SparkGraph:
        raise NotImplementedError("Spark runs no mutations")
