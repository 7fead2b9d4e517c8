"""Compiles a plan to DataFrame operations, one operator at a time.

In: an operator of a rewritten plan whose parameters are bound. Out: a DataFrame with one column for each output of the
operator. Only a limit and the result columns follow an order, so the order is kept. Inner plans of `not` and
`optional` get the distinct outer rows and are joined by their keys, where null equals null. Nothing runs, except that a
traversal of several hops checks after each hop whether there are new nodes, and that `bm25` counts and `rrf` ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.base.errors import InvariantError, UsageError
from omnigraph.engine.operators.aggregate import is_row_count
from omnigraph.engine.operators.rows import limit_count
from omnigraph.pipeline.query.columns import (
    WIDE,
    compare,
    expression_column,
    filter_rows,
    plan_column,
    spark_name,
    within_i64,
)
from omnigraph.pipeline.query.scan import TableFrames
from omnigraph.pipeline.query.search import score_rows
from omnigraph.pipeline.query.traversal import expand_edges, expand_nodes, filter_reachable, reuse, scan_edges
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import walk
from omnigraph.query.plan.expressions import AggregateCall, Function, names
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.types import is_float
from omnigraph.query.plan.walk import entities_of
from omnigraph.query.syntax import ComparisonOperator

_ROWS_MAX: Final = 2**31 - 1
_ONE_ROW: Final = "one"


@dataclass(frozen=True, slots=True)
class PlanFrames:
    """Compiles operators to DataFrames. `outer` has the outer rows for the inner plan of a join."""

    tables: TableFrames
    outer: DataFrame | None = None

    def frame(self, step: Relation) -> DataFrame:  # noqa: PLR0912 - one case per step
        """Return the rows of an operator."""
        match step:
            case op.Unit():
                return self.tables.session.range(1).select(F.lit(True).alias(_ONE_ROW))
            case op.OuterRow():
                assert self.outer is not None, "an inner plan has outer rows"
                return self.outer.select(*map(plan_column, names(step.outputs))).distinct()
            case op.Scan(entity, columns, scan_filter):
                return self.tables.rows(entity, columns, scan_filter)
            case op.EdgeScan():
                return scan_edges(step, self.tables)
            case op.Expand():
                rows = self.frame(step.input)
                return expand_nodes(reuse(rows) if step.high > 1 else rows, step, self.tables)
            case op.ExpandInto():
                rows = self.frame(step.input)
                return filter_reachable(reuse(rows) if step.high > 1 else rows, step, self.tables)
            case op.EdgeExpand():
                return expand_edges(self.frame(step.input), step, self.tables)
            case op.Lookup():
                return self._look_up(step)
            case op.FilterRows(relation, conditions):
                return filter_rows(self.frame(relation), conditions)
            case op.CrossJoin():
                return self._cross_join(step)
            case op.ExistsJoin():
                return self._exists_join(step)
            case op.LeftJoin():
                return self._left_join(step)
            case op.Aggregate():
                return aggregate_rows(self.frame(step.input), step)
            case op.Order():
                return self.frame(step.input).orderBy(*_order(step))
            case op.LimitRows(relation, count, offset):
                return _limit_rows(
                    self.frame(relation), limit_count(count), 0 if offset is None else limit_count(offset)
                )
            case op.Search():
                return self._score_rows(step)
            case op.Project() | op.Pattern():
                raise InvariantError(f"unexpected operator on Spark: {type(step).__name__}", code="plan_invariant")
            case _:
                assert_never(step)

    def _score_rows(self, step: op.Search) -> DataFrame:
        rows = self.frame(step.input)
        parts = [part for column in step.scores for part in walk(column.expression)]
        if any(isinstance(part, ex.Rrf) for part in parts):
            rows = reuse(rows)
        entities = {entity.name: entity for entity in entities_of(step.input)}
        texts = {
            part.column.name: self.tables.rows(entities[part.column.entity], (part.column.column,))
            for part in parts
            if isinstance(part, ex.Bm25)
        }
        return score_rows(rows, step, texts)

    def _look_up(self, step: op.Lookup) -> DataFrame:
        entity = step.entity
        key = f"key {entity.id}"
        rows = self.tables.rows(entity, ("id", *step.columns), step.filter)
        matches = rows.withColumnRenamed(spark_name(entity.id), spark_name(key))
        join_type = "left" if step.keep_missing else "inner"
        joined = self.frame(step.input).join(matches, plan_column(entity.id) == plan_column(key), join_type)
        return joined.drop(spark_name(key))

    def _cross_join(self, step: op.CrossJoin) -> DataFrame:
        left, right = self.frame(step.left), self.frame(step.right)
        types = {field.name: field.type for field in (*step.left.outputs, *step.right.outputs)}
        equal = [
            compare(
                ComparisonOperator.EQ,
                (plan_column(left_key), types[left_key]),
                (plan_column(right_key), types[right_key]),
            )
            for left_key, right_key in step.on
        ]
        if not equal:
            return left.crossJoin(right)
        return left.join(right, reduce(and_, equal), "inner")

    def _exists_join(self, step: op.ExistsJoin) -> DataFrame:
        join_type = "left_anti" if step.negated else "left_semi"
        if not step.keys:
            first_match = self.frame(step.inner).select(F.lit(True).alias("match")).limit(1)
            return self.frame(step.input).join(first_match, F.lit(True), join_type)
        outer = reuse(self.frame(step.input))
        inner = PlanFrames(self.tables, outer).frame(step.inner)
        matches = inner.select(*_inner_keys(step.keys)).distinct()
        return outer.join(matches, _same_keys(step.keys), join_type)

    def _left_join(self, step: op.LeftJoin) -> DataFrame:
        outer_names = set(names(step.input.outputs))
        new = [plan_column(field.name) for field in step.inner.outputs if field.name not in outer_names]
        if not step.keys:
            inner = self.frame(step.inner).select(*new)
            return self.frame(step.input).join(inner, F.lit(True), "left")
        outer = reuse(self.frame(step.input))
        inner = PlanFrames(self.tables, outer).frame(step.inner)
        matches = inner.select(*_inner_keys(step.keys), *new)
        joined = outer.join(matches, _same_keys(step.keys), "left")
        return joined.drop(*(spark_name(f"inner {key}") for key in step.keys))


def aggregate_rows(frame: DataFrame, step: op.Aggregate) -> DataFrame:
    """Return one row per group."""
    keys = [expression_column(key.expression).alias(spark_name(key.name)) for key in step.keys]
    calls = [_call(aggregate.expression).alias(spark_name(aggregate.name)) for aggregate in step.aggregates]
    return frame.groupBy(*keys).agg(*calls)


def _call(call: AggregateCall) -> Column:
    if is_row_count(call):
        return F.count(F.lit(1))
    argument = (
        _entity_struct(call.argument) if isinstance(call.argument, ex.EntityRef) else expression_column(call.argument)
    )
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
        case Function.COLLECT:
            return F.sort_array(F.collect_set(argument) if call.distinct else F.collect_list(argument))


def _entity_struct(entity: ex.EntityRef) -> Column:
    """Return the columns of an entity as a struct whose first member is the id; null where the entity is null."""
    members = (plan_column(f"{entity.entity}.{name}") for name in entity.table.entity_columns)
    return F.when(expression_column(entity).isNotNull(), F.struct(*members))


def _inner_keys(keys: tuple[str, ...]) -> list[Column]:
    return [plan_column(key).alias(spark_name(f"inner {key}")) for key in keys]


def _same_keys(keys: tuple[str, ...]) -> Column:
    pairs = [plan_column(key).eqNullSafe(plan_column(f"inner {key}")) for key in keys]
    return reduce(and_, pairs)


def _order(step: op.Order) -> list[Column]:
    keys = []
    for key in step.keys:
        column = expression_column(key.expression)
        if key.descending:
            keys.append(column.desc_nulls_last())
        else:
            keys.append(column.asc_nulls_last() if key.nulls_last else column.asc_nulls_first())
    return [*keys, *(plan_column(name).asc_nulls_first() for name in step.ties)]


def _limit_rows(frame: DataFrame, count: int, offset: int) -> DataFrame:
    if offset > _ROWS_MAX:
        raise UsageError(
            f"offset too large for Spark: expected at most {_ROWS_MAX:,} rows, got {offset:,}",
            code="spark_offset",
            hint="Filter by the last key of the previous page instead.",
        )
    # Spark adds offset and limit in 32 bits.
    rows = min(count, _ROWS_MAX - offset)
    return (frame.offset(offset) if offset else frame).limit(rows)
