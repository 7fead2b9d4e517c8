"""What a step of a plan gives out: named and typed columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from omnigraph.query.expressions import Expr, require
from omnigraph.query.tables import Entity
from omnigraph.query.value_types import ValueType


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the rows. The columns of an entity are called `entity.column`."""

    name: str
    type: ValueType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column it becomes."""

    name: str
    expression: Expr

    @property
    def field(self) -> Field:
        return Field(self.name, self.expression.type, self.expression.nullable)


Fields = tuple[Field, ...]


def entity_fields(entity: Entity, columns: Iterable[str]) -> Fields:
    """The fields of some columns of an entity's table."""
    found = []
    for name in columns:
        column = entity.table.column(name)
        require(column is not None, f"{entity.table.alias} has no column {name}")
        assert column is not None
        found.append(Field(f"{entity.name}.{column.name}", column.type, column.nullable))
    return tuple(found)


def joined(*groups: Fields) -> Fields:
    """The fields side by side; no name twice."""
    fields = tuple(field for group in groups for field in group)
    require(len({field.name for field in fields}) == len(fields), f"a column twice: {names(fields)}")
    return fields


def nullable(fields: Fields) -> Fields:
    """The same fields where rows may be missing."""
    return tuple(replace(field, nullable=True) for field in fields)


def names(fields: Fields) -> tuple[str, ...]:
    """The names alone."""
    return tuple(field.name for field in fields)
