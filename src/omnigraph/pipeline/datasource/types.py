"""The types of the Spark data source: the Spark schema of a type's table, and its batches in Spark's Arrow types.

In: a type of the catalog. Out: a schema with the columns of the table, `id` and for edges `src` and `dst` included, and
lossless conversions. Spark has no unsigned integers, so U32 is a long and U64 a decimal(20,0); a vector is an array of
floats, a Blob its bytes. What was read can be written back unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as st
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph.base.errors import UsageError
from omnigraph.schema.catalog import Entity
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.tables import system_columns

ENDPOINT_NAMES: Final = {"src": "from", "dst": "to"}
"""The endpoint columns of an edge, and their names in loaded data."""
_SCALARS: Final[dict[Scalar, st.DataType]] = {
    Scalar.STRING: st.StringType(),
    Scalar.BOOL: st.BooleanType(),
    Scalar.I32: st.IntegerType(),
    Scalar.I64: st.LongType(),
    Scalar.U32: st.LongType(),
    Scalar.U64: st.DecimalType(20, 0),
    Scalar.F32: st.FloatType(),
    Scalar.F64: st.DoubleType(),
    Scalar.DATE: st.DateType(),
    Scalar.DATETIME: st.TimestampType(),
    Scalar.BLOB: st.BinaryType(),
}


def column_names(entity: Entity) -> tuple[str, ...]:
    """Return the columns of the type's table, in its order."""
    system = system_columns(entity)
    return (*system, *(property_.name for property_ in entity.properties))


def spark_schema(entity: Entity, columns: Sequence[str] | None = None) -> st.StructType:
    """Return the Spark schema of a type: all columns, or the named ones in their order."""
    system = {name: st.StructField(name, st.StringType(), nullable=False) for name in ("id", *ENDPOINT_NAMES)}
    fields = []
    for name in column_names(entity) if columns is None else columns:
        if name not in column_names(entity):
            raise UsageError(
                f"unknown column '{name}' of {entity.name}: expected {', '.join(column_names(entity))}",
                code="source_column",
                hint="Pass option 'columns' with columns of the type.",
                facts={"type": entity.alias, "column": name},
            )
        property_ = entity.property_named(name)
        fields.append(
            system[name] if property_ is None else st.StructField(name, spark_type(property_.type), property_.nullable)
        )
    return st.StructType(fields)


def spark_type(property_type: PropertyType) -> st.DataType:
    """Return the Spark type that holds every value of a property type."""
    match property_type:
        case EnumType():
            return st.StringType()
        case VectorType():
            return st.ArrayType(st.FloatType(), containsNull=False)
        case ListType(item):
            return st.ArrayType(_SCALARS[item], containsNull=False)
        case ScalarType(scalar):
            return _SCALARS[scalar]
        case _:
            assert_never(property_type)


def spark_batch(batch: pa.RecordBatch, schema: st.StructType) -> pa.RecordBatch:
    """Return the rows of a table in the Arrow types that Spark reads."""
    target = to_arrow_schema(schema, timezone="UTC")
    build: Any = pa.RecordBatch.from_arrays
    arrays = [pc.cast(batch.column(field.name), field.type) for field in target]
    converted: pa.RecordBatch = build(arrays, schema=target)
    return converted
