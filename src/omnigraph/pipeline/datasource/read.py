"""Reads a type for Spark: fragments of one pinned version, each group of them a partition.

In: options. Out: record batches in Spark's types, made on executors. Whatever is published meanwhile, a read sees the
version that it was pinned to when it was defined. There is no filter pushdown, because Spark 4.3.0 keeps a pushed
filter for the next query on the same frame: the caller passes a filter. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.refs import read_state
from omnigraph.graph.manifest.snapshot import pinned_version
from omnigraph.pipeline.datasource.options import ReadOptions, as_spark_error
from omnigraph.pipeline.datasource.types import find_type, spark_batch, spark_schema
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.lance.read import TableScan, check_filter, scan_fragments
from omnigraph.storage.settings import read_settings


@dataclass(frozen=True, slots=True)
class TableRead:
    """What one read sees: a table, the commit it was found at, and the columns as Spark knows them."""

    table: DatasetVersion
    commit: str
    schema: StructType
    where: str | None

    @property
    def scan(self) -> TableScan:
        return TableScan(tuple(self.schema.names), self.where)


def plan_read(options: ReadOptions) -> TableRead:
    """Pin what the options name, and check its columns and filter before any task starts."""
    snapshot = read_state(options.root, options.branch, options.when)
    entity = find_type(snapshot.schema.catalog, options.type)
    table = snapshot.tables[entity.alias]
    pinned = pinned_version(snapshot.root, table)
    schema = spark_schema(entity, options.columns)
    if options.where is not None:
        check_filter(pinned.open(), options.where)
    return TableRead(pinned, snapshot.head, schema, options.where)


def refuse_other_schema(schema: StructType, expected: StructType) -> None:
    """A schema that the caller gives must be the table's own; whether a column may be null is not asked."""
    if [(field.name, field.dataType.simpleString()) for field in schema] != [
        (field.name, field.dataType.simpleString()) for field in expected
    ]:
        raise UsageError(
            f"the given schema is {schema.simpleString()}, and the type's is {expected.simpleString()}",
            code="source_schema",
            hint="leave the schema out; option 'columns' chooses columns",
        )


def fragment_groups(table: DatasetVersion) -> list[tuple[int, ...]]:
    """The fragments of a table, some together where each is too small for a task of its own."""
    return group_fragments(table.open().fragment_rows(), limits.SOURCE_PARTITION_ROWS)


class SparkTableReader(DataSourceReader):
    """Plans on the driver and reads on executors. It has no `pushFilters`, see above."""

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self._settings = read_settings(by_name=True)

    def partitions(self) -> list[InputPartition]:
        with as_spark_error(self._settings):
            return [InputPartition(group) for group in fragment_groups(self._read.table)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        fragments = partition.value or ()  # Spark makes up one partition when there is none
        with as_spark_error(self._settings):
            for batch in scan_fragments(self._read.table.open(), fragments, self._read.scan):
                yield spark_batch(batch, self._read.schema)
