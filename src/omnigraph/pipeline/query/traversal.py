"""Traversals as joins: the nodes that are reachable hop by hop, and edges that a query binds.

In: rows with a source column. Out: rows with the reached nodes or edges. Each target counts once per source, at its
shortest distance; the source itself only by a self-loop, at distance 1. Every hop is one join with the edges and one
anti join with the visited pairs. The pairs of a hop stay on the executors (a local checkpoint), so that the plan does
not double with every hop. A traversal ends when a hop finds no new pair.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.pipeline.query.columns import plan_column, spark_name
from omnigraph.pipeline.query.scan import TableFrames
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.types import Entity, Table

NEAR, FAR, _START, _DISTANCE = "near", "far", "start", "distance"


def scan_edges(step: op.EdgeScan, tables: TableFrames) -> DataFrame:
    """Return the edges that pass the filter, with the ids of their endpoints; undirected edges in both directions."""
    edges = tables.rows(step.edge, _with_endpoints(step.columns), step.filter)
    direction = op.Direction.BOTH if step.undirected else op.Direction.OUT
    return _orient(edges, step.edge, direction).select(
        *(plan_column(f"{step.edge.name}.{name}") for name in step.columns),
        F.col(NEAR).alias(spark_name(step.source.id)),
        F.col(FAR).alias(spark_name(step.target.id)),
    )


def expand_edges(frame: DataFrame, step: op.EdgeExpand, tables: TableFrames) -> DataFrame:
    """Return one row per row and edge at its source that passes the filter; with `into` only edges to its target."""
    edges = tables.rows(step.edge, _with_endpoints(step.columns), step.filter)
    own = [plan_column(f"{step.edge.name}.{name}") for name in step.columns]
    oriented = _orient(edges, step.edge, step.direction).select(*own, NEAR, FAR)
    if step.into:
        return frame.join(oriented, _join_condition(step.source, step.target), "inner").drop(NEAR, FAR)
    joined = frame.join(oriented, plan_column(step.source.id) == F.col(NEAR), "inner").drop(NEAR)
    return joined.withColumnRenamed(FAR, spark_name(step.target.id))


def expand_nodes(frame: DataFrame, step: op.Expand, tables: TableFrames) -> DataFrame:
    """Return one row per row and node that is reachable from its source."""
    pairs = _find_pairs(frame, step, tables)
    joined = frame.join(pairs, plan_column(step.source.id) == F.col(NEAR), "inner").drop(NEAR)
    return _name_path(joined.withColumnRenamed(FAR, spark_name(step.target.id)), step)


def filter_reachable(frame: DataFrame, step: op.ExpandInto, tables: TableFrames) -> DataFrame:
    """Return the rows whose target is reachable from their source."""
    # The pairs are distinct, so that a join adds no rows.
    joined = frame.join(_find_pairs(frame, step, tables), _join_condition(step.source, step.target), "inner")
    return _name_path(joined.drop(NEAR, FAR), step)


def _name_path(frame: DataFrame, step: op.Expand | op.ExpandInto) -> DataFrame:
    """Name the distance as the length of the path, or drop it."""
    for field in step.path_fields:
        return frame.withColumnRenamed(_DISTANCE, spark_name(field.name))
    return frame.drop(_DISTANCE)


def reuse(frame: DataFrame) -> DataFrame:
    """Return the same rows for two uses in a plan: computed once, when the first of them runs."""
    return frame.localCheckpoint(eager=False)


def _join_condition(source: Entity, target: Entity) -> Column:
    return (plan_column(source.id) == F.col(NEAR)) & (plan_column(target.id) == F.col(FAR))


def _with_endpoints(columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*columns, "src", "dst")))


def _orient(edges: DataFrame, edge: Entity, direction: op.Direction) -> DataFrame:
    """Return the edges with their endpoints as `near` and `far`; a self-loop has one direction."""
    source, target = plan_column(f"{edge.name}.src"), plan_column(f"{edge.name}.dst")
    match direction:
        case op.Direction.OUT:
            return edges.withColumns({NEAR: source, FAR: target})
        case op.Direction.IN:
            return edges.withColumns({NEAR: target, FAR: source})
        case op.Direction.BOTH:
            forward = F.struct(source.alias(NEAR), target.alias(FAR))
            backward = F.struct(target.alias(NEAR), source.alias(FAR))
            directions = F.when(source == target, F.array(forward)).otherwise(F.array(forward, backward))
            exploded = edges.withColumn(_START, F.explode(directions))
            return exploded.withColumns({NEAR: F.col(f"{_START}.{NEAR}"), FAR: F.col(f"{_START}.{FAR}")})


def _find_pairs(frame: DataFrame, step: op.Expand | op.ExpandInto, tables: TableFrames) -> DataFrame:
    """Return the distinct pairs of a source of the rows and a reached node."""
    entities = [Entity("edge", table) for table in step.tables]
    oriented = [_orient(tables.rows(edge, ("src", "dst")), edge, step.direction).select(NEAR, FAR) for edge in entities]
    edges = reduce(DataFrame.union, oriented).distinct()
    one_hop = edges.withColumn(_DISTANCE, F.lit(1).cast("bigint"))
    if not _is_one_type(step.table, tables):
        # No edge of the type starts at the end of the first hop, even if a node there has the same id.
        return one_hop if step.low == 1 else one_hop.limit(0)
    if step.high == 1:
        return one_hop
    sources = frame.select(plan_column(step.source.id).alias(_START)).distinct()
    hops = [
        hop.withColumn(_DISTANCE, F.lit(distance).cast("bigint"))
        for distance, hop in enumerate(_hops(reuse(edges), sources, step.high), start=1)
    ]
    within = hops[step.low - 1 :]
    pairs = reduce(DataFrame.union, within) if within else hops[0].limit(0)
    return pairs.select(F.col(_START).alias(NEAR), F.col(FAR).alias(FAR), _DISTANCE)


def _hops(edges: DataFrame, sources: DataFrame, high: int) -> list[DataFrame]:
    """Return the new pairs of each distance; those of distance 1 include self-loops, which are not followed."""
    pairs = reuse(sources.join(edges, F.col(_START) == F.col(NEAR), "inner").select(_START, FAR))
    hops = [pairs]
    frontier = seen = pairs.filter(F.col(_START) != F.col(FAR))
    while len(hops) < high and not frontier.isEmpty():
        ends = frontier.select(_START, F.col(FAR).alias("frontier"))
        next_ends = ends.join(edges, F.col("frontier") == F.col(NEAR), "inner").select(_START, FAR).distinct()
        visited = seen.select(F.col(_START).alias("seen_start"), F.col(FAR).alias("seen_far"))
        is_seen = (F.col(_START) == F.col("seen_start")) & (F.col(FAR) == F.col("seen_far"))
        new = next_ends.filter(F.col(_START) != F.col(FAR)).join(visited, is_seen, "left_anti")
        frontier = reuse(new)
        seen = seen.union(frontier)
        hops.append(frontier)
    return hops


def _is_one_type(table: Table, tables: TableFrames) -> bool:
    """Return whether both endpoints of an edge have the same node type."""
    edges = tables.snapshot.schema.catalog.edges
    edge = next(candidate for candidate in edges if candidate.id == table.type_id)
    return edge.source == edge.target
