"""The engine against the reference: generated queries over a pool of graphs, in every mode, give the same rows."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.base.errors import QueryTextError
from omnigraph.engine.cache import Cache
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.engine.run import RunOptions, gather_facts, run_query
from omnigraph.graph.snapshot import Snapshot
from omnigraph.query import NO_FACTS, ReadPlan, rewrite_plan
from omnigraph.query.plan import Order
from omnigraph.query.plan_walk import steps_of
from tests.engine.pool import VARIANTS, Pool, make_pool
from tests.engine.queries import queries
from tests.query.golden_files import checked
from tests.query.reference import run

MODES: Final = (None, *TraversalMode)


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return make_pool(tmp_path_factory.mktemp("pool"))


choices = st.fixed_dictionaries({alias: st.integers(0, count - 1) for alias, count in VARIANTS.items()})


@given(text=queries(), numbers=choices, how=st.integers(0, 7))
@settings(
    max_examples=2_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_engine_gives_the_rows_of_the_reference(
    pool: Pool, text: str, numbers: dict[str, int], how: int
) -> None:
    try:
        (query,) = checked(text)
    except QueryTextError:
        return
    snapshot, tables = pool.choose(numbers)
    aliases = tuple(snapshot.tables)
    facts = gather_facts(snapshot, aliases, RunOptions(cache=CACHE)) if how % 2 else NO_FACTS
    plan = rewrite_plan(query.plan, facts)
    assert isinstance(plan, ReadPlan)
    expected = [list(row.items()) for row in run(plan.root, tables)]
    for mode in MODES:
        options = EngineOptions(mode=mode, cached=how != 3, frame_rows=2 if how == 5 else 1000)
        found = rows_of(snapshot, plan, options)
        assert comparable(found, plan) == comparable(expected, plan), (mode, text)


CACHE: Final = Cache()


def rows_of(snapshot: Snapshot, plan: ReadPlan, options: EngineOptions) -> list[list[tuple[str, Any]]]:
    stream = run_query(snapshot, plan, RunOptions(options, CACHE))
    return [list(row.items()) for batch in stream.batches for row in batch.to_pylist()]


def comparable(rows: list[list[tuple[str, Any]]], plan: ReadPlan) -> Any:
    """Rows in order where the query asks for one, otherwise as a bag; floats as far as an order of adding goes."""
    shown = [tuple((name, _value(cell)) for name, cell in row) for row in rows]
    is_ordered = any(isinstance(step, Order) for step in steps_of(plan.root))
    return shown if is_ordered else Counter(shown)


def _value(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.12g}") + 0.0 if math.isfinite(cell) else str(cell)
    if isinstance(cell, dict):
        return tuple(_value(member) for member in cell.values())
    if isinstance(cell, tuple) and cell and isinstance(cell[0], tuple):
        return tuple(_value(member) for _, member in cell)
    return tuple(cell) if isinstance(cell, list) else cell
