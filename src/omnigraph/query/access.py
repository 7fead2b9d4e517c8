"""How a table is read: the two halves of a scan's filter.

A filter is split. What Lance can do is pushed: comparisons of a column with a value of exactly its type, `in`, prefixes
and null tests, joined in any way. Everything else is evaluated on the scanned rows. Both halves hold, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.query.expressions import (
    And,
    ColumnRef,
    Compare,
    Expr,
    InList,
    IsNull,
    Literal,
    Member,
    Not,
    Now,
    Or,
    Param,
    Prefix,
    require,
)
from omnigraph.query.value_types import is_sortable


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """Conjuncts that the storage evaluates, and conjuncts that are evaluated after the scan."""

    pushed: tuple[Expr, ...] = ()
    residual: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        require(all(is_pushable(found) for found in self.pushed), "a filter is pushed that cannot be")

    @property
    def conjuncts(self) -> tuple[Expr, ...]:
        return (*self.pushed, *self.residual)


NO_FILTER: Final = ScanFilter()


def split_filter(conjuncts: tuple[Expr, ...]) -> ScanFilter:
    """The conjuncts in their two halves, each in the given order."""
    pushed = tuple(found for found in conjuncts if is_pushable(found))
    return ScanFilter(pushed, tuple(found for found in conjuncts if not is_pushable(found)))


def is_pushable(expr: Expr) -> bool:
    """Whether the storage can evaluate a condition on the rows of one table."""
    match expr:
        case And(operands) | Or(operands):
            return all(is_pushable(operand) for operand in operands)
        case Not(operand):
            return is_pushable(operand)
        case Compare(_, ColumnRef() as column, value):
            return _is_value(value) and is_sortable(column.type)
        case InList(ColumnRef(), items):
            return all(_is_value(item) for item in items)
        case Member(ColumnRef(), Param() | Literal()):
            return True
        case Prefix(ColumnRef(), part):
            return _is_value(part)
        case IsNull(ColumnRef()):
            return True
        case Literal(bool()):
            return True
        case _:
            return False


def _is_value(expr: Expr) -> bool:
    return isinstance(expr, Literal | Param | Now)
