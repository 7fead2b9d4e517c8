"""The state of checking one query: its parameters, variables and problems, and the environment of an expression.

`Context` collects what the checks of a query find and gives entities unique names. `Env` says what an expression can
see and where in the query it is. No module of this package raises: a problem is reported, and the check returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import Final

from msgspec import Struct, field

from omnigraph.base.ids import TypeId
from omnigraph.lang.problems import QueryProblems, quoted
from omnigraph.lang.syntax import Span
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expressions import Expr, Param
from omnigraph.query.plan.types import Entity, Table, ValueType, table_of
from omnigraph.query.syntax import Expression, Variable
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType

PROPERTY_HINT: Final = "Name a property: `$x.prop`."
_SUGGESTED_MAX: Final = 8


class ExpressionPosition(Enum):
    """Where in a query an expression is."""

    FILTER = "a filter"
    RETURN = "`return`"
    HAVING = "`having`"
    ORDER = "`order`"
    WHERE = "`where`"
    AGGREGATE = "an aggregate"
    INLINE = "an inline value"
    VALUE = "the value of a property"


class VariableBinding(Struct, frozen=True):
    """The entity that a variable is bound to; `nullable` if an `optional` binds it."""

    entity: Entity
    nullable: bool = False

    @property
    def is_path(self) -> bool:
        return self.entity.table.columns[0].name != "id"


class Context(Struct):
    """The state of checking one query.

    `reserved` has the names of all variables of the text, which no generated name may have. `broken` has the variables
    and columns that have a problem, so that their uses are not reported as well.
    """

    catalog: Catalog
    problems: QueryProblems
    label: str
    params: dict[str, Param] = field(default_factory=dict)
    hops_ceiling: int | None = None
    inside_not: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    reserved: frozenset[str] = frozenset()
    _entity_names: set[str] = field(default_factory=set)
    _tables: dict[TypeId, Table] = field(default_factory=dict)

    def report(self, code: QueryCode, span: Span, message: str, hint: str = "") -> None:
        """Add a problem of this query."""
        self.problems.report(code, span, f"{self.label}: {message}", hint)

    def report_shadowed_parameter(self, variable: Variable) -> None:
        """Report a variable that has the name of a parameter."""
        message = f"variable {quoted(f'${variable.name}')} has the name of a parameter"
        self.report(QueryCode.PARAMETER_SHADOWED, variable.span, message, "Rename the variable.")

    def suggest_name(self, word: str, names: Sequence[str]) -> str:
        """Return a hint with the most similar name, or with the first names."""
        near = self.problems.did_you_mean(word, names)
        if near or not names:
            return near or "The schema declares none."
        more = len(names) - _SUGGESTED_MAX
        return f"Use one of {', '.join(map(quoted, names[:_SUGGESTED_MAX]))}{f' and {more} more' if more > 0 else ''}."

    def table(self, entity_type: NodeType | EdgeType) -> Table:
        """Return the table of a type; each is built once."""
        if entity_type.id not in self._tables:
            self._tables[entity_type.id] = table_of(entity_type)
        return self._tables[entity_type.id]

    def new_entity(self, variable: Variable, table: Table) -> Entity:
        """Return an entity with a unique name: that of the variable if it is free, or one with a number."""
        if not variable.is_anonymous and variable.name not in self._entity_names:
            name = variable.name
        else:
            base = variable.name.removesuffix("_")
            numbered = (f"{base}_{number}" for number in count(1 if variable.is_anonymous else 2))
            used = self._entity_names | self.reserved
            name = next(candidate for candidate in numbered if candidate not in used)
        self._entity_names.add(name)
        return Entity(name, table)


class Env(Struct, frozen=True):
    """The environment of an expression: the variables and words that it can use, and its position in the query."""

    context: Context
    variables: Mapping[str, VariableBinding]
    position: ExpressionPosition
    words: Mapping[str, Expr] = field(default_factory=dict)

    def report(self, code: QueryCode, span: Span, message: str, hint: str = "") -> None:
        self.context.report(code, span, message, hint)


Check = Callable[[Expression, Env, ValueType | None], Expr | None]
