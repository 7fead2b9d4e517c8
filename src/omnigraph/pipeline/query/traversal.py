"""Traversals as joins: which nodes are reachable, hop by hop, and edges that are bound themselves.

Each destination counts once per source, at its shortest distance; the source itself only through a self-loop, at
distance 1; pairs that were seen are not followed again. Every hop is one join with the edges and one anti join with the
pairs seen so far. The pairs of a hop are kept on the executors (a local checkpoint), so that a plan does not double
with every hop, and a traversal ends when a hop finds nothing new.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.pipeline.query.columns import plan_column, spark_name
from omnigraph.pipeline.query.scan import TableFrames
from omnigraph.query.plan.operators import Direction, EdgeExpand, EdgeScan, Expand, ExpandInto
from omnigraph.query.plan.types import Entity, Table

NEAR, FAR, _START = "near", "far", "start"


def edge_scan_frame(step: EdgeScan, tables: TableFrames) -> DataFrame:
    """The edges that pass the filter, with the ids of their ends; undirected ones in both orientations."""
    edges = tables.rows(step.edge, _with_ends(step.columns), step.filter)
    direction = Direction.BOTH if step.undirected else Direction.OUT
    return _oriented(edges, step.edge, direction).select(
        *(plan_column(f"{step.edge.name}.{name}") for name in step.columns),
        F.col(NEAR).alias(spark_name(step.source.id)),
        F.col(FAR).alias(spark_name(step.target.id)),
    )


def edge_expanded(frame: DataFrame, step: EdgeExpand, tables: TableFrames) -> DataFrame:
    """For each row one row per edge at its source that passes the filter; with `into` only those to its target."""
    edges = tables.rows(step.edge, _with_ends(step.columns), step.filter)
    own = [plan_column(f"{step.edge.name}.{name}") for name in step.columns]
    oriented = _oriented(edges, step.edge, step.direction).select(*own, NEAR, FAR)
    if step.into:
        return frame.join(oriented, _joins(step.source, step.target), "inner").drop(NEAR, FAR)
    joined = frame.join(oriented, plan_column(step.source.id) == F.col(NEAR), "inner").drop(NEAR)
    return joined.withColumnRenamed(FAR, spark_name(step.target.id))


def expanded(frame: DataFrame, step: Expand, tables: TableFrames) -> DataFrame:
    """For each row every node that is reachable from its source, once."""
    pairs = _reached(frame, step, tables)
    joined = frame.join(pairs, plan_column(step.source.id) == F.col(NEAR), "inner").drop(NEAR)
    return joined.withColumnRenamed(FAR, spark_name(step.target.id))


def checked(frame: DataFrame, step: ExpandInto, tables: TableFrames) -> DataFrame:
    """The rows whose target is reachable from their source."""
    return frame.join(_reached(frame, step, tables), _joins(step.source, step.target), "left_semi")


def shared(frame: DataFrame) -> DataFrame:
    """The same rows for two places of a plan: worked out once, when the first of them runs."""
    return frame.localCheckpoint(eager=False)


def _joins(source: Entity, target: Entity) -> Column:
    return (plan_column(source.id) == F.col(NEAR)) & (plan_column(target.id) == F.col(FAR))


def _with_ends(columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*columns, "src", "dst")))


def _oriented(edges: DataFrame, edge: Entity, direction: Direction) -> DataFrame:
    """The edges with both ends as `near` and `far`; a self-loop has one orientation."""
    source, target = plan_column(f"{edge.name}.src"), plan_column(f"{edge.name}.dst")
    match direction:
        case Direction.OUT:
            return edges.withColumns({NEAR: source, FAR: target})
        case Direction.IN:
            return edges.withColumns({NEAR: target, FAR: source})
        case Direction.BOTH:
            forward = F.struct(source.alias(NEAR), target.alias(FAR))
            backward = F.struct(target.alias(NEAR), source.alias(FAR))
            ways = F.when(source == target, F.array(forward)).otherwise(F.array(forward, backward))
            turned = edges.withColumn(_START, F.explode(ways))
            return turned.withColumns({NEAR: F.col(f"{_START}.{NEAR}"), FAR: F.col(f"{_START}.{FAR}")})


def _reached(frame: DataFrame, step: Expand | ExpandInto, tables: TableFrames) -> DataFrame:
    """The pairs of sources of the rows and their destinations, each once."""
    edge = Entity("edge", step.table)
    edges = _oriented(tables.rows(edge, ("src", "dst")), edge, step.direction).select(NEAR, FAR).distinct()
    if not _is_one_type(step.table, tables):
        # Where the first hop ends, no edge of the type begins, even if a node there has the same id.
        return edges if step.low == 1 else edges.limit(0)
    if step.high == 1:
        return edges
    sources = frame.select(plan_column(step.source.id).alias(_START)).distinct()
    hops = _hops(shared(edges), sources, step.high)
    within = hops[step.low - 1 :]
    pairs = reduce(DataFrame.union, within) if within else hops[0].limit(0)
    return pairs.select(F.col(_START).alias(NEAR), F.col(FAR).alias(FAR))


def _hops(edges: DataFrame, sources: DataFrame, high: int) -> list[DataFrame]:
    """For each distance the new pairs at it; at distance 1 with the self-loops, which lead nowhere new."""
    pairs = shared(sources.join(edges, F.col(_START) == F.col(NEAR), "inner").select(_START, FAR))
    hops = [pairs]
    frontier = seen = pairs.filter(F.col(_START) != F.col(FAR))
    while len(hops) < high and not frontier.isEmpty():
        ends = frontier.select(_START, F.col(FAR).alias("at"))
        further = ends.join(edges, F.col("at") == F.col(NEAR), "inner").select(_START, FAR).distinct()
        visited = seen.select(F.col(_START).alias("known_start"), F.col(FAR).alias("known_far"))
        is_known = (F.col(_START) == F.col("known_start")) & (F.col(FAR) == F.col("known_far"))
        new = further.filter(F.col(_START) != F.col(FAR)).join(visited, is_known, "left_anti")
        frontier = shared(new)
        seen = seen.union(frontier)
        hops.append(frontier)
    return hops


def _is_one_type(table: Table, tables: TableFrames) -> bool:
    """Whether both ends of an edge are of the same node type."""
    edges = tables.snapshot.schema.catalog.edges
    edge = next(candidate for candidate in edges if candidate.id == table.type_id)
    return edge.source == edge.target
