"""Rules compared with the reference: on small random graphs, a rewritten plan returns the same rows."""

from __future__ import annotations

import random
from functools import cache
from typing import Final

from hypothesis import given, settings

from omnigraph.base.errors import QueryTextError
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.plan.types import NO_FACTS, PlanFacts, TableFacts
from omnigraph.query.rules.run import RULES, rewrite_plan
from tests.query.golden_files import checked
from tests.query.reference import Tables, run
from tests.query.sample_graphs import VARIANTS, Rows, choices, comparable, sample_rows
from tests.query.sample_parameters import as_written, bound
from tests.query.sample_queries import SampleQuery, queries

FACTS: Final = PlanFacts({"node:Person": TableFacts(rows=3), "edge:Knows": TableFacts(rows=9)})


@cache
def all_rows() -> dict[str, list[Rows]]:
    dice = random.Random(7)
    return {alias: [sample_rows(alias, number, dice) for number in range(count)] for alias, count in VARIANTS.items()}


@given(queries(searches=True), choices)
@settings(max_examples=150)
def test_rules_keep_the_rows(sample: SampleQuery, numbers: dict[str, int]) -> None:
    try:
        (query,) = checked(sample.text)
    except QueryTextError:
        return
    tables = {alias: all_rows()[alias][number] for alias, number in numbers.items()}
    expected = rows_of(as_written(query.plan, sample.values), tables)
    for facts in (NO_FACTS, FACTS):
        assert rows_of(bound(rewrite_plan(query.plan, facts), sample.values), tables) == expected
    for count in range(1, len(RULES)):
        plan = rewrite_plan(query.plan, NO_FACTS, RULES[:count])
        assert rows_of(bound(plan, sample.values), tables) == expected


def rows_of(plan: QueryPlan, tables: Tables) -> object:
    assert isinstance(plan, ReadPlan)
    rows = run(plan.root, tables)
    assert all(list(row) == [field.name for field in plan.outputs] for row in rows)
    return comparable([list(row.items()) for row in rows], plan)
