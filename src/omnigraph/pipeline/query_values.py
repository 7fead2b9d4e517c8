"""Names, types and literals of a query on Spark.

A column of a plan has a name of its own on Spark, made of nothing but letters and digits, so that no dot, no case and
no setting of the session changes what it means. Types are those of the data source: U32 is a long, U64 a decimal(20,0).
Moments and days are made from numbers, so that no time zone has a say.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # what all of Spark's users call it
from pyspark.sql.types import DataType, DecimalType, StringType

from omnigraph.base.errors import InvariantError
from omnigraph.pipeline.source_types import spark_type
from omnigraph.query.expressions import Literal, LiteralValue
from omnigraph.query.value_types import EntityType, NullType, ValueType
from omnigraph.schema.property_types import EnumType, ListType, Scalar, ScalarType, VectorType

WIDE: Final = DecimalType(20, 0)
"""Holds every integer of the language."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_MILLISECOND: Final = 1000


def spark_name(name: str) -> str:
    """What a column of the plan is called on Spark."""
    return f"c{name.encode().hex()}"


def plan_column(name: str) -> Column:
    """A column of the plan."""
    return F.col(spark_name(name))


def value_spark_type(value_type: ValueType) -> DataType:
    """The Spark type of a value; an entity is its id, and null has the type of a text."""
    if isinstance(value_type, EntityType | NullType):
        return StringType()
    return spark_type(value_type)


def literal_column(literal: Literal) -> Column:
    """A literal, of exactly its type."""
    wanted = value_spark_type(literal.type)
    if literal.value is None:
        return F.lit(None).cast(wanted)
    match literal.type:
        case ListType(item):
            assert isinstance(literal.value, tuple), "a list is a tuple"
            return F.array(*(_scalar(found, item) for found in literal.value)).cast(wanted)
        case VectorType():
            assert isinstance(literal.value, tuple), "a vector is a tuple"
            return F.array(*(_scalar(found, Scalar.F32) for found in literal.value)).cast(wanted)
        case ScalarType(scalar):
            return _scalar(literal.value, scalar)
        case EnumType() | EntityType() | NullType():
            return F.lit(literal.value).cast(wanted)
        case _:
            assert_never(literal.type)


def _scalar(value: LiteralValue, scalar: Scalar) -> Column:
    wanted = spark_type(ScalarType(scalar))
    match value:
        case datetime():
            moment = value.astimezone(UTC) - _EPOCH
            millis = (moment.days * 86_400 + moment.seconds) * _MILLISECOND + moment.microseconds // 1000
            return F.timestamp_millis(F.lit(millis).cast("bigint"))
        case date():
            return F.date_from_unix_date(F.lit((value - _FIRST_DAY).days))
        case int() | Decimal() if scalar in {Scalar.F32, Scalar.F64}:
            return F.lit(float(value)).cast(wanted)
        case bool() | str() | float() | Decimal():
            return F.lit(value).cast(wanted)
        case int():
            # As a decimal, because a number between 2**63 and 2**64 is no literal of Spark.
            return F.lit(Decimal(value)).cast(WIDE).cast(wanted)
        case _:
            raise InvariantError(f"{type(value).__name__} is no literal of Spark", code="plan_invariant")
