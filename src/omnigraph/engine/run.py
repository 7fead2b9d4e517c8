"""Runs a read plan over one snapshot.

In: a snapshot, a rewritten plan whose parameters are bound, limits. Out: a schema and a stream of Arrow batches,
computed while the caller reads them. Nothing is written; an abandoned query leaves nothing but cached columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.base.errors import InvariantError
from omnigraph.engine.cache import SHARED_CACHE, Cache
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.context import ExecutionContext, RequiredColumns, Trace
from omnigraph.engine.embedding import embed_texts
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.aggregate import aggregate_rows
from omnigraph.engine.operators.joins import cross_join, exists_join, left_join
from omnigraph.engine.operators.rows import filter_rows, limit_rows, project_rows, result_schema, sort_rows
from omnigraph.engine.operators.scan import choose_text_predicate, lookup_rows, predicate_mode, scan_rows
from omnigraph.engine.operators.search import plan_ranked, score_rows, search_mode
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.tables import TableReader
from omnigraph.engine.traversal.edges import expand_edges, scan_edges
from omnigraph.engine.traversal.expand import expand_rows, filter_connected
from omnigraph.engine.traversal.walker import Traversal, Walker
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.explain import StepFigures, numbered_steps
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.ranked import find_ranked
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.plan.types import PlanFacts

if TYPE_CHECKING:
    from omnigraph.embedding.provider import AnyProvider

DEFAULT_OPTIONS: Final = EngineOptions()


@dataclass(frozen=True, slots=True)
class QueryRunOptions:
    """The limits of a run, the cache between runs, the trace to fill, and the provider that embeds text."""

    engine: EngineOptions = DEFAULT_OPTIONS
    cache: Cache = SHARED_CACHE
    trace: Trace | None = None
    embed: AnyProvider | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """The schema of a result, and its batches, to be read once. Reserve bytes in `budget` to hold all batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    budget: Budget


def run_query(snapshot: Snapshot, plan: ReadPlan, options: QueryRunOptions | None = None) -> Stream:
    """Start a bound plan; it runs while the caller reads the batches."""
    options = options or QueryRunOptions()
    root = embed_texts(plan, options.embed).root
    if not isinstance(root, op.Project):
        raise InvariantError("a read plan must end with `Project`", code="plan_invariant")
    context = _make_context(snapshot, options)
    return Stream(result_schema(root), project_rows(root, context), context.budget)


def run_rows(snapshot: Snapshot, relation: Relation, needed: RequiredColumns, budget: Budget) -> Iterator[Frame]:
    """Return the rows of a bound relation, as frames with at least the needed columns; mutations read them."""
    return _make_context(snapshot, QueryRunOptions(), budget).run_operator(relation, needed)


def gather_facts(snapshot: Snapshot, aliases: tuple[str, ...], options: QueryRunOptions | None = None) -> PlanFacts:
    """Return the sizes and the indexes of tables (`node:Person`), for the rules; read once per published version."""
    options = options or QueryRunOptions()
    tables = snapshot.tables
    return PlanFacts(
        {alias: TableReader(snapshot, tables[alias], options.cache, options.engine).facts() for alias in aliases}
    )


def step_figures(plan: QueryPlan, trace: Trace) -> dict[int, StepFigures]:
    """Return the figures of a run by the number of the step, for `explain_plan`."""
    figures = {}
    for number, operator in enumerate(numbered_steps(plan), start=1):
        mode, reason = trace.modes.get(id(operator), (None, None))
        figures[number] = StepFigures(
            rows=trace.rows.get(id(operator)), seconds=trace.seconds.get(id(operator)), mode=mode, reason=reason
        )
    return figures


def planned_modes(
    snapshot: Snapshot, plan: QueryPlan, rows: Mapping[int, int], options: EngineOptions = DEFAULT_OPTIONS
) -> dict[int, tuple[str, str]]:
    """Return how each traversal and search would run, and why, by step number; `rows` has estimates by number."""
    context = _make_context(snapshot, QueryRunOptions(options))
    modes: dict[int, tuple[str, str]] = {}
    for number, operator in enumerate(numbered_steps(plan), start=1):
        if isinstance(operator, Traversal):
            walker = Walker(operator, context)
            # The rows that a traversal starts from are those of the next step.
            frontier = walker.reader.row_count if isinstance(operator, op.EdgeScan) else rows.get(number + 1, 1)
            mode, reason = walker.estimate_mode(frontier)
            modes[number] = (mode.value, reason)
        elif isinstance(operator, op.Scan):
            predicate, choice = choose_text_predicate(operator, context)
            if predicate is not None:
                modes[number] = (predicate_mode(choice), choice.reason)
        elif isinstance(operator, op.LimitRows) and (ranked := find_ranked(operator)):
            # The order, and possibly a filter, are between the limit and its search.
            search_number = number + (3 if ranked.conditions else 2)
            counts = (part.value for part in (operator.count, operator.offset) if isinstance(part, ex.Literal))
            count = sum(value for value in counts if isinstance(value, int))
            choice = plan_ranked(ranked, max(count, 1), context, rows.get(search_number + 1, 0)).choice
            modes[search_number] = (search_mode(ranked.score.expression, choice), choice.reason)
    return modes


def _make_context(snapshot: Snapshot, options: QueryRunOptions, budget: Budget | None = None) -> ExecutionContext:
    return ExecutionContext(
        snapshot=snapshot,
        budget=budget or Budget(options.engine),
        options=options.engine,
        cache=options.cache,
        dispatch=_run_operator,
        trace=options.trace,
    )


def _run_operator(operator: Relation, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    run_operator = _OPERATORS.get(type(operator))
    if run_operator is None:
        raise InvariantError(f"cannot run a plan operator of type {type(operator).__name__}", code="plan_invariant")
    frames = run_operator(operator, needed, context)
    if context.trace is not None:
        frames = _trace_frames(operator, frames, context.trace)
    for frame in frames:
        context.budget.require_time()
        yield frame


def _trace_frames(operator: Relation, frames: Iterator[Frame], trace: Trace) -> Iterator[Frame]:
    trace.rows.setdefault(id(operator), 0)
    while True:
        began = time.perf_counter()
        frame = next(frames, None)
        trace.seconds[id(operator)] = trace.seconds.get(id(operator), 0.0) + time.perf_counter() - began
        if frame is None:
            return
        trace.rows[id(operator)] += frame.row_count
        yield frame


def _unit_rows(_operator: op.Unit, _needed: RequiredColumns, _context: ExecutionContext) -> Iterator[Frame]:
    yield Frame(1, {})


def _outer_rows(_operator: op.OuterRow, _needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    assert context.outer is not None, "an inner plan needs outer rows"
    yield context.outer


_OPERATORS: Final[Mapping[type, Callable[[Any, RequiredColumns, ExecutionContext], Iterator[Frame]]]] = {
    op.Unit: _unit_rows,
    op.OuterRow: _outer_rows,
    op.Scan: scan_rows,
    op.EdgeScan: scan_edges,
    op.Expand: expand_rows,
    op.ExpandInto: filter_connected,
    op.EdgeExpand: expand_edges,
    op.Lookup: lookup_rows,
    op.FilterRows: filter_rows,
    op.CrossJoin: cross_join,
    op.ExistsJoin: exists_join,
    op.LeftJoin: left_join,
    op.Aggregate: aggregate_rows,
    op.Order: sort_rows,
    op.LimitRows: limit_rows,
    op.Search: score_rows,
}
"""All operators except `Pattern`, which the rules replace, and `Project`, which `run_query` runs."""
