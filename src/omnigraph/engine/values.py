"""The Arrow types of expressions, and literals as Arrow scalars.

A whole entity is a struct: `@id`, for an edge also `@from` and `@to`, then its properties; an absent entity is null.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any, Final

import pyarrow as pa

from omnigraph.engine.domain import Scalar
from omnigraph.query.expressions import Literal
from omnigraph.query.tables import Table
from omnigraph.query.value_types import EntityType, NullType, ValueType
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import TypeKind

_SYSTEM_NAMES: Final = {"id": "@id", "src": "@from", "dst": "@to"}


@cache
def value_arrow_type(value_type: ValueType) -> pa.DataType:
    """The Arrow type of a value; an entity alone is its id."""
    if isinstance(value_type, EntityType):
        return pa.utf8()
    if isinstance(value_type, NullType):
        return pa.null()
    return arrow_type(value_type)


@cache
def entity_arrow_type(table: Table) -> pa.DataType:
    """The struct in which a whole entity is shown."""
    return pa.struct([pa.field(shown, kind) for _, shown, kind in entity_members(table)])


@cache
def entity_members(table: Table) -> tuple[tuple[str, str, pa.DataType], ...]:
    """For each shown column: its name in the table, its name in the object, its type."""
    system = {"id"} if table.kind is TypeKind.NODE else {"id", "src", "dst"}
    found = []
    for name in table.entity_columns:
        column = table.column(name)
        assert column is not None
        shown = _SYSTEM_NAMES[name] if name in system else name
        found.append((name, shown, arrow_type(column.type)))
    return tuple(found)


def literal_scalar(literal: Literal) -> Scalar:
    """A literal as an Arrow scalar of its type."""
    wanted = value_arrow_type(literal.type)
    value: Any = literal.value
    if pa.types.is_floating(wanted) and isinstance(value, int | Decimal):
        value = float(value)
    elif isinstance(value, tuple):
        value = list(value)
    return pa.scalar(value, type=wanted)
