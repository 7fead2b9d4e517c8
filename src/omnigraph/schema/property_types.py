"""The types of properties, and what each type supports: keys, uniqueness, ranges, defaults, indexes.

Pure values, used by the checks, the catalog and the Arrow schemas. Never parses text.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


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


class ScalarType(Struct, frozen=True):
    """One scalar."""

    scalar: Scalar


class ListType(Struct, frozen=True):
    """A list of scalars; its items are never null."""

    item: Scalar


class VectorType(Struct, frozen=True):
    """A vector of `size` 32-bit floats."""

    size: int


class EnumType(Struct, frozen=True):
    """One of these words, stored as text. Their order has no meaning, so they are sorted."""

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
    """Return the type as the schema language writes it, without `?`."""
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
    """Return whether values are compared as a whole, as a key, `@unique` and `@default` need."""
    match property_type:
        case ScalarType(scalar):
            return scalar is not Scalar.BLOB
        case EnumType():
            return True
        case ListType() | VectorType():
            return False


def has_range(property_type: PropertyType) -> bool:
    """Return whether the type supports `@range`: numbers, dates and datetimes."""
    return isinstance(property_type, ScalarType) and property_type.scalar in _RANGED


def is_free_text(property_type: PropertyType) -> bool:
    """Return whether this is a `String`. An enum is text too, but not any text."""
    return property_type == ScalarType(Scalar.STRING)


def is_wide(property_type: PropertyType) -> bool:
    """Return whether values are 64-bit integers, or lists of them."""
    match property_type:
        case ScalarType(scalar) | ListType(scalar):
            return scalar in (Scalar.I64, Scalar.U64)
        case VectorType() | EnumType():
            return False


class IndexKind(Enum):
    """The kind of an index, by the queries that use it."""

    BTREE = "btree"
    """Equality and ranges."""
    INVERTED = "inverted"
    """Full-text search."""
    VECTOR = "vector"
    """Nearest neighbours by cosine."""


STEM_LANGUAGES: Final = (
    "arabic",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
)
"""The languages for which Lance can reduce a word to its stem."""


class TextOptions(Struct, frozen=True, omit_defaults=True):
    """How full-text search compares the words in a `String`: `ascii_folding` ignores accents, `stem` endings."""

    ascii_folding: bool = False
    stem: str | None = None

    @property
    def text(self) -> str:
        """The options as the schema language writes them; empty if all are off."""
        parts = ["ascii_folding=true"] if self.ascii_folding else []
        return ", ".join([*parts, f'stem="{self.stem}"'] if self.stem else parts)


PLAIN_TEXT: Final = TextOptions()
"""Words are compared as they are, apart from the case of their letters."""


def index_kind(property_type: PropertyType) -> IndexKind | None:
    """Return the kind of index that `@index` declares for this type, or None if the type has none."""
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
