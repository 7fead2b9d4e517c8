"""Steps that return edges: `EdgeScan` and `EdgeExpand`. Each edge is a row, parallel edges too.

In: frames with the ids of sources, or nothing for a scan. Out: the rows with the columns of the edges that pass the
filter and with the ids of their endpoints. Edges come from the adjacency and cached columns, or from storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_mask
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, Mask, ValueDictionary, compact_codes
from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    array_of,
    concat_frames,
    distinct_values,
    expand_ranges,
    output_slices,
    positions_in,
    range_counts,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators import scan
from omnigraph.engine.operators.joins import join_on_numbers
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.traversal.adjacency import Adjacency
from omnigraph.engine.traversal.walker import SIDES, Walker
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter


def scan_edges(operator: op.EdgeScan, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the edges that pass the filter, with the ids of their endpoints; undirected edges in both orientations."""
    edge = operator.edge
    walker = Walker(operator, context)
    names = scan.output_columns(edge, operator.columns, needed)
    whole = not operator.filter.pushed and not context.is_limited
    cached = None
    if walker.choose_mode(walker.reader.row_count) is TraversalMode.ADJACENCY:
        cached = walker.reader.cached_columns(scan.columns_to_read(names, operator.filter), whole=whole)
    if cached is None:
        yield from _stream_edges(operator, names, context)
        return
    adjacency = walker.adjacency()
    rows = scan.matching_positions(edge, operator.filter.conjuncts, cached, walker.reader)
    for start in range(0, len(rows), context.options.frame_rows):
        part = rows[start : start + context.options.frame_rows]
        columns = scan.entity_columns(edge, part, cached, names)
        ends: tuple[Column, Column] = (
            DictionaryColumn(adjacency.by_source.near[part], adjacency.sources),
            DictionaryColumn(adjacency.by_target.near[part], adjacency.targets),
        )
        yield from _orient(operator, Frame(len(part), columns), ends)


