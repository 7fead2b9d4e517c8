"""Groups and aggregates on Spark: one row per distinct keys, nulls equal; without keys exactly one.

Sums of integers are exact: decimals until the end, when what is no I64 fails the query. Floats are added in the order
in which executors find them, so the last digits of such a sum can differ from run to run.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from omnigraph.engine.aggregate import counts_rows
from omnigraph.pipeline.query_expressions import expression_column
from omnigraph.pipeline.query_numbers import within_i64
from omnigraph.pipeline.query_values import WIDE, spark_name
from omnigraph.query.expressions import AggregateCall, Function
from omnigraph.query.plan import Aggregate
from omnigraph.query.value_types import is_float


def aggregated(frame: DataFrame, step: Aggregate) -> DataFrame:
    """One row per group."""
    keys = [expression_column(key.expression).alias(spark_name(key.name)) for key in step.keys]
    calls = [_call(found.call).alias(spark_name(found.name)) for found in step.aggregates]
    return frame.groupBy(*keys).agg(*calls)


def _call(call: AggregateCall) -> Column:
    if counts_rows(call):
        return F.count(F.lit(1))
    argument = expression_column(call.argument)
    match call.function:
        case Function.COUNT:
            return F.count_distinct(argument) if call.distinct else F.count(argument)
        case Function.SUM if is_float(call.argument.type):
            return F.sum(argument.cast("double"))
        case Function.SUM:
            return within_i64(F.sum(argument.cast(WIDE)))
        case Function.AVG if is_float(call.argument.type):
            return F.avg(argument.cast("double"))
        case Function.AVG:
            total = F.sum(argument.cast(WIDE)).cast("double")
            return F.try_divide(total, F.count(argument).cast("double"))
        case Function.MIN:
            return F.min(argument)
        case Function.MAX:
            return F.max(argument)
