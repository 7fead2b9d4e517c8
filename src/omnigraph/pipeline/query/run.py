"""Runs a read plan on Spark, for graphs that are too large for one machine.

In: a snapshot, a rewritten and bound plan, and the Spark settings. Out: the schema and the batches that the engine in
the process would return. Spark runs scans, joins, groups, order and limits; the engine computes the expressions of
`return` over the rows that come back as Arrow. Searches are exact. Nothing is written. Ctrl-C and the time limit of the
query cancel the Spark jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from omnigraph.base.errors import InvariantError, LimitExceededError, ResourceLimit
from omnigraph.base.progress import Report, ignore_progress
from omnigraph.embedding.provider import AnyProvider
from omnigraph.engine.columns.expressions import value_arrow_type
from omnigraph.engine.columns.frame import Column, Frame
from omnigraph.engine.embedding import embed_texts
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.rows import make_result_batch, result_schema
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import DEFAULT_OPTIONS, Stream
from omnigraph.pipeline.query.columns import plan_column, spark_name
from omnigraph.pipeline.query.compile import PlanFrames
from omnigraph.pipeline.query.scan import TableFrames
from omnigraph.pipeline.runner import TaskError
from omnigraph.pipeline.spark.executors import prepare_executors
from omnigraph.pipeline.spark.job import JobProgress, run_job
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import names
from omnigraph.query.plan.operators import Project
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.types import EntityListType, ValueType
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.storage.location import require_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.manifest.snapshot import Snapshot

_BLOB: Final = ScalarType(Scalar.BLOB)
_RESULT_SIZE: Final = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The Spark settings, the limits, the progress function and the embedding provider of a query."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    limits: EngineOptions = DEFAULT_OPTIONS
    report: Report = ignore_progress
    embed: AnyProvider | None = None


def run_query_on_spark(snapshot: Snapshot, plan: ReadPlan, options: SparkRun | None = None) -> Stream:
    """Return the stream of a bound plan; it starts to run when the first batch is read."""
    run = options or SparkRun()
    require_shared(snapshot.root)
    root = embed_texts(plan, run.embed).root
    if not isinstance(root, Project):
        raise InvariantError("a read plan ends with a projection", code="plan_invariant")
    session = spark_session(run.settings)
    budget = Budget(run.limits)
    return Stream(result_schema(root), _batches(session, snapshot, root, budget, run.report), budget)


def _batches(
    session: SparkSession, snapshot: Snapshot, root: Project, budget: Budget, report: Report
) -> Iterator[pa.RecordBatch]:
    prepare_executors(session)
    expression_reads = frozenset[str]().union(*(reads_of(column.expression) for column in root.columns))
    read = [name for name in names(root.input.outputs) if name in expression_reads]
    types = {field.name: field.type for field in root.input.outputs}

    def act() -> pa.Table:
        # In the thread of the job, because traversals run jobs while they are compiled.
        frame = PlanFrames(TableFrames(session, snapshot)).frame(root.input)
        return frame.select(*map(plan_column, read), F.lit(True)).toArrow()

    try:
        table = run_job(session, act, JobProgress("query", None, report), budget.require_time)
    except TaskError as failed:
        if _RESULT_SIZE not in " ".join((failed.message, *failed.__notes__)):
            raise
        raise _result_too_large(session) from failed
    budget.require_bytes(table.nbytes)
    schema = result_schema(root)
    for batch in table.to_batches():
        columns: dict[str, Column] = {name: _engine_array(batch.column(spark_name(name)), types[name]) for name in read}
        yield make_result_batch(root, schema, Frame(batch.num_rows, columns))


def _result_too_large(session: SparkSession) -> LimitExceededError:
    """Return the error for a result above Spark's own limit."""
    limit = str(session.conf.get(_RESULT_SIZE, "1g"))
    return LimitExceededError(
        f"the result exceeds the memory limit of the Spark session: expected at most {limit}",
        code="query_memory",
        hint=f"Return fewer rows with a filter or a limit, or start Spark with a larger {_RESULT_SIZE}.",
        facts=ResourceLimit("memory", size_bytes(limit), "bytes").facts(),
    )


def size_bytes(text: str) -> int:
    """Return a size of Spark's configuration, such as `1g` or `512mb`, in bytes."""
    size = text.strip().lower().removesuffix("b")
    return int(size) if size.isdecimal() else int(size[:-1]) * 1024 ** (1 + "kmgtp".index(size[-1]))


def _engine_array(array: Any, value_type: ValueType) -> Any:
    """Return a column in the engine's type. Of a Blob, queries can only ask whether it is null."""
    target: Any = value_arrow_type(value_type)
    if isinstance(value_type, EntityListType):
        entities = array.flatten()
        members = [entities.field(number).cast(field.type) for number, field in enumerate(target.value_type)]
        structs = pa.StructArray.from_arrays(members, fields=list(target.value_type))
        return pa.ListArray.from_arrays(pc.subtract(array.offsets, array.offsets[0]), structs, type=target)
    return array if array.type == target or value_type == _BLOB else array.cast(target)
