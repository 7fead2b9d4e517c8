"""Comparisons: whether the two sides go together, and which typed condition they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final

from omnigraph.base.ids import TypeId
from omnigraph.lang.problems import QueryProblems
from omnigraph.lang.syntax import Span
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expressions import Expr, Param
from omnigraph.query.plan.types import Entity, Table, ValueType, table_of
from omnigraph.query.syntax import Expression, Variable
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType

SHOW_TYPES: Final = "`omnigraph schema show` prints the types"


class ExpressionPosition(Enum):
    """Where an expression stands."""

    FILTER = "a filter"
    RETURN = "`return`"
    ORDER = "`order`"
    WHERE = "`where`"
    AGGREGATE = "an aggregate"
    INLINE = "an inline value"
    VALUE = "the value of a property"


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable that is bound to an entity; `nullable` when an `optional` binds it."""

    entity: Entity
    nullable: bool = False


@dataclass(slots=True)
class Context:
    """The state of checking one query.

    `reserved` are the names of all variables of its text, which no made-up name may have; `broken` those whose binding
    has a problem, so that their uses are not reported as well.
    """

    catalog: Catalog
    problems: QueryProblems
    label: str
    params: dict[str, Param] = field(default_factory=dict)
    hops_ceiling: int | None = None
    inside_not: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    reserved: frozenset[str] = frozenset()
    _taken: set[str] = field(default_factory=set)
    _tables: dict[TypeId, Table] = field(default_factory=dict)

    def report(self, code: QueryCode, span: Span, message: str, hint: str = "") -> None:
        """Keep a problem of this query."""
        self.problems.report(code, span, f"{self.label}: {message}", hint)

    def table(self, entity_type: NodeType | EdgeType) -> Table:
        """The table of a type, made once."""
        if entity_type.id not in self._tables:
            self._tables[entity_type.id] = table_of(entity_type)
        return self._tables[entity_type.id]

    def new_entity(self, variable: Variable, table: Table) -> Entity:
        """An entity with a name of its own: the variable's if that is free, or one with a number."""
        if not variable.is_anonymous and variable.name not in self._taken:
            name = variable.name
        else:
            base = variable.name.removesuffix("_")
            numbered = (f"{base}_{number}" for number in count(1 if variable.is_anonymous else 2))
            name = next(candidate for candidate in numbered if candidate not in self._taken | self.reserved)
        self._taken.add(name)
        return Entity(name, table)


@dataclass(frozen=True, slots=True)
class Env:
    """Where an expression is checked: what it can see, and where it stands."""

    context: Context
    variables: Mapping[str, Bound]
    place: ExpressionPosition
    words: Mapping[str, Expr] = field(default_factory=dict)

    def report(self, code: QueryCode, span: Span, message: str, hint: str = "") -> None:
        self.context.report(code, span, message, hint)


Check = Callable[[Expression, Env, ValueType | None], Expr | None]