def expand_edges(operator: op.EdgeExpand, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return one row for each row and each edge at its source that passes the filter."""
    edge = operator.edge
    walker = Walker(operator, context)
    names = scan.output_columns(edge, operator.columns, needed)
    own = {f"{edge.name}.{name}" for name in names} | (set() if operator.into else {operator.target.id})
    input_columns = needed - own | {operator.source.id} | ({operator.target.id} if operator.into else set())
    for frame in context.run_operator(operator.input, input_columns):
        if not frame.length:
            continue
        is_in_memory = walker.choose_mode(frame.length) is TraversalMode.ADJACENCY
        lookup = _EdgeLookup(operator=operator, names=names, frame=frame, walker=walker, context=context)
        yield from _expand_by_adjacency(lookup) if is_in_memory else _expand_by_storage(lookup)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EdgeLookup:
    """One frame, and what is needed to look up the edges at its sources."""

    operator: op.EdgeExpand
    names: tuple[str, ...]
    frame: Frame
    walker: Walker
    context: ExecutionContext

    @property
    def output_names(self) -> tuple[str, ...]:
        edge_names = (f"{self.operator.edge.name}.{name}" for name in self.names)
        return (*self.frame.columns, *edge_names, self.operator.target.id)


def _stream_edges(operator: op.EdgeScan, names: tuple[str, ...], context: ExecutionContext) -> Iterator[Frame]:
    edge = operator.edge
    names_with_ends = tuple(dict.fromkeys((*names, "src", "dst")))
    for frame in scan.stream_rows(edge, names_with_ends, operator.filter, context):
        ends = (frame.columns[f"{edge.name}.src"], frame.columns[f"{edge.name}.dst"])
        yield from _orient(operator, frame.select(f"{edge.name}.{name}" for name in names), ends)


def _orient(operator: op.EdgeScan, frame: Frame, ends: tuple[Column, Column]) -> Iterator[Frame]:
    yield frame.with_columns({operator.source.id: ends[0], operator.target.id: ends[1]})
    if not operator.undirected:
        return
    reversed_edges = frame.with_columns({operator.source.id: ends[1], operator.target.id: ends[0]})
    without_loops = reversed_edges.filter(~_equal_ids(ends[0], ends[1]))
    if without_loops.length:
        yield without_loops


def _equal_ids(left: Column, right: Column) -> Mask:
    """Return where two columns of ids are equal; null is not equal to anything."""
    if (
        isinstance(left, DictionaryColumn)
        and isinstance(right, DictionaryColumn)
        and left.dictionary is right.dictionary
    ):
        equal_codes: Mask = (left.codes == right.codes) & (left.codes >= 0)
        return equal_codes
    equal: Any = pc.equal(array_of(left), array_of(right))
    return bool_mask(equal.fill_null(False))


def _expand_by_adjacency(lookup: _EdgeLookup) -> Iterator[Frame]:
    adjacency = lookup.walker.adjacency()
    is_undirected = lookup.operator.direction is op.Direction.BOTH
    sides = (op.Direction.OUT, op.Direction.IN) if is_undirected else (lookup.operator.direction,)
    for number, direction in enumerate(sides):
        near = adjacency.near(direction)
        codes = positions_in(near, lookup.frame.columns[lookup.operator.source.id], lookup.context.cache)
        starts = adjacency.side(direction).starts
        if len(starts) < 2:
            continue
        _, sizes = range_counts(starts, codes)
        for start, stop in output_slices(sizes, lookup.context.options.expanded_rows_max):
            joined = _join_edges(lookup, adjacency, direction, (start, codes[start:stop]), skip_loops=number > 0)
            if joined.length:
                yield joined


def _join_edges(
    lookup: _EdgeLookup, adjacency: Adjacency, direction: op.Direction, part: tuple[int, Codes], *, skip_loops: bool
) -> Frame:
    operator, (start, codes) = lookup.operator, part
    side = adjacency.side(direction)
    positions, indices = expand_ranges(side.starts, codes)
    lookup.context.budget.require_bytes(8 * len(indices) * (len(lookup.names) + len(lookup.frame.columns) + 2))
    far, rows = side.far[indices].astype(np.int64), side.rows[indices].astype(np.int64)
    mask = np.ones(len(indices), dtype=np.bool_)
    if skip_loops:
        mask &= far != codes[positions]
    if operator.into:
        column = lookup.frame.slice(start, start + len(codes)).columns[operator.target.id]
        mask &= far == positions_in(adjacency.far(direction), column, lookup.context.cache)[positions]
    if not mask.all():
        positions, far, rows = positions[mask], far[mask], rows[mask]
    edges = _edges_in_rows(lookup, rows)
    if operator.filter.conjuncts:
        passing = condition_mask(operator.filter.conjuncts, edges)
        positions, far, edges = positions[passing], far[passing], edges.filter(passing)
    if not operator.into:
        edges = edges.with_columns({operator.target.id: DictionaryColumn(far, adjacency.far(direction))})
    return lookup.frame.take(positions + start).with_columns(edges.columns).select(lookup.output_names)


def _edges_in_rows(lookup: _EdgeLookup, rows: Codes) -> Frame:
    """Return the edges in these rows of the table."""
    reader = lookup.walker.reader
    read = scan.columns_to_read(lookup.names, lookup.operator.filter)
    cached = reader.cached_columns(read, whole=len(rows) > limits.ENGINE_TAKE_ROWS_MAX)
    if cached is None:
        distinct, rows = compact_codes(rows, reader.row_count)
        cached = reader.take(distinct, read)
    return Frame(len(rows), scan.entity_columns(lookup.operator.edge, rows, cached, read))


def _expand_by_storage(lookup: _EdgeLookup) -> Iterator[Frame]:
    operator = lookup.operator
    sources, numbers = distinct_values(lookup.frame.columns[operator.source.id])
    if not len(sources.codes):
        return
    nodes = ValueDictionary(sources.array(), is_unique=True, is_per_query=True)
    mode = lookup.walker.choose_mode(len(nodes))
    for number, (near, far) in enumerate(SIDES[operator.direction]):
        positions, edges = _read_edges_at(lookup, nodes, (near, far), mode, skip_loops=number > 0)
        if not len(positions):
            continue
        held_bytes = edges.nbytes
        lookup.context.budget.reserve(held_bytes)
        for joined in join_on_numbers(lookup.frame, numbers, edges, positions, lookup.context):
            ends = joined.columns[f"{operator.edge.name}.{far}"]
            if operator.into:
                edge_rows = joined.filter(_equal_ids(joined.columns[operator.target.id], ends))
            else:
                edge_rows = joined.with_columns({operator.target.id: ends})
            if edge_rows.length:
                yield edge_rows.select(lookup.output_names)
        lookup.context.budget.release(held_bytes)


def _read_edges_at(
    lookup: _EdgeLookup, nodes: ValueDictionary, ends: tuple[str, str], mode: TraversalMode, *, skip_loops: bool
) -> tuple[Codes, Frame]:
    """Read the edges at these nodes that pass the filter; return the positions of their nodes, and the edges."""
    operator, (near, far) = lookup.operator, ends
    conjuncts = operator.filter.conjuncts
    names = (near, far, *scan.columns_to_read(lookup.names, ScanFilter((), conjuncts)))
    positions: list[Codes] = []
    frames: list[Frame] = []
    size = 0
    for batch in lookup.walker.read_edges(nodes.array, names, near, mode):
        frame = scan.frame_from_batch(operator.edge, batch)
        batch_positions = nodes.find(batch.column(near))
        mask = (batch_positions >= 0) & condition_mask(conjuncts, frame)
        if skip_loops:
            mask &= ~_equal_ids(batch.column("src"), batch.column("dst"))
        positions.append(batch_positions[mask])
        frames.append(frame.take(np.flatnonzero(mask)).compact())
        size += positions[-1].nbytes + frames[-1].nbytes
        lookup.context.budget.require_bytes(size)
    if not frames:
        return np.zeros(0, dtype=np.int64), lookup.frame
    return np.concatenate(positions), concat_frames(frames)
