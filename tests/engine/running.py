"""Queries on a given snapshot, by the engine with any options and by Spark: what `Graph.query` does, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.api.results import Result, ResultSource
from omnigraph.base.limits import SPARK_QUERY_SECONDS_MAX
from omnigraph.engine.options import NO_LIMITS
from omnigraph.engine.prepare import QueryPlanner, QuerySource
from omnigraph.engine.run import QueryRunOptions, Stream, run_query
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.pipeline.query.run import SparkRun, run_query_on_spark
from omnigraph.query.plan.statements import ReadPlan


class PlannedText:
    """A query text that is parsed once and planned for each snapshot."""

    def __init__(self, text: str) -> None:
        self.planner = QueryPlanner(source=QuerySource(text))

    def plan(self, snapshot: Snapshot) -> ReadPlan:
        return self.planner.plan(snapshot)

    def run(
        self, snapshot: Snapshot, params: Mapping[str, object] | None = None, options: QueryRunOptions | None = None
    ) -> Result:
        plan = self.planner.bound_plan(snapshot, params)
        return _result(snapshot, plan, run_query(snapshot, plan, options))

    def run_on_spark(self, snapshot: Snapshot, params: Mapping[str, object] | None = None) -> Result:
        plan = self.planner.bound_plan(snapshot, params)
        run = SparkRun(limits=NO_LIMITS.engine_options(SPARK_QUERY_SECONDS_MAX))
        return _result(snapshot, plan, run_query_on_spark(snapshot, plan, run))


def _result(snapshot: Snapshot, plan: ReadPlan, stream: Stream) -> Result:
    source = ResultSource(plan.name, snapshot.branch.name, snapshot.version, snapshot.head)
    return Result(source, stream)
