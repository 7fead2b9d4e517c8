"""Queries from their text: parsed and checked once per schema, planned once per version of the tables that they read.

In: query text, a snapshot, parameters. Out: a bound plan for the engine or for Spark, or the explanation of one. The
caches keep the last few plans and snapshots of this process. Nothing is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.display import Displayed
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, action, hint
from omnigraph.engine.context import Trace
from omnigraph.engine.embedding import embed_texts
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.engine.run import QueryRunOptions, gather_facts, planned_modes, run_query, step_figures
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.checks.run import CheckedQuery, check_query
from omnigraph.query.explain import ExplainedStep, estimate_steps, explain_plan, explain_steps
from omnigraph.query.parameters import bind_plan, coerce_params
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.walk import reads_clock
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import query_shape

if TYPE_CHECKING:
    from omnigraph.embedding.provider import AnyProvider

Key = TypeVar("Key")
Value = TypeVar("Value")

_PLANS_MAX: Final = 16
_TEXTS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Query text, its name in messages, and the name of the query to use. None: the text has one query."""

    text: str
    source: str = "<query>"
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlanner:
    """One query of a text, parsed once. It keeps plans for the last few schemas and table versions."""

    source: QuerySource
    hops_ceiling: int | None = None
    _checked: OrderedDict[str, tuple[CheckedQuery, tuple[str, ...]]] = field(default_factory=OrderedDict, init=False)
    _plans: OrderedDict[tuple[object, ...], ReadPlan] = field(default_factory=OrderedDict, init=False)
    _bound: OrderedDict[tuple[object, ...], tuple[ReadPlan, ReadPlan]] = field(default_factory=OrderedDict, init=False)

    def check(self, snapshot: Snapshot) -> tuple[CheckedQuery, tuple[str, ...]]:
        """Return the query, checked against the schema of the snapshot, and the tables that it reads."""
        schema = snapshot.schema
        entry = self._checked.get(schema.hash)
        if entry is None:
            file = parse_queries(self.source.text, self.source.source)
            checked = check_query(file, self.source.name, schema.catalog, self.hops_ceiling)
            entry = (checked, query_shape(checked, schema.catalog).reads)
            _store(self._checked, schema.hash, entry)
        return entry

    def plan(self, snapshot: Snapshot) -> ReadPlan:
        """Return the rewritten plan for the tables of a snapshot, without values of parameters."""
        checked, reads = self.check(snapshot)
        key = (snapshot.identities, snapshot.schema.hash, *((alias, snapshot.tables[alias].pin) for alias in reads))
        cached = self._plans.get(key)
        if cached is not None:
            return cached
        if not isinstance(checked.plan, ReadPlan):
            raise UsageError(
                f"query '{checked.name}' is a mutation",
                code="query_is_mutation",
                hint=hint("Run it with {}.", action("mutate")),
            )
        rewritten = rewrite_plan(checked.plan, gather_facts(snapshot, reads))
        assert isinstance(rewritten, ReadPlan)
        _store(self._plans, key, rewritten)
        return rewritten

    def bound_plan(self, snapshot: Snapshot, params: Mapping[str, object] | None) -> ReadPlan:
        """Return the plan to run on a snapshot, with the values of its parameters and the current time."""
        plan = self.plan(snapshot)
        values = coerce_params(plan.parameters, params or {})
        key = (id(plan), *values.items())
        cached = self._bound.get(key)
        if cached is not None and cached[0] is plan:
            return cached[1]
        now = datetime.fromtimestamp(SYSTEM_CLOCK.now_us() / 1_000_000, UTC)
        bound = bind_plan(plan, values, now)
        assert isinstance(bound, ReadPlan)
        if not reads_clock(plan):
            _store(self._bound, key, (plan, bound))
        return bound


@lru_cache(_TEXTS_MAX)
def find_planner(source: QuerySource, hops_ceiling: int | None = None) -> QueryPlanner:
    """Return the planner of a text: the same one for the same text, for as long as it is cached."""
    return QueryPlanner(source=source, hops_ceiling=hops_ceiling)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ExplainResult(Displayed):
    """How a query would run on a state of the graph, or how it ran."""

    query_name: str
    """The name of the query in its text."""
    branch: str
    """The branch that it reads."""
    commit: str
    """The commit that it reads."""
    text: str
    """The plan as text, one line per step."""
    steps: tuple[ExplainedStep, ...]
    """The steps as values."""

    def _summary(self) -> Mapping[str, object]:
        return {"query_name": self.query_name, "text": self.text}

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Whether to run the query, within which limits, and the provider that embeds its text."""

    analyze: bool = False
    limits: QueryLimits = NO_LIMITS
    embed: AnyProvider | None = None


def explain_query(
    snapshot: Snapshot,
    source: QuerySource,
    params: Mapping[str, object] | None = None,
    options: ExplainOptions | None = None,
) -> ExplainResult:
    """Return the plan of a query; with parameters, the plan for exactly those values. `analyze` also runs it."""
    options = options or ExplainOptions()
    limits = options.limits
    checked, reads = QueryPlanner(source=source, hops_ceiling=limits.hops).check(snapshot)
    facts = gather_facts(snapshot, reads)
    plan = rewrite_plan(checked.plan, facts)
    if params is not None or options.analyze:
        plan = bind_plan(plan, coerce_params(plan.parameters, params or {}), datetime.now(UTC))
    figures = dict(estimate_steps(plan, facts))
    estimates = {number: figure.rows_estimated or 0 for number, figure in figures.items()}
    for number, (mode, reason) in planned_modes(snapshot, plan, estimates, limits.engine_options()).items():
        figures[number] = replace(figures[number], mode=mode, reason=reason)
    if options.analyze:
        if not isinstance(plan, ReadPlan):
            raise UsageError(
                f"cannot analyze query '{plan.name}': it is a mutation",
                code="query_is_mutation",
                hint=hint("Omit {} to see the plan.", Argument("analyze")),
            )
        trace = Trace()
        run = QueryRunOptions(limits.engine_options(), trace=trace)
        embedded = embed_texts(plan, options.embed)  # the trace has the steps of the plan that runs
        for _ in run_query(snapshot, embedded, run).batches:
            pass
        for number, measured in step_figures(embedded, trace).items():
            figures[number] = replace(measured, rows_estimated=figures[number].rows_estimated)
    return ExplainResult(
        query_name=checked.name,
        branch=snapshot.branch.name,
        commit=snapshot.head,
        text=explain_plan(plan, figures),
        steps=explain_steps(plan, figures),
    )


def _store(cache: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    cache[key] = value
    if len(cache) > _PLANS_MAX:
        cache.popitem(last=False)
