"""Traversals that bind the edge itself, and scans of edge tables: one row per edge, parallel edges apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from omnigraph.base import limits
from omnigraph.engine.columns.domain import Codes, Mask, ValueDictionary, numbered
from omnigraph.engine.columns.expressions import holds
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    concat_frames,
    distinct_sources,
    output_slices,
    positions_in,
    range_counts,
    spread_ranges,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.operators.scan import (
    batch_frame,
    passing_positions,
    read_columns,
    streamed_rows,
    wanted_columns,
)
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.traversal.adjacency import Adjacency
from omnigraph.engine.traversal.walker import SIDES, Walker
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.operators import Direction, EdgeExpand, EdgeScan


def edge_scan_rows(step: EdgeScan, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
    """The edges that pass the filter, with the ids of their ends; undirected ones in both orientations."""
    edge = step.edge
    direction = Direction.BOTH if step.undirected else Direction.OUT
    walker = Walker(edge.table, direction, step, scope)
    wanted = wanted_columns(edge, step.columns, needed)
    whole = not step.filter.pushed and not scope.is_cut
    hot = None
    if walker.choose(walker.reader.rows) is TraversalMode.ADJACENCY:
        hot = walker.reader.hot(read_columns(wanted, step.filter), whole=whole)
    if hot is None:
        yield from _streamed_edges(step, wanted, scope)
        return
    adjacency = walker.adjacency()
    rows = passing_positions(edge, step.filter.conjuncts, hot, walker.reader)
    for start in range(0, len(rows), scope.options.frame_rows):
        part = rows[start : start + scope.options.frame_rows]
        columns: dict[str, Column] = {
            f"{edge.name}.{name}": DictionaryColumn(part, hot[name]) for name in wanted
        }
        ends: tuple[Column, Column] = (
            DictionaryColumn(adjacency.source_codes[part], adjacency.sources),
            DictionaryColumn(adjacency.target_codes[part], adjacency.targets),
        )
        yield from _oriented(step, Frame(len(part), columns), ends)


def edge_expanded_rows(step: EdgeExpand, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
    """For each row one row per edge at its source that passes the filter."""
    edge = step.edge
    walker = Walker(edge.table, step.direction, step, scope)
    wanted = wanted_columns(edge, step.columns, needed)
    own = {f"{edge.name}.{name}" for name in wanted} | (set() if step.into else {step.target.id})
    below = needed - own | {step.source.id} | ({step.target.id} if step.into else set())
    for frame in scope.rows(step.input, below):
        if not frame.length:
            continue
        if walker.choose(frame.length) is TraversalMode.ADJACENCY:
            yield from _by_adjacency(_EdgeLookup(step, wanted, frame, walker, scope))
        else:
            yield from _by_storage(_EdgeLookup(step, wanted, frame, walker, scope))


@dataclass(frozen=True, slots=True)
class _EdgeLookup:
    """One frame whose edges are looked for."""

    step: EdgeExpand
    wanted: tuple[str, ...]
    frame: Frame
    walker: Walker
    scope: ExecutionContext


def _streamed_edges(step: EdgeScan, wanted: tuple[str, ...], scope: ExecutionContext) -> Iterator[Frame]:
    edge = step.edge
    names = tuple(dict.fromkeys((*wanted, "src", "dst")))
    for frame in streamed_rows(edge, names, step.filter, scope):
        ends = (frame.columns[f"{edge.name}.src"], frame.columns[f"{edge.name}.dst"])
        yield from _oriented(step, frame.only(f"{edge.name}.{name}" for name in wanted), ends)


def _oriented(step: EdgeScan, frame: Frame, ends: tuple[Column, Column]) -> Iterator[Frame]:
    yield frame.plus({step.source.id: ends[0], step.target.id: ends[1]})
    if not step.undirected:
        return
    turned = frame.plus({step.source.id: ends[1], step.target.id: ends[0]})
    loops = _equal(ends[0], ends[1])
    rest = turned.keep(~loops)
    if rest.length:
        yield rest


def _equal(one: Column, other: Column) -> Mask:
    """Where two columns of ids are the same; none is null."""
    if (
        isinstance(one, DictionaryColumn)
        and isinstance(other, DictionaryColumn)
        and one.domain is other.domain
    ):
        same: Mask = one.codes == other.codes
        return same
    texts, others = (side.array() if isinstance(side, DictionaryColumn) else side for side in (one, other))
    return np.asarray(texts.to_numpy(zero_copy_only=False) == others.to_numpy(zero_copy_only=False))


def _by_adjacency(job: _EdgeLookup) -> Iterator[Frame]:
    adjacency = job.walker.adjacency()
    sides = (Direction.OUT, Direction.IN) if job.step.direction is Direction.BOTH else (job.step.direction,)
    for number, direction in enumerate(sides):
        near = adjacency.near(direction)
        codes = positions_in(near, job.frame.columns[job.step.source.id], job.scope.cache)
        starts = adjacency.side(direction).starts
        if len(starts) < 2:
            continue
        _, sizes = range_counts(starts, codes)
        for start, stop in output_slices(sizes, job.scope.options.expanded_rows_max):
            found = _edges_of(job, adjacency, direction, (start, codes[start:stop]), skip_loops=number > 0)
            if found.length:
                yield found


def _edges_of(
    job: _EdgeLookup, adjacency: Adjacency, direction: Direction, part: tuple[int, Codes], *, skip_loops: bool
) -> Frame:
    step, (start, codes) = job.step, part
    side = adjacency.side(direction)
    places, at = spread_ranges(side.starts, codes)
    job.scope.budget.allow(8 * len(at) * (len(job.wanted) + len(job.frame.columns) + 2))
    far, rows = side.far[at].astype(np.int64), side.rows[at].astype(np.int64)
    kept = np.ones(len(at), dtype=np.bool_)
    if skip_loops:
        kept &= far != codes[places]
    if step.into:
        column = job.frame.slice(start, start + len(codes)).columns[step.target.id]
        kept &= far == positions_in(adjacency.far(direction), column, job.scope.cache)[places]
    if not kept.all():
        places, far, rows = places[kept], far[kept], rows[kept]
    values = _edge_values(job, rows)
    if step.filter.conjuncts:
        columns = {f"{step.edge.name}.{name}": column for name, column in values.items()}
        passing = np.flatnonzero(holds(step.filter.conjuncts, Frame(len(rows), columns)))
        places, far = places[passing], far[passing]
        values = {name: column.take(passing) for name, column in values.items()}
    new: dict[str, Column] = {f"{step.edge.name}.{name}": values[name] for name in job.wanted}
    if not step.into:
        new[step.target.id] = DictionaryColumn(far, adjacency.far(direction))
    return job.frame.take(places + start).plus(new)


def _edge_values(job: _EdgeLookup, rows: Codes) -> Mapping[str, DictionaryColumn]:
    """The columns of edges by their rows in the table."""
    read = read_columns(job.wanted, job.step.filter)
    hot = job.walker.reader.hot(read, whole=len(rows) > limits.ENGINE_TAKE_ROWS_MAX)
    if hot is not None:
        return {name: DictionaryColumn(rows, hot[name]) for name in read}
    distinct, codes = numbered(rows, job.walker.reader.rows)
    arrays = job.walker.reader.at(distinct, read)
    return {
        name: DictionaryColumn(codes, ValueDictionary(array, is_unique=name == "id", is_own=True))
        for name, array in arrays.items()
    }


def _by_storage(job: _EdgeLookup) -> Iterator[Frame]:
    step = job.step
    sources, numbers = distinct_sources(job.frame.columns[step.source.id])
    if not len(sources.codes):
        return
    asked = ValueDictionary(sources.array(), is_unique=True, is_own=True)
    mode = job.walker.choose(len(asked))
    for number, (near, far) in enumerate(SIDES[step.direction]):
        places, edges = _fetched(job, asked, (near, far), mode, skip_loops=number > 0)
        if not len(places):
            continue
        held = edges.nbytes
        job.scope.budget.hold(held)
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(len(asked) + 1))
        _, sizes = range_counts(starts, numbers)
        for start, stop in output_slices(sizes, job.scope.options.expanded_rows_max):
            rows, at = spread_ranges(starts, numbers[start:stop])
            frame = job.frame.take(rows + start)
            found = edges.take(order[at])
            if step.into:
                same = _same_text(frame.columns[step.target.id], found.columns[f"{step.edge.name}.{far}"])
                frame, found = frame.keep(same), found.keep(same)
            new = {
                f"{step.edge.name}.{name}": found.columns[f"{step.edge.name}.{name}"] for name in job.wanted
            }
            if not step.into:
                new[step.target.id] = found.columns[f"{step.edge.name}.{far}"]
            if frame.length:
                yield frame.plus(new)
        job.scope.budget.release(held)


def _fetched(
    job: _EdgeLookup, asked: ValueDictionary, ends: tuple[str, str], mode: TraversalMode, *, skip_loops: bool
) -> tuple[Codes, Frame]:
    """The edges at the asked nodes that pass the filter, and the place of the node of each."""
    step, (near, far) = job.step, ends
    conjuncts = step.filter.conjuncts
    names = (near, far, *read_columns(job.wanted, ScanFilter((), conjuncts)))
    places: list[Codes] = []
    frames: list[Frame] = []
    size = 0
    for batch in job.walker.edges(asked.array, names, near, mode):
        frame = batch_frame(step.edge, batch)
        found = asked.find(batch.column(near))
        kept = (found >= 0) & holds(conjuncts, frame)
        if skip_loops:
            kept &= ~_equal(batch.column("src"), batch.column("dst"))
        places.append(found[kept])
        frames.append(frame.take(np.flatnonzero(kept)).settled())
        size += places[-1].nbytes + frames[-1].nbytes
        job.scope.budget.allow(size)
    if not frames:
        return np.zeros(0, dtype=np.int64), job.frame
    return np.concatenate(places), concat_frames(frames)


def _same_text(one: Column, other: Column) -> Mask:
    """Where two columns of ids are equal; null is equal to nothing."""
    texts, others = (side.array() if isinstance(side, DictionaryColumn) else side for side in (one, other))
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    equal = texts.to_numpy(zero_copy_only=False) == others.to_numpy(zero_copy_only=False)
    found: Mask = np.asarray(equal) & ~missing
    return found
