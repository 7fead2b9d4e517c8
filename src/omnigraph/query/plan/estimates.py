"""Rough numbers for the order of a plan: how many rows pass a condition, and how many edges a node has.

Only comparisons of plans are made with them, so the same simple guesses everywhere are better than clever ones here and
there. Sizes come from the facts where they are known.
"""

from __future__ import annotations

from typing import Final

from omnigraph.query.plan.expressions import (
    FALSE,
    And,
    ColumnRef,
    Compare,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    Prefix,
    TextMatch,
)
from omnigraph.query.plan.operators import Link
from omnigraph.query.plan.types import BOOL, Entity, PlanFacts
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.property_types import EnumType

_ROWS_DEFAULT: Final = 100_000.0
_DEGREE_DEFAULT: Final = 10.0
_EQUAL: Final = 0.01
_RANGE: Final = 0.3
_OTHER: Final = 0.5


def rows_of(entity: Entity, facts: PlanFacts) -> float:
    """How many rows the table of an entity has."""
    rows = facts.table(entity.table.alias).rows
    return _ROWS_DEFAULT if rows is None else float(max(rows, 1))


def filtered_rows(entity: Entity, filters: tuple[Expr, ...], facts: PlanFacts) -> float:
    """How many rows of an entity's table pass."""
    rows = rows_of(entity, facts)
    equal = {column for condition in filters if (column := _equal_column(condition)) is not None}
    keys = ({"id"}, set(entity.table.key) or {"id"})
    if any(key <= equal for key in keys):
        return 1.0
    for condition in filters:
        rows *= selectivity(condition)
    return max(rows, 0.0 if FALSE in filters else 1.0)


def selectivity(condition: Expr) -> float:
    """The part of the rows for which a condition is true."""
    match condition:
        case Literal(False):
            return 0.0
        case Compare(ComparisonOperator.EQ, ColumnRef(type=column_type)):
            few = column_type == BOOL or isinstance(column_type, EnumType)
            return _RANGE if few else _EQUAL
        case Compare(ComparisonOperator.NE):
            return 1.0
        case Compare():
            return _RANGE
        case InList(_, items):
            return min(1.0, _EQUAL * len(items))
        case Prefix() | TextMatch():
            return _EQUAL * 2
        case IsNull(_, negated):
            return 0.9 if negated else 0.1
        case And(operands):
            part = 1.0
            for operand in operands:
                part *= selectivity(operand)
            return part
        case Or(operands):
            return min(1.0, sum(selectivity(operand) for operand in operands))
        case Not(operand):
            return 1.0 - selectivity(operand) / 2
        case _:
            return _OTHER


def fan_out(link: Link, near: Entity, facts: PlanFacts) -> float:
    """How many destinations a node has, following a link from one of its ends."""
    edges = facts.table(link.table.alias).rows
    degree = _DEGREE_DEFAULT if edges is None else max(edges / rows_of(near, facts), 0.1)
    if link.undirected:
        degree *= 2
    far = link.target if near == link.source else link.source
    return min(degree**link.high, rows_of(far, facts))


def _equal_column(condition: Expr) -> str | None:
    match condition:
        case Compare(ComparisonOperator.EQ, ColumnRef(column=column)):
            return column
        case _:
            return None
