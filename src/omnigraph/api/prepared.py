"""`PreparedQuery`: a read query that is parsed and planned once and runs often, in this process or on Spark.

In: query text, parameters and a state of the graph. Out: a `Result`, whose rows are computed while they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from omnigraph.api.arguments import read_as_of, require_choice
from omnigraph.api.results import Result, ResultSource
from omnigraph.base.display import Displayed
from omnigraph.base.limits import SPARK_QUERY_SECONDS_MAX
from omnigraph.base.progress import ignore_progress
from omnigraph.engine.options import NO_LIMITS
from omnigraph.engine.prepare import QuerySource, find_planner
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from typing import Literal

    from pyspark.sql import SparkSession

    from omnigraph.base.progress import Report
    from omnigraph.embedding.provider import AnyProvider
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedQuery(Displayed):
    """A read query of a graph that is parsed and planned once. `Graph.prepare` returns it."""

    location: Location
    branch: str
    spark: str | SparkSession | None
    source: QuerySource
    limits: QueryLimits | None = None
    provider: AnyProvider | None = None
    """The embedding provider of the graph, for runs that name no other."""

    def _summary(self) -> Mapping[str, object]:
        return {"location": self.location.uri, "branch": self.branch, "source": self.source.text}

    def run(
        self,
        params: Mapping[str, object] | None = None,
        *,
        as_of: str | int | date | datetime | Snapshot | None = None,
        runner: Literal["local", "spark"] = "local",
        embed: AnyProvider | None = None,
        limits: QueryLimits | None = None,
        progress: Report | None = None,
    ) -> Result:
        """Run the query. The arguments are those of `Graph.query`.

        Example:
            >>> query = graph.prepare("query q($s: String) { match { $p: Person {slug: $s} } return { $p.age } }")
            >>> query.run({"s": "bob"}).scalar()
            41
        """
        require_choice("runner", runner, ("local", "spark"), code="usage")
        allowed = limits or self.limits or NO_LIMITS
        provider = embed or self.provider
        snapshot = read_as_of(self.location, self.branch, as_of)
        plan = find_planner(self.source, (self.limits or NO_LIMITS).hops).bound_plan(snapshot, params)
        source = ResultSource(plan.name, snapshot.branch.name, snapshot.version, snapshot.head)
        if runner == "local":
            from omnigraph.engine.run import QueryRunOptions, run_query

            return Result(source, run_query(snapshot, plan, QueryRunOptions(allowed.engine_options(), embed=provider)))
        from omnigraph.pipeline.query.run import SparkRun, run_query_on_spark
        from omnigraph.pipeline.spark.session import spark_settings

        engine_options = allowed.engine_options(SPARK_QUERY_SECONDS_MAX)
        run = SparkRun(spark_settings(self.spark), engine_options, progress or ignore_progress, provider)
        return Result(source, run_query_on_spark(snapshot, plan, run))
