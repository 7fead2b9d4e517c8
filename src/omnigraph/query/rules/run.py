"""The rules in their order, and running them over a plan.

Each rule keeps the rows and the columns of a plan. Literals come first, because decided conditions are cheaper to move;
filters go down before the order of traversals is chosen by them; columns are pruned when all reads are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan, Relation
from omnigraph.query.plan.types import NO_FACTS, PlanFacts
from omnigraph.query.rules.choose_indexes import choose_indexes
from omnigraph.query.rules.coerce_literals import coerce_literals
from omnigraph.query.rules.order_expands import order_expands
from omnigraph.query.rules.prune_columns import prune_columns
from omnigraph.query.rules.push_down_filters import push_down_filters

Rule = Callable[[Relation, PlanFacts], Relation]

RULES: Final[tuple[Rule, ...]] = (
    coerce_literals,
    push_down_filters,
    order_expands,
    prune_columns,
    choose_indexes,
)


def rewrite_plan(plan: QueryPlan, facts: PlanFacts = NO_FACTS, rules: tuple[Rule, ...] = RULES) -> QueryPlan:
    """The plan after the rules; the rows that updates and deletes touch are rewritten as well."""

    def run(root: Relation) -> Relation:
        for rule in rules:
            root = rule(root, facts)
        return root

    if isinstance(plan, ReadPlan):
        return replace(plan, root=run(plan.root))
    statements = tuple(
        statement if isinstance(statement, InsertRow) else replace(statement, rows=run(statement.rows))
        for statement in plan.statements
    )
    return replace(plan, statements=statements)
