"""The types a property can have, and what each type can do: be a key, be unique, have a range, have a default.

Pure values, shared by the checks, the catalog, the Arrow schema and the index rule. Nothing here knows the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Scalar(Enum):
    """A scalar type; the value is its name in the schema language."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One scalar."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of scalars; its items are never null."""

    item: Scalar


@dataclass(frozen=True, slots=True)
class VectorType:
    """A vector of `size` 32-bit floats."""

    size: int


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of these words, stored as text. The order means nothing, so the values are kept sorted."""

    values: tuple[str, ...]


PropertyType = ScalarType | ListType | VectorType | EnumType

INTEGER_BOUNDS: Final = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}
FLOATS: Final = frozenset({Scalar.F32, Scalar.F64})
_RANGED: Final = frozenset({*INTEGER_BOUNDS, *FLOATS, Scalar.DATE, Scalar.DATETIME})


def type_text(property_type: PropertyType) -> str:
    """The type as the schema language writes it, without `?`."""
    match property_type:
        case ScalarType(scalar):
            return scalar.value
        case ListType(item):
            return f"[{item.value}]"
        case VectorType(size):
            return f"Vector({size})"
        case EnumType(values):
            return f"enum({', '.join(values)})"


def item_type(property_type: PropertyType) -> ScalarType | None:
    """Return the type of the items of a list or a vector."""
    match property_type:
        case ListType(item):
            return ScalarType(item)
        case VectorType():
            return ScalarType(Scalar.F32)
        case _:
            return None


def has_single_value(property_type: PropertyType) -> bool:
    """Whether values are compared as a whole: what a key, `@unique` and `@default` need."""
    match property_type:
        case ScalarType(scalar):
            return scalar is not Scalar.BLOB
        case EnumType():
            return True
        case ListType() | VectorType():
            return False


def has_range(property_type: PropertyType) -> bool:
    """Whether `@range` makes sense: numbers, dates and datetimes."""
    return isinstance(property_type, ScalarType) and property_type.scalar in _RANGED


def is_free_text(property_type: PropertyType) -> bool:
    """Whether this is a `String`; an enum is text too, but not free."""
    return property_type == ScalarType(Scalar.STRING)


class IndexKind(Enum):
    """What an index serves."""

    BTREE = "btree"
    """Equality and ranges."""
    INVERTED = "inverted"
    """Search in full text."""
    VECTOR = "vector"
    """Nearest neighbours by cosine."""


def index_kind(property_type: PropertyType) -> IndexKind | None:
    """The index that `@index` asks for on this type, or None when the type has none."""
    match property_type:
        case EnumType():
            return IndexKind.BTREE
        case VectorType():
            return IndexKind.VECTOR
        case ListType() | ScalarType(Scalar.BLOB):
            return None
        case ScalarType(Scalar.STRING):
            return IndexKind.INVERTED
        case ScalarType():
            return IndexKind.BTREE


def has_index(property_type: PropertyType) -> bool:
    """Whether `@index` is possible at all."""
    return index_kind(property_type) is not None
