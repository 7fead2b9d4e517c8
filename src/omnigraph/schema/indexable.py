"""Which index a type of values gets; nothing here knows about columns or declarations."""

from __future__ import annotations

from enum import Enum

from omnigraph.schema.property_types import (
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
)


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
