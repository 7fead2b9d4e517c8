"""Runs the rewrite rules over a plan, in order.

Each rule keeps the rows and the columns of a plan. Literals are first, because simplified conditions are cheaper to
move. Filters move down before `order_expands`, which uses them. Columns are pruned when all reads are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan
from omnigraph.query.plan.types import NO_FACTS, PlanFacts
from omnigraph.query.rules.choose_indexes import choose_indexes
from omnigraph.query.rules.coerce_literals import coerce_literals
from omnigraph.query.rules.order_expands import order_expands
from omnigraph.query.rules.prune_columns import prune_columns
from omnigraph.query.rules.push_down_filters import push_down_filters

Rule = Callable[[Relation, PlanFacts], Relation]

RULES: Final[tuple[Rule, ...]] = (coerce_literals, push_down_filters, order_expands, prune_columns, choose_indexes)


def rewrite_plan(plan: QueryPlan, facts: PlanFacts = NO_FACTS, rules: tuple[Rule, ...] = RULES) -> QueryPlan:
    """Return the plan after the rules; they also rewrite the rows of updates and deletes."""

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
