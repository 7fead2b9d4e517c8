"""The engine and the reference return the same rows, for generated queries over a pool of graphs, in all modes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.base.errors import QueryTextError
from omnigraph.engine.cache import Cache
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.engine.run import QueryRunOptions, gather_facts, run_query
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.types import NO_FACTS
from omnigraph.query.rules.run import rewrite_plan
from tests.engine.pool import Pool, make_pool
from tests.query.golden_files import checked
from tests.query.reference import run
from tests.query.sample_graphs import choices, comparable
from tests.query.sample_parameters import as_written, bound
from tests.query.sample_queries import SampleQuery, queries

Graphs = tuple[tuple[dict[str, int], list[TraversalMode | None]], ...]


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return make_pool(tmp_path_factory.mktemp("pool"))


# Three graphs for one generated query, each with two ways to follow edges.
rounds = st.tuples(
    *(st.tuples(choices, st.permutations((None, *TraversalMode)).map(lambda modes: modes[:2])) for _ in range(3))
)


suppressed_checks: Final = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(asked=queries(searches=True), graphs=rounds, variant=st.integers(0, 7))
@settings(max_examples=400, suppress_health_check=suppressed_checks)
def test_engine_and_reference_return_the_same_rows(
    pool: Pool, asked: SampleQuery, graphs: Graphs, variant: int
) -> None:
    """Run each query over three graphs, each in two ways to follow edges: 1,200 examples in 2,400 runs.

    All kinds of traversals, nested blocks, filters, groups, order, limits, parameters, text predicates and scores.
    """
    check_generated(pool, asked, graphs, variant)


@pytest.mark.soak
@given(asked=queries(searches=True), graphs=rounds, variant=st.integers(0, 7))
@settings(max_examples=8000, suppress_health_check=suppressed_checks)
def test_many_more_queries(pool: Pool, asked: SampleQuery, graphs: Graphs, variant: int) -> None:
    check_generated(pool, asked, graphs, variant)


def check_generated(pool: Pool, asked: SampleQuery, graphs: Graphs, variant: int) -> None:
    try:
        (query,) = checked(asked.text)
    except QueryTextError:
        return
    plan = rewrite_plan(query.plan, NO_FACTS)
    for numbers, modes in graphs:
        snapshot, tables = pool.choose(numbers)
        if variant % 2:
            plan = rewrite_plan(query.plan, gather_facts(snapshot, tuple(tables), QueryRunOptions(cache=CACHE)))
        assert isinstance(plan, ReadPlan)
        reference_rows = run(as_written(plan, asked.values).root, tables)
        expected = comparable([list(row.items()) for row in reference_rows], plan)
        bound_plan = bound(plan, asked.values)
        for mode in modes:
            options = EngineOptions(mode=mode, cached=variant != 3, frame_rows=2 if variant == 5 else 1000)
            assert comparable(rows_of(snapshot, bound_plan, options), plan) == expected, (mode, asked)


CACHE: Final = Cache()


def rows_of(snapshot: Snapshot, plan: ReadPlan, options: EngineOptions) -> list[list[tuple[str, Any]]]:
    stream = run_query(snapshot, plan, QueryRunOptions(options, CACHE))
    return [list(row.items()) for batch in stream.batches for row in batch.to_pylist()]
