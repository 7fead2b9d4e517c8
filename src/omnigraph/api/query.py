"""`Graph.query` and `Graph.prepare`: query text and parameters come in, a result goes out.

A text is parsed and checked once per schema, and planned once per snapshot of the tables it reads. The snapshot is read
when a query starts and stays the same until its last row. Nothing is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

from omnigraph.api.arguments import checked_methods
from omnigraph.api.results import Result, ResultSource
from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import UsageError
from omnigraph.base.progress import Report, ignore_progress
from omnigraph.embedding.provider import EmbeddingProvider
from omnigraph.engine.context import Trace
from omnigraph.engine.options import NO_LIMITS, QueryEngine, QueryLimits
from omnigraph.engine.run import QueryRunOptions, gather_facts, planned_modes, run_query, step_figures
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot, refresh_snapshot
from omnigraph.query.checks.run import CheckedQuery, CheckOptions, check_query
from omnigraph.query.explain import ExplainedStep, StepFigures, estimate_steps, explain_plan, explain_steps
from omnigraph.query.lint import LintReport, lint_queries
from omnigraph.query.parameters import bind_plan, coerce_params
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import query_shape
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import Location


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
    checked = check_query(file, source.name, catalog, CheckOptions(limits.hops))
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
    for _ in run_query(snapshot, plan, QueryRunOptions(limits.engine_options(), trace=trace)).batches:
        pass
    return step_figures(plan, trace)


Key = TypeVar("Key")
Value = TypeVar("Value")

_PLANS_MAX: Final = 16
_TEXTS_MAX: Final = 256


@checked_methods
@dataclass(slots=True)
class PreparedQuery:
    """One query of a text, parsed once. Plans are kept for the last few schemas and table versions."""

    source: str
    """The text of the query."""
    name: str | None = None
    """Which query of the text it is; None when the text has only one."""
    source_name: str = "<query>"
    hops_ceiling: int | None = None
    _checked: OrderedDict[str, CheckedQuery] = field(default_factory=OrderedDict, init=False)
    _reads: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    _plans: OrderedDict[tuple[object, ...], ReadPlan] = field(default_factory=OrderedDict, init=False)
    _bound: OrderedDict[tuple[int, str], tuple[ReadPlan, ReadPlan]] = field(
        default_factory=OrderedDict, init=False
    )

    def run(
        self,
        snapshot: Snapshot,
        params: Mapping[str, object] | None = None,
        options: QueryRunOptions | None = None,
    ) -> Result:
        """The rows of the query over a snapshot."""
        plan = self.plan(snapshot)
        bound = self.bind(plan, params)
        return Result(_source(plan, snapshot), run_query(snapshot, bound, options))

    def run_on_spark(
        self,
        snapshot: Snapshot,
        params: Mapping[str, object] | None = None,
        options: QueryOptions | None = None,
    ) -> Result:
        """The same rows, found by Spark; a query that searches is refused."""
        plan = self.plan(snapshot)
        bound = self.bind(plan, params)
        how = options or QueryOptions()

        from omnigraph.pipeline.query.run import SparkRun, run_query_on_spark
        from omnigraph.pipeline.spark.session import SparkSettings

        engine_options = how.limits.engine_options(limits.SPARK_QUERY_SECONDS_MAX)
        run = SparkRun(SparkSettings(how.spark_master), engine_options, how.report)
        return Result(_source(plan, snapshot), run_query_on_spark(snapshot, bound, run))

    def checked(self, snapshot: Snapshot) -> CheckedQuery:
        """The query, checked against the snapshot's schema."""
        found = self._checked.get(snapshot.schema.hash)
        if found is None:
            file = parse_queries(self.source, self.source_name)
            options = CheckOptions(self.hops_ceiling)
            found = check_query(file, self.name, snapshot.schema.catalog, options)
            _keep(self._checked, snapshot.schema.hash, found)
        return found

    def plan(self, snapshot: Snapshot) -> ReadPlan:
        """The rewritten plan for the tables of a snapshot, before parameters."""
        checked = self.checked(snapshot)
        reads = self._reads_of(checked, snapshot)
        key = (
            snapshot.identities,
            snapshot.schema.hash,
            *((alias, snapshot.tables[alias].pin) for alias in reads),
        )
        found = self._plans.get(key)
        if found is None:
            plan = checked.plan
            if not isinstance(plan, ReadPlan):
                raise UsageError(
                    f"query {checked.name} changes the graph",
                    code="query_is_mutation",
                    hint="run it with `mutate`",
                )
            facts = gather_facts(snapshot, reads)
            rewritten = rewrite_plan(plan, facts)
            assert isinstance(rewritten, ReadPlan)
            found = rewritten
            _keep(self._plans, key, found)
        return found

    def _reads_of(self, checked: CheckedQuery, snapshot: Snapshot) -> tuple[str, ...]:
        schema = snapshot.schema
        found = self._reads.get(schema.hash)
        if found is None:
            found = self._reads[schema.hash] = query_shape(checked, schema.catalog).reads
        return found

    def bind(self, plan: ReadPlan, params: Mapping[str, object] | None) -> ReadPlan:
        """The plan with the values of its parameters and the moment."""
        values = coerce_params(plan.parameters, params or {})
        key = (id(plan), repr(values))
        known = self._bound.get(key)
        if known is not None and known[0] is plan:
            return known[1]
        now = datetime.fromtimestamp(SYSTEM_CLOCK.now_us() / 1_000_000, UTC)
        bound: QueryPlan = bind_plan(plan, values, now)
        assert isinstance(bound, ReadPlan)
        # Without the word no plan asks for the time, so the same values make the same plan.
        if "now" not in self.source:
            _keep(self._bound, key, (plan, bound))
        return bound


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What runs a query, on which Spark, who makes vectors from texts, and what the query may take."""

    engine: str = "process"
    spark_master: str | None = None
    embed: EmbeddingProvider | None = None
    limits: QueryLimits = NO_LIMITS
    report: Report = ignore_progress


def run_prepared(
    query: PreparedQuery, snapshot: Snapshot, params: Mapping[str, object] | None, options: QueryOptions
) -> Result:
    """The rows of a query, as the options say."""
    if options.engine not in tuple(QueryEngine):
        raise UsageError(
            f"there is no engine '{options.engine}'", code="usage", hint="choose process or spark"
        )
    if options.engine == QueryEngine.PROCESS:
        if options.spark_master is not None:
            raise UsageError(
                "a Spark master is only for queries on Spark",
                code="usage",
                hint="choose the engine spark as well",
            )
        return query.run(
            snapshot, params, QueryRunOptions(options.limits.engine_options(), embed=options.embed)
        )
    return query.run_on_spark(snapshot, params, options)


_PREPARED: OrderedDict[tuple[str, str | None, int | None], PreparedQuery] = OrderedDict()


_NEWEST: OrderedDict[tuple[Location, str], Snapshot] = OrderedDict()


def newest_snapshot(root: Location, branch: str) -> Snapshot:
    """The branch as it is now. What was read before is used again while nothing was published since."""
    key = (root, branch)
    known = _NEWEST.get(key)
    found = read_snapshot(root, branch) if known is None else refresh_snapshot(known)
    _keep(_NEWEST, key, found)
    return found


def prepared(source: str, name: str | None = None, query_limits: QueryLimits = NO_LIMITS) -> PreparedQuery:
    """The prepared query of a text; the same one for the same text, while it is in use."""
    key = (source, name, query_limits.hops)
    found = _PREPARED.get(key)
    if found is None:
        found = PreparedQuery(source, name, hops_ceiling=query_limits.hops)
        _keep(_PREPARED, key, found, _TEXTS_MAX)
    return found


def _source(plan: ReadPlan, snapshot: Snapshot) -> ResultSource:
    return ResultSource(plan.name, snapshot.branch.name, snapshot.version, snapshot.head)


def _keep(kept: OrderedDict[Key, Value], key: Key, value: Value, most: int = _PLANS_MAX) -> None:
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
