"""Runs a read plan over one snapshot.

Comes in: a snapshot, a rewritten plan whose parameters are bound, budgets. Goes out: a schema and a stream of Arrow
batches, made as they are asked for. Nothing is written; a query that is given up holds nothing but cached columns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.base.errors import InvariantError
from omnigraph.embedding.provider import EmbeddingProvider
from omnigraph.engine.cache import SHARED_CACHE, Cache
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.context import ExecutionContext, RequiredColumns, Tables, Trace
from omnigraph.engine.embedding import with_vectors
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.aggregate import aggregate_rows
from omnigraph.engine.operators.joins import crossed_rows, exists_rows, left_joined_rows
from omnigraph.engine.operators.rows import (
    filtered_rows,
    limited_rows,
    ordered_rows,
    projected_rows,
    result_schema,
)
from omnigraph.engine.operators.scan import looked_up_rows, scan_rows
from omnigraph.engine.operators.search import searched_rows
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.tables import TableReader
from omnigraph.engine.traversal.edges import edge_expanded_rows, edge_scan_rows
from omnigraph.engine.traversal.expand import checked_rows, expanded_rows
from omnigraph.engine.traversal.walker import Walker
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.explain import StepFigures, numbered_steps
from omnigraph.query.plan.operators import (
    Aggregate,
    Argument,
    CrossJoin,
    Direction,
    EdgeExpand,
    EdgeScan,
    ExistsJoin,
    Expand,
    ExpandInto,
    FilterRows,
    LeftJoin,
    LimitRows,
    Lookup,
    Order,
    Pattern,
    Project,
    Relation,
    Scan,
    Search,
    Unit,
)
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.plan.types import PlanFacts

DEFAULT_OPTIONS: Final = EngineOptions()


@dataclass(frozen=True, slots=True)
class QueryRunOptions:
    """How a plan is run, what is kept between runs, where to note what each step did, and who embeds texts."""

    engine: EngineOptions = DEFAULT_OPTIONS
    cache: Cache = field(default_factory=lambda: SHARED_CACHE)
    trace: Trace | None = None
    embed: EmbeddingProvider | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """The schema of a result, and its batches, which can be taken once; who keeps them all counts them as held."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    budget: Budget


def run_query(snapshot: Snapshot, plan: ReadPlan, options: QueryRunOptions | None = None) -> Stream:
    """Start a bound plan; its work happens while the batches are taken."""
    how = options or QueryRunOptions()
    root = with_vectors(plan, how.embed).root
    if not isinstance(root, Project):
        raise InvariantError("a read plan ends with its columns", code="plan_invariant")
    scope = _scope(snapshot, how)
    return Stream(result_schema(root), projected_rows(root, scope), scope.budget)


def run_rows(
    snapshot: Snapshot, relation: Relation, needed: RequiredColumns, budget: Budget
) -> Iterator[Frame]:
    """The rows of any bound relation, as frames with at least the needed columns: what mutations read."""
    scope = _scope(snapshot, QueryRunOptions(), budget)
    return scope.rows(relation, needed)


def gather_facts(
    snapshot: Snapshot, aliases: tuple[str, ...], options: QueryRunOptions | None = None
) -> PlanFacts:
    """What the rules want to know about these tables (`node:Person`): read once per published version."""
    how = options or QueryRunOptions()
    readers = {
        alias: TableReader(snapshot, snapshot.tables[alias], how.cache, how.engine) for alias in aliases
    }
    return PlanFacts({alias: reader.facts() for alias, reader in readers.items()})


def step_figures(plan: QueryPlan, trace: Trace) -> dict[int, StepFigures]:
    """What a run noted, by the number of the step, for `explain_plan`."""
    figures = {}
    for number, step in enumerate(numbered_steps(plan), start=1):
        mode, reason = trace.modes.get(id(step), (None, None))
        figures[number] = StepFigures(
            rows=trace.rows.get(id(step)), seconds=trace.seconds.get(id(step)), mode=mode, reason=reason
        )
    return figures


def planned_modes(snapshot: Snapshot, plan: QueryPlan, rows: Mapping[int, int]) -> dict[int, tuple[str, str]]:
    """How each traversal would follow its edges, and why, by the number of the step; `rows` are estimates by number."""
    scope = _scope(snapshot, QueryRunOptions())
    found: dict[int, tuple[str, str]] = {}
    for number, step in enumerate(numbered_steps(plan), start=1):
        match step:
            case Expand() | ExpandInto():
                walker = Walker(step.table, step.direction, step, scope)
            case EdgeExpand():
                walker = Walker(step.edge.table, step.direction, step, scope)
            case EdgeScan():
                direction = Direction.BOTH if step.undirected else Direction.OUT
                walker = Walker(step.edge.table, direction, step, scope)
            case _:
                continue
        # The rows that a traversal starts from are those of the next step.
        frontier = walker.reader.rows if isinstance(step, EdgeScan) else rows.get(number + 1, 1)
        mode, reason = walker.guess(frontier)
        found[number] = (mode.value, reason)
    return found


def _scope(snapshot: Snapshot, how: QueryRunOptions, given: Budget | None = None) -> ExecutionContext:
    budget = given or Budget(how.engine)
    return ExecutionContext(
        tables=Tables(snapshot, how.cache, how.engine, budget),
        budget=budget,
        options=how.engine,
        cache=how.cache,
        dispatch=_step_rows if how.trace is None else _traced_rows,
        trace=how.trace,
    )


def _traced_rows(step: Relation, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
    trace = scope.trace
    assert trace is not None
    trace.rows.setdefault(id(step), 0)
    frames = _step_rows(step, needed, scope)
    while True:
        began = time.perf_counter()
        frame = next(frames, None)
        trace.seconds[id(step)] = trace.seconds.get(id(step), 0.0) + time.perf_counter() - began
        if frame is None:
            return
        trace.rows[id(step)] += frame.row_count
        yield frame


def _step_rows(step: Relation, needed: RequiredColumns, scope: ExecutionContext) -> Iterator[Frame]:
    for frame in _frames(step, needed, scope):
        scope.budget.tick()
        yield frame


def _frames(  # noqa: PLR0912 - one case per step
    step: Relation, needed: RequiredColumns, scope: ExecutionContext
) -> Iterator[Frame]:
    match step:
        case Unit():
            return iter((Frame(1, {}),))
        case Argument():
            assert scope.outer is not None, "an inner plan has outer rows"
            return iter((scope.outer,))
        case Scan():
            return scan_rows(step, needed, scope)
        case EdgeScan():
            return edge_scan_rows(step, needed, scope)
        case Expand():
            return expanded_rows(step, needed, scope)
        case ExpandInto():
            return checked_rows(step, needed, scope)
        case EdgeExpand():
            return edge_expanded_rows(step, needed, scope)
        case Lookup():
            return looked_up_rows(step, needed, scope)
        case FilterRows():
            return filtered_rows(step, needed, scope)
        case CrossJoin():
            return crossed_rows(step, needed, scope)
        case ExistsJoin():
            return exists_rows(step, needed, scope)
        case LeftJoin():
            return left_joined_rows(step, needed, scope)
        case Aggregate():
            return aggregate_rows(step, scope.cut(False))
        case Order():
            return ordered_rows(step, needed, scope)
        case LimitRows():
            return limited_rows(step, needed, scope)
        case Search():
            return searched_rows(step, needed, scope)
        case Project() | Pattern():
            raise InvariantError(f"{type(step).__name__} is no step to run", code="plan_invariant")
        case _:
            assert_never(step)
