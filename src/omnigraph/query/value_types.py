"""The types that expressions have: those of properties, whole entities, and null; and what each of them can do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from omnigraph.schema.catalog import TypeKind
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
    type_text,
)


@dataclass(frozen=True, slots=True)
class EntityType:
    """A whole node or edge."""

    kind: TypeKind
    name: str


@dataclass(frozen=True, slots=True)
class NullType:
    """The type of the literal `null`, which goes with every other."""


ValueType = PropertyType | EntityType | NullType

STRING: Final = ScalarType(Scalar.STRING)
BOOL: Final = ScalarType(Scalar.BOOL)
I64: Final = ScalarType(Scalar.I64)
U64: Final = ScalarType(Scalar.U64)
F64: Final = ScalarType(Scalar.F64)
DATE: Final = ScalarType(Scalar.DATE)
DATETIME: Final = ScalarType(Scalar.DATETIME)
NULL: Final = NullType()


class Family(Enum):
    """Types whose values can be compared with each other."""

    NUMBER = "number"
    TEXT = "text"
    BOOL = "Bool"
    TIME = "date or datetime"
    LIST = "list"
    OPAQUE = "opaque"
    ENTITY = "entity"
    NULL = "null"


_FAMILIES: Final = {
    Scalar.STRING: Family.TEXT,
    Scalar.BOOL: Family.BOOL,
    Scalar.DATE: Family.TIME,
    Scalar.DATETIME: Family.TIME,
    Scalar.BLOB: Family.OPAQUE,
}
_WIDER: Final = {
    Scalar.I32: {Scalar.I64, Scalar.F64},
    Scalar.U32: {Scalar.I64, Scalar.U64, Scalar.F64},
    Scalar.F32: {Scalar.F64},
}


def family_of(value_type: ValueType) -> Family:
    """What the values of a type can be compared with."""
    match value_type:
        case ScalarType(scalar):
            return _FAMILIES.get(scalar, Family.NUMBER)
        case EnumType():
            return Family.TEXT
        case ListType():
            return Family.LIST
        case VectorType():
            return Family.OPAQUE
        case EntityType():
            return Family.ENTITY
        case NullType():
            return Family.NULL


def value_type_text(value_type: ValueType) -> str:
    """The type as a message or a plan shows it."""
    match value_type:
        case EntityType(_, name):
            return name
        case NullType():
            return "null"
        case _:
            return type_text(value_type)


def is_text(value_type: ValueType) -> bool:
    """Whether it is a text, or null, which can stand for one."""
    return family_of(value_type) in {Family.TEXT, Family.NULL}


def is_number(value_type: ValueType) -> bool:
    """Whether arithmetic works on it."""
    return family_of(value_type) is Family.NUMBER


def is_integer(value_type: ValueType) -> bool:
    """Whether it is one of the four whole-number types."""
    return isinstance(value_type, ScalarType) and value_type.scalar in INTEGER_BOUNDS


def is_float(value_type: ValueType) -> bool:
    """Whether it is F32 or F64."""
    return isinstance(value_type, ScalarType) and value_type.scalar in FLOATS


def are_comparable(left: ValueType, right: ValueType) -> bool:
    """Whether `=` makes sense between the two."""
    families = {family_of(left), family_of(right)}
    if Family.NULL in families:
        return True
    if len(families) > 1 or families & {Family.LIST, Family.OPAQUE}:
        return False
    return Family.ENTITY not in families or left == right


def has_order(value_type: ValueType) -> bool:
    """Whether `<` makes sense; an enum is text, but its order means nothing."""
    return not isinstance(value_type, EnumType) and is_sortable(value_type)


def is_sortable(value_type: ValueType) -> bool:
    """Whether rows can be ordered by it, and `min` and `max` work."""
    return family_of(value_type) not in {Family.LIST, Family.OPAQUE, Family.ENTITY}


def is_assignable(value: ValueType, target: PropertyType) -> bool:
    """Whether every value of one type is a value of the other, so that storing it loses nothing."""
    if value == target or isinstance(value, NullType):
        return True
    match value, target:
        case ScalarType(have), ScalarType(want):
            return want in _WIDER.get(have, set())
        case ScalarType(Scalar.STRING), EnumType():
            return True
        case EnumType(), ScalarType(Scalar.STRING):
            return True
        case EnumType(have), EnumType(want):
            return set(have) <= set(want)
        case _:
            return False
