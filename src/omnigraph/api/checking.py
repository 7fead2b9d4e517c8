"""What can be said about queries without running them: `lint` for files of them, `explain` for one on a graph.

In: texts as users wrote them. Out: a `LintReport`, or the plan that a snapshot's facts lead to. Nothing here writes,
and no rows are read unless `analyze` asks to run the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from omnigraph.base.errors import UsageError
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.engine.run import RunOptions, gather_facts, planned_modes, run_query, step_figures
from omnigraph.engine.scope import Trace
from omnigraph.graph.snapshot import Snapshot
from omnigraph.query import (
    ExplainedStep,
    LintReport,
    QueryPlan,
    ReadPlan,
    StepFigures,
    bind_plan,
    coerce_params,
    explain_plan,
    explain_steps,
    lint_queries,
    parse_queries,
    query_shape,
    rewrite_plan,
)
from omnigraph.query.check import CheckOptions
from omnigraph.query.selection import check_chosen
from omnigraph.query.step_estimates import estimate_steps
from omnigraph.schema import Catalog, build_catalog, parse_schema


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A text with queries, what messages call it, and which of its queries is meant; None is the only one."""

    text: str
    source: str = "<query>"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """A query as it would run on a snapshot."""

    query_name: str
    snapshot: Snapshot
    text: str
    steps: tuple[ExplainedStep, ...]


def catalog_of_text(text: str, source: str) -> Catalog:
    """The catalog that a schema text would have, for checking queries before there is a graph."""
    return build_catalog(parse_schema(text, source))


def lint_texts(
    texts: Sequence[tuple[str, str]], catalog: Catalog, limits: QueryLimits = NO_LIMITS
) -> LintReport:
    """Every problem of the texts, which are pairs of a name and a text."""
    return lint_queries(texts, catalog, CheckOptions(limits.hops))


def explain_query(
    snapshot: Snapshot,
    source: QuerySource,
    params: Mapping[str, object] | None = None,
    *,
    analyze: bool = False,
    limits: QueryLimits = NO_LIMITS,
) -> Explained:
    """The plan of a query; with parameters, the plan for exactly those values. `analyze` also runs it."""
    catalog = snapshot.schema.catalog
    file = parse_queries(source.text, source.source)
    checked = check_chosen(file, source.name, catalog, CheckOptions(limits.hops))
    facts = gather_facts(snapshot, query_shape(checked, catalog).reads)
    plan: QueryPlan = rewrite_plan(checked.plan, facts)
    if params is not None or analyze:
        plan = bind_plan(plan, coerce_params(plan.parameters, params or {}), datetime.now(UTC))
    figures = dict(estimate_steps(plan, facts))
    estimates = {number: found.rows_estimated or 0 for number, found in figures.items()}
    for number, (mode, reason) in planned_modes(snapshot, plan, estimates).items():
        figures[number] = replace(figures[number], mode=mode, reason=reason)
    if analyze:
        for number, found in _run(snapshot, plan, limits).items():
            figures[number] = replace(found, rows_estimated=figures[number].rows_estimated)
    return Explained(checked.name, snapshot, explain_plan(plan, figures), explain_steps(plan, figures))


def _run(snapshot: Snapshot, plan: QueryPlan, limits: QueryLimits) -> Mapping[int, StepFigures]:
    """Run a read to its end, for what its steps did; its rows are thrown away."""
    if not isinstance(plan, ReadPlan):
        raise UsageError(
            f"query {plan.name} changes the graph, and only a read can be analyzed",
            code="query_is_mutation",
            hint="explain it without analyzing to see its plan",
        )
    trace = Trace()
    for _ in run_query(snapshot, plan, RunOptions(limits.engine_options(), trace=trace)).batches:
        pass
    return step_figures(plan, trace)
