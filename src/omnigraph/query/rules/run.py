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
from omnigraph.query.rules.column_pruning import column_pruning
from omnigraph.query.rules.expand_order import expand_order
from omnigraph.query.rules.filter_pushdown import filter_pushdown
from omnigraph.query.rules.index_choice import index_choice
from omnigraph.query.rules.literal_coercion import literal_coercion

Rule = Callable[[Relation, PlanFacts], Relation]

RULES: Final[tuple[Rule, ...]] = (
    literal_coercion,
    filter_pushdown,
    expand_order,
    column_pruning,
    index_choice,
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
        found if isinstance(found, InsertRow) else replace(found, rows=run(found.rows))
        for found in plan.statements
    )
    return replace(plan, statements=statements)
