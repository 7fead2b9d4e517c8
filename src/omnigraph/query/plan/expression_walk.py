"""Walks typed expressions: their parts, copies with other parts, and the columns that they read.

Also splits the filter of a scan into the conjuncts that the storage evaluates and the rest. Pure functions over frozen
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import is_sortable


class ScanFilter(Struct, frozen=True):
    """The filter of a scan: `pushed` is evaluated by the storage, `residual` after the scan."""

    pushed: tuple[ex.Expr, ...] = ()
    residual: tuple[ex.Expr, ...] = ()

    def __post_init__(self) -> None:
        ex.require(
            all(is_pushable(conjunct) for conjunct in self.pushed),
            "a filter that the storage cannot evaluate is pushed down",
        )

    @property
    def conjuncts(self) -> tuple[ex.Expr, ...]:
        return (*self.pushed, *self.residual)


NO_FILTER: Final = ScanFilter()


def split_filter(conjuncts: tuple[ex.Expr, ...]) -> ScanFilter:
    """Split conjuncts into the two parts of a scan filter, each in the order of the input."""
    pushed = tuple(conjunct for conjunct in conjuncts if is_pushable(conjunct))
    return ScanFilter(pushed, tuple(conjunct for conjunct in conjuncts if not is_pushable(conjunct)))


def is_pushable(expr: ex.Expr) -> bool:
    """Return whether the storage can evaluate a condition on the rows of one table."""
    match expr:
        case ex.And(operands) | ex.Or(operands):
            return all(is_pushable(operand) for operand in operands)
        case ex.Not(operand):
            return is_pushable(operand)
        case ex.Compare(_, ex.ColumnRef() as column, value):
            return _is_value(value) and is_sortable(column.type)
        case ex.InList(ex.ColumnRef(), items):
            return all(_is_value(item) for item in items)
        case ex.ListMembership(ex.ColumnRef(), ex.Param() | ex.Literal()):
            return True
        case ex.Prefix(ex.ColumnRef(), part):
            return _is_value(part)
        case ex.IsNull(ex.ColumnRef()) | ex.Literal(bool()):
            return True
        case _:
            return False


def _is_value(expr: ex.Expr) -> bool:
    return isinstance(expr, ex.Literal | ex.Param | ex.Now)


def with_parts(expr: ex.Expr, change: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
    """Return a copy with changed parts, or the same object if no part changes."""
    changes: dict[str, Any] = {}
    for name, part in expr.part_fields():
        changed = change_all(part, change) if isinstance(part, tuple) else change(part)
        if changed is not part:
            changes[name] = changed
    return replace(expr, **changes) if changes else expr


def change_all(expressions: tuple[ex.Expr, ...], change: Callable[[ex.Expr], ex.Expr]) -> tuple[ex.Expr, ...]:
    """Change each expression of a tuple; return the same tuple if none changes."""
    changed = tuple(change(expression) for expression in expressions)
    is_same = all(new is old for new, old in zip(changed, expressions, strict=True))
    return expressions if is_same else changed


def transform(expr: ex.Expr, change: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
    """Return a copy in which `change` replaces every expression, innermost first."""
    return change(with_parts(expr, lambda part: transform(part, change)))


def replace_outermost(expr: ex.Expr, change: Callable[[ex.Expr], ex.Expr | None]) -> ex.Expr:
    """Return a copy in which `change` replaces expressions, outermost first; None continues with the parts."""
    replacement = change(expr)
    if replacement is not None:
        return replacement
    return with_parts(expr, lambda part: replace_outermost(part, change))


def walk(expr: ex.Expr) -> Iterator[ex.Expr]:
    """Yield an expression and all expressions inside it."""
    yield expr
    for part in expr.parts:
        yield from walk(part)


def columns_of(expr: ex.Expr) -> Iterator[ex.ColumnRef]:
    """Yield every column of an entity that an expression reads."""
    for part in walk(expr):
        if isinstance(part, ex.ColumnRef):
            yield part
        elif isinstance(part, ex.EntityRef):
            for name in part.table.entity_columns:
                column = part.table.column(name)
                assert column is not None
                yield ex.ColumnRef.of(part.entity, column, is_optional=part.nullable)


def reads_of(expr: ex.Expr) -> frozenset[str]:
    """Return the names of all columns that an expression reads: of entities, and computed by steps below."""
    computed = (part.name for part in walk(expr) if isinstance(part, ex.OutputRef))
    return frozenset((*(column.name for column in columns_of(expr)), *computed))


def entities_of(expr: ex.Expr) -> frozenset[str]:
    """Return the names of the entities that an expression reads."""
    return frozenset(part.entity for part in walk(expr) if isinstance(part, ex.ColumnRef | ex.EntityRef))
