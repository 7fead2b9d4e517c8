"""`--engine spark`: a read plan run on Spark, for graphs that outgrow one machine.

In: a snapshot, a rewritten and bound plan, and which Spark to use. Out: the schema and the batches that the engine of
the process would give. Scans, joins, groups, order and limits are Spark's; the rows of the result come back as Arrow,
and the expressions of `return` are computed over them by the engine itself, so that they are the same. Search is
refused. Nothing is written. Ctrl-C cancels the Spark jobs, and so does the end of the query's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.base.errors import InvariantError, LimitExceededError, UsageError
from omnigraph.base.progress import Report, report_nothing
from omnigraph.engine.columns.expressions import value_arrow_type
from omnigraph.engine.columns.frame import Column, Frame
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.rows import result_batch, result_schema
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import DEFAULT_OPTIONS, Stream
from omnigraph.pipeline.query.columns import plan_column, spark_name
from omnigraph.pipeline.query.compile import PlanFrames
from omnigraph.pipeline.query.scan import TableFrames
from omnigraph.pipeline.spark.executors import prepare_executors
from omnigraph.pipeline.spark.job import Watch, run_job
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.pipeline.spark.task_errors import TaskError
from omnigraph.query.plan.expression_walk import reads_of, walk
from omnigraph.query.plan.expressions import Bm25, Expr, Nearest, Rrf, TextMatch, names
from omnigraph.query.plan.operators import Project, Search
from omnigraph.query.plan.statements import ReadPlan, Relation
from omnigraph.query.plan.types import ValueType
from omnigraph.query.plan.walk import steps_of, with_expressions
from omnigraph.schema.property_types import Scalar, ScalarType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.manifest.snapshot import Snapshot

_BLOB: Final = ScalarType(Scalar.BLOB)
_RESULT_SIZE: Final = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True)
class SparkRun:
    """On which session a query runs, what it may take, and who is told how far it is."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    limits: EngineOptions = DEFAULT_OPTIONS
    report: Report = report_nothing


def run_query_on_spark(snapshot: Snapshot, plan: ReadPlan, how: SparkRun | None = None) -> Stream:
    """Start a bound plan on the session that the settings choose; it runs when the first batch is taken."""
    _refuse_search(plan)
    root = plan.root
    if not isinstance(root, Project):
        raise InvariantError("a read plan ends with its columns", code="plan_invariant")
    run = how or SparkRun()
    session = spark_session(run.settings)
    budget = Budget(run.limits)
    return Stream(result_schema(root), _batches(session, snapshot, root, (budget, run.report)), budget)


def _refuse_search(plan: ReadPlan) -> None:
    """Raise for a plan that searches: the indexes of a search are not Spark's."""
    for step in steps_of(plan.root):
        if isinstance(step, Search) or _searches(step):
            raise UsageError(
                f"query {plan.name} searches, which Spark does not do",
                code="spark_search",
                hint="run it with the engine process, or without search, match_text, fuzzy, bm25, nearest and rrf",
            )


def _searches(step: Relation) -> bool:
    found: list[Expr] = []

    def look(expr: Expr) -> Expr:
        found.extend(walk(expr))
        return expr

    with_expressions(step, look)
    return any(isinstance(expr, TextMatch | Nearest | Bm25 | Rrf) for expr in found)


def _batches(
    session: SparkSession, snapshot: Snapshot, root: Project, watched: tuple[Budget, Report]
) -> Iterator[pa.RecordBatch]:
    budget, report = watched
    prepare_executors(session)
    read = _read_names(root)
    types = {field.name: field.type for field in root.input.outputs}

    def act() -> pa.Table:
        # Made in the job's own thread, because traversals run jobs while they are made.
        frame = PlanFrames(TableFrames(session, snapshot)).frame(root.input)
        return frame.select(*map(plan_column, read), F.lit(True)).toArrow()

    try:
        table = run_job(session, act, Watch("query", None, report), budget.tick)
    except TaskError as failed:
        if _RESULT_SIZE not in " ".join((failed.message, *failed.__notes__)):
            raise
        raise _result_too_large(session) from failed
    budget.allow(table.nbytes)
    schema = result_schema(root)
    for batch in table.to_batches():
        columns: dict[str, Column] = {
            name: _engine_array(batch.column(spark_name(name)), types[name]) for name in read
        }
        yield result_batch(root, schema, Frame(batch.num_rows, columns))


def _result_too_large(session: SparkSession) -> LimitExceededError:
    """Spark itself refuses to bring back more than its session allows."""
    limit = str(session.conf.get(_RESULT_SIZE, "1g"))
    return LimitExceededError(
        f"the query hit the memory budget of the Spark session: its result is larger than {limit}",
        code="query_memory",
        hint=f"ask for fewer rows with a filter or a limit, or start Spark with a larger {_RESULT_SIZE}",
        facts={"resource_limit": {"resource": "memory", "limit": limit, "unit": "spark"}},
    )


def _read_names(root: Project) -> tuple[str, ...]:
    """The columns that the result reads, in the order of the rows below."""
    read = frozenset[str]().union(*(reads_of(found.expression) for found in root.columns))
    return tuple(name for name in names(root.input.outputs) if name in read)


def _engine_array(array: Any, value_type: ValueType) -> Any:
    """A column in the engine's type; of a Blob only whether it is there, which is all that can be asked."""
    wanted = value_arrow_type(value_type)
    return array if array.type == wanted or value_type == _BLOB else array.cast(wanted)
