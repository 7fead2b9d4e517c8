"""What can be said about queries without running them: `lint` for files of them, `explain` for one on a graph.

In: texts as users wrote them. Out: a `LintReport`, or the plan that a snapshot's facts lead to. Nothing here writes,
and no rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from omnigraph.engine.run import gather_facts
from omnigraph.graph.snapshot import Snapshot
from omnigraph.query import (
    ExplainedStep,
    LintReport,
    QueryPlan,
    bind_plan,
    check_queries,
    coerce_params,
    explain_plan,
    explain_steps,
    lint_queries,
    parse_queries,
    query_shape,
    rewrite_plan,
)
from omnigraph.query.selection import choose_query
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


def lint_texts(texts: Sequence[tuple[str, str]], catalog: Catalog) -> LintReport:
    """Every problem of the texts, which are pairs of a name and a text."""
    return lint_queries(texts, catalog)


def explain_query(
    snapshot: Snapshot, source: QuerySource, params: Mapping[str, object] | None = None
) -> Explained:
    """The plan of a query; with parameters, the plan for exactly those values."""
    catalog = snapshot.schema.catalog
    checked = choose_query(check_queries(parse_queries(source.text, source.source), catalog), source.name)
    shape = query_shape(checked, catalog)
    facts = gather_facts(snapshot, shape.reads)
    plan: QueryPlan = rewrite_plan(checked.plan, facts)
    if params is not None:
        plan = bind_plan(plan, coerce_params(plan.parameters, params), datetime.now(UTC))
    figures = estimate_steps(plan, facts)
    return Explained(checked.name, snapshot, explain_plan(plan, figures), explain_steps(plan, figures))
