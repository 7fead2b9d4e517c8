"""Traversals that bind the edge itself, and scans of edge tables: one row per edge, parallel edges apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, Mask, ValueDictionary, compact_codes
from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    concat_frames,
    distinct_sources,
    expand_ranges,
    output_slices,
    positions_in,
    range_counts,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators.scan import (
    columns_to_read,
    frame_from_batch,
    matching_positions,
    output_columns,
    stream_rows,
)
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.traversal.adjacency import Adjacency
from omnigraph.engine.traversal.walker import SIDES, Walker
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter


def scan_edges(step: op.EdgeScan, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """The edges that pass the filter, with the ids of their ends; undirected ones in both orientations."""
    edge = step.edge
    direction = op.Direction.BOTH if step.undirected else op.Direction.OUT
    walker = Walker(edge.table, direction, step, context)
    wanted = output_columns(edge, step.columns, needed)
    whole = not step.filter.pushed and not context.is_limited
    cached = None
    if walker.choose_mode(walker.reader.row_count) is TraversalMode.ADJACENCY:
        cached = walker.reader.cached_columns(columns_to_read(wanted, step.filter), whole=whole)
    if cached is None:
        yield from _streamed_edges(step, wanted, context)
        return
    adjacency = walker.adjacency()
    rows = matching_positions(edge, step.filter.conjuncts, cached, walker.reader)
    for start in range(0, len(rows), context.options.frame_rows):
        part = rows[start : start + context.options.frame_rows]
        columns: dict[str, Column] = {
            f"{edge.name}.{name}": DictionaryColumn(part, cached[name]) for name in wanted
        }
        ends: tuple[Column, Column] = (
            DictionaryColumn(adjacency.source_codes[part], adjacency.sources),
            DictionaryColumn(adjacency.target_codes[part], adjacency.targets),
        )
        yield from _orient(step, Frame(len(part), columns), ends)


def expand_edges(step: op.EdgeExpand, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """For each row one row per edge at its source that passes the filter."""
    edge = step.edge
    walker = Walker(edge.table, step.direction, step, context)
    wanted = output_columns(edge, step.columns, needed)
    own = {f"{edge.name}.{name}" for name in wanted} | (set() if step.into else {step.target.id})
    below = needed - own | {step.source.id} | ({step.target.id} if step.into else set())
    for frame in context.rows(step.input, below):
        if not frame.length:
            continue
        if walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            yield from _expand_by_adjacency(_EdgeLookup(step, wanted, frame, walker, context))
        else:
            yield from _expand_by_storage(_EdgeLookup(step, wanted, frame, walker, context))


@dataclass(frozen=True, slots=True)
class _EdgeLookup:
    """One frame whose edges are looked for."""

    step: op.EdgeExpand
    wanted: tuple[str, ...]
    frame: Frame
    walker: Walker
    context: ExecutionContext


def _streamed_edges(step: op.EdgeScan, wanted: tuple[str, ...], context: ExecutionContext) -> Iterator[Frame]:
    edge = step.edge
    names = tuple(dict.fromkeys((*wanted, "src", "dst")))
    for frame in stream_rows(edge, names, step.filter, context):
        ends = (frame.columns[f"{edge.name}.src"], frame.columns[f"{edge.name}.dst"])
        yield from _orient(step, frame.select(f"{edge.name}.{name}" for name in wanted), ends)


def _orient(step: op.EdgeScan, frame: Frame, ends: tuple[Column, Column]) -> Iterator[Frame]:
    yield frame.with_columns({step.source.id: ends[0], step.target.id: ends[1]})
    if not step.undirected:
        return
    turned = frame.with_columns({step.source.id: ends[1], step.target.id: ends[0]})
    loops = _equal_ids(ends[0], ends[1])
    rest = turned.filter(~loops)
    if rest.length:
        yield rest


def _equal_ids(one: Column, other: Column) -> Mask:
    """Where two columns of ids are the same; none is null."""
    if (
        isinstance(one, DictionaryColumn)
        and isinstance(other, DictionaryColumn)
        and one.dictionary is other.dictionary
    ):
        same: Mask = one.codes == other.codes
        return same
    texts, others = (side.array() if isinstance(side, DictionaryColumn) else side for side in (one, other))
    return np.asarray(texts.to_numpy(zero_copy_only=False) == others.to_numpy(zero_copy_only=False))


def _expand_by_adjacency(job: _EdgeLookup) -> Iterator[Frame]:
    adjacency = job.walker.adjacency()
    sides = (
        (op.Direction.OUT, op.Direction.IN)
        if job.step.direction is op.Direction.BOTH
        else (job.step.direction,)
    )
    for number, direction in enumerate(sides):
        near = adjacency.near(direction)
        codes = positions_in(near, job.frame.columns[job.step.source.id], job.context.cache)
        starts = adjacency.side(direction).starts
        if len(starts) < 2:
            continue
        _, sizes = range_counts(starts, codes)
        for start, stop in output_slices(sizes, job.context.options.expanded_rows_max):
            found = _join_edges(job, adjacency, direction, (start, codes[start:stop]), skip_loops=number > 0)
            if found.length:
                yield found


def _join_edges(
    job: _EdgeLookup,
    adjacency: Adjacency,
    direction: op.Direction,
    part: tuple[int, Codes],
    *,
    skip_loops: bool,
) -> Frame:
    step, (start, codes) = job.step, part
    side = adjacency.side(direction)
    positions, at = expand_ranges(side.starts, codes)
    job.context.budget.require_bytes(8 * len(at) * (len(job.wanted) + len(job.frame.columns) + 2))
    far, rows = side.far[at].astype(np.int64), side.rows[at].astype(np.int64)
    kept = np.ones(len(at), dtype=np.bool_)
    if skip_loops:
        kept &= far != codes[positions]
    if step.into:
        column = job.frame.slice(start, start + len(codes)).columns[step.target.id]
        kept &= far == positions_in(adjacency.far(direction), column, job.context.cache)[positions]
    if not kept.all():
        positions, far, rows = positions[kept], far[kept], rows[kept]
    values = _edge_values(job, rows)
    if step.filter.conjuncts:
        columns = {f"{step.edge.name}.{name}": column for name, column in values.items()}
        passing = np.flatnonzero(condition_mask(step.filter.conjuncts, Frame(len(rows), columns)))
        positions, far = positions[passing], far[passing]
        values = {name: column.take(passing) for name, column in values.items()}
    new: dict[str, Column] = {f"{step.edge.name}.{name}": values[name] for name in job.wanted}
    if not step.into:
        new[step.target.id] = DictionaryColumn(far, adjacency.far(direction))
    return job.frame.take(positions + start).with_columns(new)


def _edge_values(job: _EdgeLookup, rows: Codes) -> Mapping[str, DictionaryColumn]:
    """The columns of edges by their rows in the table."""
    read = columns_to_read(job.wanted, job.step.filter)
    cached = job.walker.reader.cached_columns(read, whole=len(rows) > limits.ENGINE_TAKE_ROWS_MAX)
    if cached is not None:
        return {name: DictionaryColumn(rows, cached[name]) for name in read}
    distinct, codes = compact_codes(rows, job.walker.reader.row_count)
    arrays = job.walker.reader.take(distinct, read)
    return {
        name: DictionaryColumn(codes, ValueDictionary(array, is_unique=name == "id", is_own=True))
        for name, array in arrays.items()
    }


def _expand_by_storage(job: _EdgeLookup) -> Iterator[Frame]:
    step = job.step
    sources, numbers = distinct_sources(job.frame.columns[step.source.id])
    if not len(sources.codes):
        return
    asked = ValueDictionary(sources.array(), is_unique=True, is_own=True)
    mode = job.walker.choose_mode(len(asked))
    for number, (near, far) in enumerate(SIDES[step.direction]):
        positions, edges = _read_edges_at(job, asked, (near, far), mode, skip_loops=number > 0)
        if not len(positions):
            continue
        held = edges.nbytes
        job.context.budget.reserve(held)
        order = np.argsort(positions, kind="stable")
        starts = np.searchsorted(positions[order], np.arange(len(asked) + 1))
        _, sizes = range_counts(starts, numbers)
        for start, stop in output_slices(sizes, job.context.options.expanded_rows_max):
            rows, at = expand_ranges(starts, numbers[start:stop])
            frame = job.frame.take(rows + start)
            found = edges.take(order[at])
            if step.into:
                same = _equal_or_null_ids(
                    frame.columns[step.target.id], found.columns[f"{step.edge.name}.{far}"]
                )
                frame, found = frame.filter(same), found.filter(same)
            new = {
                f"{step.edge.name}.{name}": found.columns[f"{step.edge.name}.{name}"] for name in job.wanted
            }
            if not step.into:
                new[step.target.id] = found.columns[f"{step.edge.name}.{far}"]
            if frame.length:
                yield frame.with_columns(new)
        job.context.budget.release(held)


def _read_edges_at(
    job: _EdgeLookup, asked: ValueDictionary, ends: tuple[str, str], mode: TraversalMode, *, skip_loops: bool
) -> tuple[Codes, Frame]:
    """The edges at the asked nodes that pass the filter, and the place of the node of each."""
    step, (near, far) = job.step, ends
    conjuncts = step.filter.conjuncts
    names = (near, far, *columns_to_read(job.wanted, ScanFilter((), conjuncts)))
    positions: list[Codes] = []
    frames: list[Frame] = []
    size = 0
    for batch in job.walker.read_edges(asked.array, names, near, mode):
        frame = frame_from_batch(step.edge, batch)
        found = asked.find(batch.column(near))
        kept = (found >= 0) & condition_mask(conjuncts, frame)
        if skip_loops:
            kept &= ~_equal_ids(batch.column("src"), batch.column("dst"))
        positions.append(found[kept])
        frames.append(frame.take(np.flatnonzero(kept)).compact())
        size += positions[-1].nbytes + frames[-1].nbytes
        job.context.budget.require_bytes(size)
    if not frames:
        return np.zeros(0, dtype=np.int64), job.frame
    return np.concatenate(positions), concat_frames(frames)


def _equal_or_null_ids(one: Column, other: Column) -> Mask:
    """Where two columns of ids are equal; null is equal to nothing."""
    texts, others = (side.array() if isinstance(side, DictionaryColumn) else side for side in (one, other))
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    equal = texts.to_numpy(zero_copy_only=False) == others.to_numpy(zero_copy_only=False)
    found: Mask = np.asarray(equal) & ~missing
    return found
