"""The Arrow schema of a type's table: system columns first, then the properties in the order of the catalog.

The only module of this room that uses pyarrow, and only when called, so that linting a schema starts fast. Written
without Lance: a Blob is described by its storage struct and the name of Lance's extension type, which Lance recognises
whether or not its Python package was imported before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from omnigraph.schema.catalog import EdgeType, Entity, Property
from omnigraph.schema.property_types import (
    EnumType,
    IndexKind,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
    index_kind,
)

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY_ID_KEY: Final = "omnigraph:property_id"
NULL_FILLS_KEY: Final = "omnigraph:null_fills"
"""How many of the property's `null_fills` the column has had; absent for none."""
PRIMARY_KEY_KEY: Final = "lance-schema:unenforced-primary-key"

_EXTENSION_NAME_KEY: Final = "ARROW:extension:name"
_BLOB_EXTENSION: Final = "lance.blob.v2"


def arrow_schema(entity: Entity) -> pa.Schema:
    """The schema with which the table of a type is created and its batches are written."""
    import pyarrow as pa

    system = [
        pa.field(
            name, pa.utf8(), nullable=False, metadata={PRIMARY_KEY_KEY: "true"} if name == "id" else None
        )
        for name in system_columns(entity)
    ]
    return pa.schema([*system, *(arrow_field(found) for found in entity.properties)])


def system_columns(entity: Entity) -> tuple[str, ...]:
    """The columns that every table of the type's kind has, in their order, before those of its properties."""
    return ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)


def arrow_field(found: Property) -> pa.Field[pa.DataType]:
    """The column of one property, with its identity in the field's metadata."""
    import pyarrow as pa

    metadata = {PROPERTY_ID_KEY: str(found.id)}
    if found.null_fills:
        metadata[NULL_FILLS_KEY] = str(len(found.null_fills))
    if found.type == ScalarType(Scalar.BLOB):
        metadata[_EXTENSION_NAME_KEY] = _BLOB_EXTENSION
    return pa.field(found.name, arrow_type(found.type), nullable=found.nullable, metadata=metadata)


def arrow_type(property_type: PropertyType) -> pa.DataType:
    """The Arrow type in which values of a property's type are stored."""
    import pyarrow as pa

    match property_type:
        case EnumType():
            return pa.utf8()
        case VectorType(size):
            return pa.list_(pa.float32(), size)
        case ListType(item):
            return pa.list_(pa.field("item", _scalar_type(item), nullable=False))
        case ScalarType(scalar):
            return _scalar_type(scalar)
        case _:
            assert_never(property_type)


def _scalar_type(scalar: Scalar) -> pa.DataType:
    import pyarrow as pa

    match scalar:
        case Scalar.STRING:
            return pa.utf8()
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.I32:
            return pa.int32()
        case Scalar.I64:
            return pa.int64()
        case Scalar.U32:
            return pa.uint32()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.F32:
            return pa.float32()
        case Scalar.F64:
            return pa.float64()
        case Scalar.DATE:
            return pa.date32()
        case Scalar.DATETIME:
            return pa.timestamp("ms", "UTC")
        case Scalar.BLOB:
            return _blob_storage()
        case _:
            assert_never(scalar)


def _blob_storage() -> pa.DataType:
    import pyarrow as pa

    return pa.struct(
        [
            pa.field("data", pa.large_binary()),
            pa.field("uri", pa.utf8()),
            pa.field("position", pa.uint64()),
            pa.field("size", pa.uint64()),
        ]
    )


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """One index that a column should have."""

    column: str
    kind: IndexKind


def declared_indexes(entity: Entity) -> tuple[ColumnIndex, ...]:
    """Every index of a type's table, in the order of its columns."""
    system = system_columns(entity)
    always = (ColumnIndex(name, IndexKind.BTREE) for name in system)
    return (*always, *_property_indexes(entity))


def _property_indexes(entity: Entity) -> Iterator[ColumnIndex]:
    for found in entity.properties:
        declared = index_kind(found.type) if found.indexed else None
        if declared is not None:
            yield ColumnIndex(found.name, declared)
        if found.name in entity.key and declared is not IndexKind.BTREE:
            yield ColumnIndex(found.name, IndexKind.BTREE)
