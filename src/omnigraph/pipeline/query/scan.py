"""Tables of a snapshot as DataFrames: tasks on executors read groups of fragments of the pinned version.

In: a table, the columns that an operator needs, its filter. Out: a DataFrame whose columns have the names of
`spark_name`. Lance evaluates the part of the filter that it can, as in the process, and Spark the rest. Nothing is
written, and a repeated task reads the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from omnigraph.engine.operators.scan import storage_filter
from omnigraph.graph.manifest.snapshot import pinned_version
from omnigraph.pipeline.datasource.read import fragment_groups
from omnigraph.pipeline.query.columns import filter_rows, plan_column, spark_name, value_spark_type
from omnigraph.pipeline.spark.executors import settings_for
from omnigraph.pipeline.spark.task_errors import encode_error
from omnigraph.query.plan.expression_walk import NO_FILTER, ScanFilter, columns_of
from omnigraph.query.plan.types import Entity
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.read import TableScan, scan_fragments
from omnigraph.storage.settings import StorageSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TableFrames:
    """Creates DataFrames of the tables of one snapshot."""

    session: SparkSession
    snapshot: Snapshot

    def rows(self, entity: Entity, columns: tuple[str, ...], scan_filter: ScanFilter = NO_FILTER) -> DataFrame:
        """Return these columns of the rows that pass the filter, as `entity.column`."""
        where, rest = storage_filter(scan_filter.pushed)
        residual = (*rest, *scan_filter.residual)
        filter_columns = (reference.column for condition in residual for reference in columns_of(condition))
        read = self._read(entity, tuple(dict.fromkeys((*columns, *filter_columns))), where)
        return filter_rows(read, residual).select(*(plan_column(f"{entity.name}.{name}") for name in columns))

    def _read(self, entity: Entity, columns: tuple[str, ...], where: str | None) -> DataFrame:
        record = self.snapshot.tables[entity.table.alias]
        table = pinned_version(self.snapshot.root, record)
        groups = fragment_groups(table) or [()]
        schema = _schema(entity, columns)
        task = _ScanTask(
            table=table,
            groups=tuple(groups),
            scan=TableScan(columns, where),
            schema=schema,
            settings=settings_for(self.session),
        )
        numbers = self.session.range(0, len(groups), 1, numPartitions=len(groups))
        return numbers.mapInArrow(task.run, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScanTask:
    """What is sent to an executor: each input row is the number of a group of fragments."""

    table: DatasetVersion
    groups: tuple[tuple[int, ...], ...]
    scan: TableScan
    schema: StructType
    settings: StorageSettings

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            numbers: list[Any] = [number for batch in batches for number in batch.column(0).to_pylist()]
            with self.settings.applied():
                for number in numbers:
                    for batch in scan_fragments(self.table.open(), self.groups[number], self.scan):
                        yield self._in_spark_types(batch)
        except Exception as error:
            raise encode_error(error) from None

    def _in_spark_types(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        target = to_arrow_schema(self.schema, timezone="UTC")
        arrays: list[Any] = []
        for name, field in zip(self.scan.columns, target, strict=True):
            column: Any = batch.column(name)
            if pa.types.is_binary(field.type):  # of a Blob, queries can only ask whether it is null
                content, missing = pa.scalar(b"", field.type), pa.scalar(None, field.type)
                arrays.append(pc.if_else(column.is_valid(), content, missing))
            else:
                arrays.append(pc.cast(column, field.type))
        build: Any = pa.RecordBatch.from_arrays
        converted: pa.RecordBatch = build(arrays, schema=target)
        return converted


def _schema(entity: Entity, columns: tuple[str, ...]) -> StructType:
    fields = []
    for name in columns:
        column = entity.table.column(name)
        assert column is not None, "a plan reads columns that exist"
        kind = value_spark_type(column.type)
        is_nullable = column.nullable or column.type == ScalarType(Scalar.BLOB)
        fields.append(StructField(spark_name(f"{entity.name}.{name}"), kind, is_nullable))
    return StructType(fields)
