"""The Arrow schema and the indexes of a type's table: system columns first, then the properties in catalog order.

In: a type of the catalog. Out: Arrow schemas and `ColumnIndex` values. The only module of the package that imports
pyarrow, and only inside functions, so that linting a schema starts fast. Never imports Lance: a Blob is described by
its storage struct and the name of Lance's extension type, which Lance recognises even if it is imported later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, assert_never

from omnigraph.schema import property_types as types
from omnigraph.schema.catalog import EdgeType, Entity, Property

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY_ID_KEY: Final = "omnigraph:property_id"
NULL_FILLS_KEY: Final = "omnigraph:null_fills"
"""The number of the property's `null_fills` that were applied to the column; absent for 0."""
PRIMARY_KEY_KEY: Final = "lance-schema:unenforced-primary-key"

_EXTENSION_NAME_KEY: Final = "ARROW:extension:name"
_BLOB_EXTENSION: Final = "lance.blob.v2"


def arrow_schema(entity: Entity) -> pa.Schema:
    """Return the schema of a type's table and of its batches."""
    import pyarrow as pa

    system = [
        pa.field(name, pa.utf8(), nullable=False, metadata={PRIMARY_KEY_KEY: "true"} if name == "id" else None)
        for name in system_columns(entity)
    ]
    return pa.schema([*system, *(arrow_field(property_) for property_ in entity.properties)])


def system_columns(entity: Entity) -> tuple[str, ...]:
    """Return the columns that every table of the type's kind has, which precede the properties."""
    return ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)


def arrow_field(property_: Property) -> pa.Field[pa.DataType]:
    """Return the column of a property, with the property's id in the field's metadata."""
    import pyarrow as pa

    metadata = {PROPERTY_ID_KEY: str(property_.id)}
    if property_.null_fills:
        metadata[NULL_FILLS_KEY] = str(len(property_.null_fills))
    if property_.type == types.ScalarType(types.Scalar.BLOB):
        metadata[_EXTENSION_NAME_KEY] = _BLOB_EXTENSION
    return pa.field(property_.name, arrow_type(property_.type), nullable=property_.nullable, metadata=metadata)


def arrow_type(property_type: types.PropertyType) -> pa.DataType:
    """Return the Arrow type that stores the values of a property's type."""
    import pyarrow as pa

    match property_type:
        case types.EnumType():
            return pa.utf8()
        case types.VectorType(size):
            return pa.list_(pa.float32(), size)
        case types.ListType(item):
            return pa.list_(pa.field("item", _scalar_types()[item], nullable=False))
        case types.ScalarType(scalar):
            return _scalar_types()[scalar]
        case _:
            assert_never(property_type)


@cache
def _scalar_types() -> dict[types.Scalar, pa.DataType]:
    import pyarrow as pa

    return {
        types.Scalar.STRING: pa.utf8(),
        types.Scalar.BOOL: pa.bool_(),
        types.Scalar.I32: pa.int32(),
        types.Scalar.I64: pa.int64(),
        types.Scalar.U32: pa.uint32(),
        types.Scalar.U64: pa.uint64(),
        types.Scalar.F32: pa.float32(),
        types.Scalar.F64: pa.float64(),
        types.Scalar.DATE: pa.date32(),
        types.Scalar.DATETIME: pa.timestamp("ms", "UTC"),
        types.Scalar.BLOB: pa.struct(
            [("data", pa.large_binary()), ("uri", pa.utf8()), ("position", pa.uint64()), ("size", pa.uint64())]
        ),
    }


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """One index that a column should have."""

    column: str
    kind: types.IndexKind
    text: types.TextOptions = types.PLAIN_TEXT
    """The options of a text index."""


def declared_indexes(entity: Entity) -> tuple[ColumnIndex, ...]:
    """Return every index of a type's table, in the order of its columns."""
    indexes = [ColumnIndex(name, types.IndexKind.BTREE) for name in system_columns(entity)]
    for property_ in entity.properties:
        indexes.extend(_column_index(property_, kind) for kind in _index_kinds(entity, property_))
    return tuple(indexes)


def _column_index(property_: Property, kind: types.IndexKind) -> ColumnIndex:
    is_text = kind is types.IndexKind.INVERTED
    return ColumnIndex(property_.name, kind, property_.text_options if is_text else types.PLAIN_TEXT)


def _index_kinds(entity: Entity, property_: Property) -> tuple[types.IndexKind, ...]:
    """Return a BTREE for a column that is looked up by its value, then the index of its type."""
    declared = types.index_kind(property_.type) if property_.indexed else None
    is_looked_up = (
        property_.name in entity.key
        or (property_.name,) in entity.rules.uniques
        or declared is types.IndexKind.INVERTED  # text is searched, and also compared
    )
    kinds = (types.IndexKind.BTREE if is_looked_up else None, declared)
    return tuple(dict.fromkeys(kind for kind in kinds if kind is not None))
