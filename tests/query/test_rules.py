"""Rewrite rules: plans before and after each rule, one golden file per rule; the rules before it have run."""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.query.explain import explain_plan
from omnigraph.query.plan.statements import QueryPlan, ReadPlan
from omnigraph.query.plan.types import IndexFact, PlanFacts, TableFacts
from omnigraph.query.rules.run import RULES as REWRITES
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.schema.property_types import IndexKind
from tests.query.golden_files import RULES, catalog, checked, compare, query_files, read_text

NAMES: Final = [rule.__name__ for rule in REWRITES]

# Sizes and indexes of a graph: two indexes do not cover all rows, and two tables have none.
FACTS: Final = PlanFacts(
    {
        "node:Person": TableFacts(
            rows=100_000,
            indexes=(
                IndexFact("id", IndexKind.BTREE),
                IndexFact("slug", IndexKind.BTREE),
                IndexFact("age", IndexKind.BTREE),
                IndexFact("joined", IndexKind.BTREE, uncovered_fragments=2, uncovered_rows=500),
                IndexFact("bio", IndexKind.INVERTED),
                IndexFact("embedding", IndexKind.VECTOR, uncovered_fragments=1, uncovered_rows=10),
            ),
        ),
        "node:Company": TableFacts(rows=1_000),
        "node:City": TableFacts(rows=100),
        "edge:Knows": TableFacts(
            rows=2_000_000, indexes=(IndexFact("src", IndexKind.BTREE), IndexFact("dst", IndexKind.BTREE))
        ),
        "edge:Follows": TableFacts(rows=50_000, indexes=(IndexFact("src", IndexKind.BTREE),)),
    }
)


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, update_golden: bool) -> None:
    position = NAMES.index(name)
    before, after = REWRITES[:position], REWRITES[: position + 1]
    shown = []
    for query in checked(read_text(RULES / f"{name}.gq"), f"{name}.gq"):
        old = explain_plan(rewrite_plan(query.plan, FACTS, before))
        new = explain_plan(rewrite_plan(query.plan, FACTS, after))
        shown.append(f"{old}=>\n{new}")
    compare(RULES / f"{name}.txt", "\n".join(shown), update=update_golden)


def test_every_rule_has_a_golden_file() -> None:
    assert [path.stem for path in query_files(RULES)] == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rule_changes_a_plan_and_keeps_its_columns(name: str) -> None:
    position = NAMES.index(name)
    changed = False
    for query in checked(read_text(RULES / f"{name}.gq")):
        before = rewrite_plan(query.plan, FACTS, REWRITES[:position])
        after = rewrite_plan(query.plan, FACTS, REWRITES[: position + 1])
        changed |= before != after
        assert columns(before) == columns(after)
    assert changed


@pytest.mark.parametrize("name", NAMES)
def test_rule_is_idempotent(name: str) -> None:
    position = NAMES.index(name)
    for path in query_files(RULES):
        for query in checked(read_text(path)):
            once = rewrite_plan(query.plan, FACTS, REWRITES[: position + 1])
            assert rewrite_plan(once, FACTS, (REWRITES[position],)) == once


def columns(plan: QueryPlan) -> object:
    if isinstance(plan, ReadPlan):
        return plan.outputs
    return [type(statement) for statement in plan.statements]


def test_catalog_has_the_tables_of_the_facts() -> None:
    assert set(FACTS.tables) <= {entity_type.alias for entity_type in catalog().types}
