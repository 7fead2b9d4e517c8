"""Walking typed expressions: the parts of one, a copy with other parts, and what an expression reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

from omnigraph.query.plan.expressions import (
    AggregateCall,
    And,
    Bm25,
    ColumnRef,
    Compare,
    Computed,
    EntityRef,
    Expr,
    InList,
    IsNull,
    Known,
    ListMembership,
    ListOf,
    Literal,
    Nearest,
    Negated,
    Not,
    Now,
    Or,
    OutputRef,
    Param,
    Prefix,
    Rrf,
    Substring,
    TextMatch,
    require,
)
from omnigraph.query.plan.types import is_sortable


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """Conjuncts that the storage evaluates, and conjuncts that are evaluated after the scan."""

    pushed: tuple[Expr, ...] = ()
    residual: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        require(all(is_pushable(conjunct) for conjunct in self.pushed), "a filter is pushed that cannot be")

    @property
    def conjuncts(self) -> tuple[Expr, ...]:
        return (*self.pushed, *self.residual)


NO_FILTER: Final = ScanFilter()


def split_filter(conjuncts: tuple[Expr, ...]) -> ScanFilter:
    """The conjuncts in their two halves, each in the given order."""
    pushed = tuple(conjunct for conjunct in conjuncts if is_pushable(conjunct))
    return ScanFilter(pushed, tuple(conjunct for conjunct in conjuncts if not is_pushable(conjunct)))


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
        case ListMembership(ColumnRef(), Param() | Literal()):
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


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match expr:
        case Literal() | Param() | Now() | ColumnRef() | EntityRef() | OutputRef():
            return ()
        case Negated(operand) | Not(operand) | IsNull(operand) | Known(_, operand):
            return (operand,)
        case Computed(_, left, right) | Compare(_, left, right):
            return (left, right)
        case InList(operand, items):
            return (operand, *items)
        case ListOf(items):
            return items
        case ListMembership(item, collection):
            return (item, collection)
        case Substring(text, part) | Prefix(text, part):
            return (text, part)
        case And(operands) | Or(operands):
            return operands
        case TextMatch(_, column, query) | Nearest(column, query) | Bm25(column, query):
            return (column, query)
        case Rrf(first, second):
            return (first, second)
        case AggregateCall(_, argument):
            return (argument,)


def with_parts(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A copy whose parts are changed; the same object when nothing changes."""
    before = parts_of(expr)
    after = tuple(change(part) for part in before)
    return expr if all(new is old for new, old in zip(after, before, strict=True)) else _rebuilt(expr, after)


def rewritten(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A copy in which every expression, innermost first, is replaced by what `change` gives for it."""
    return change(with_parts(expr, lambda part: rewritten(part, change)))


def replaced(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """A copy in which the outermost expressions for which `change` gives another are replaced by it."""
    other = change(expr)
    return other if other is not None else with_parts(expr, lambda part: replaced(part, change))


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all inside it."""
    yield expr
    for part in parts_of(expr):
        yield from walk(part)


def columns_of(expr: Expr) -> Iterator[ColumnRef]:
    """Every column of an entity that computing the expression reads."""
    for part in walk(expr):
        if isinstance(part, ColumnRef):
            yield part
        elif isinstance(part, EntityRef):
            for name in part.table.entity_columns:
                column = part.table.column(name)
                assert column is not None
                yield ColumnRef(part.entity, name, column.type, column.nullable or part.nullable)


def reads_of(expr: Expr) -> frozenset[str]:
    """The names of all columns that computing the expression reads, those that steps below made among them."""
    made = (part.name for part in walk(expr) if isinstance(part, OutputRef))
    return frozenset((*(column.name for column in columns_of(expr)), *made))


def entities_of(expr: Expr) -> frozenset[str]:
    """The names of the entities that an expression reads."""
    return frozenset(part.entity for part in walk(expr) if isinstance(part, ColumnRef | EntityRef))


def _rebuilt(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    match expr:
        case Literal() | Param() | Now() | ColumnRef() | EntityRef() | OutputRef():
            return expr
        case Negated() | Not() | IsNull() | Known():
            return replace(expr, operand=parts[0])
        case Computed() | Compare():
            return replace(expr, left=parts[0], right=parts[1])
        case InList():
            return replace(expr, operand=parts[0], items=parts[1:])
        case ListOf():
            return replace(expr, items=parts)
        case ListMembership():
            return replace(expr, item=parts[0], collection=parts[1])
        case Substring() | Prefix():
            return replace(expr, text=parts[0], part=parts[1])
        case And() | Or():
            return replace(expr, operands=parts)
        case TextMatch() | Nearest() | Bm25():
            return replace(expr, column=cast(ColumnRef, parts[0]), query=parts[1])
        case Rrf():
            first, second = cast(tuple[Nearest | Bm25, Nearest | Bm25], parts)
            return replace(expr, first=first, second=second)
        case AggregateCall():
            return replace(expr, argument=parts[0])
