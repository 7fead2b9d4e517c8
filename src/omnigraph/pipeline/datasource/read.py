"""Reads a type for Spark: fragments of one pinned version, one partition per group of fragments.

In: options. Out: record batches in Spark's types, created on executors. A read sees the version to which it was pinned
when it was defined, whatever is published later. Filters are not pushed down, because Spark 4.3.0 keeps a pushed filter
for the next query on the same DataFrame; the caller passes a filter as an option. Nothing is written.
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
from omnigraph.pipeline.datasource.types import spark_batch, spark_schema
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.lance.read import TableScan, require_valid_filter, scan_fragments
from omnigraph.storage.settings import read_settings


@dataclass(frozen=True, slots=True)
class TableRead:
    """What one read sees: a table at a version, its commit, and the columns in Spark's types."""

    table: DatasetVersion
    commit: str
    schema: StructType
    where: str | None

    @property
    def scan(self) -> TableScan:
        return TableScan(tuple(self.schema.names), self.where)


def plan_read(options: ReadOptions) -> TableRead:
    """Pin what the options name, and check its columns and filter before any task starts."""
    snapshot = read_state(options.root, options.branch, options.selector)
    entity = snapshot.schema.catalog.require_type(options.type)
    table = snapshot.tables[entity.alias]
    pinned = pinned_version(snapshot.root, table)
    schema = spark_schema(entity, options.columns)
    if options.where is not None:
        require_valid_filter(pinned.open(), options.where)
    return TableRead(pinned, snapshot.head, schema, options.where)


def require_same_schema(schema: StructType, expected: StructType) -> None:
    """Raise if the caller's schema is not that of the table. Whether columns may be null is not compared."""
    if [(field.name, field.dataType.simpleString()) for field in schema] != [
        (field.name, field.dataType.simpleString()) for field in expected
    ]:
        raise UsageError(
            f"schema mismatch: expected {expected.simpleString()}, got {schema.simpleString()}",
            code="source_schema",
            hint="Omit the schema. Pass option 'columns' to choose columns.",
        )


def fragment_groups(table: DatasetVersion) -> list[tuple[int, ...]]:
    """Return the fragments of a table; small ones are grouped for one task."""
    return group_fragments(table.open().fragment_rows(), limits.SOURCE_PARTITION_ROWS)


class SparkTableReader(DataSourceReader):
    """Plans on the driver and reads on executors. It has no `pushFilters`: see the head of the module."""

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self._settings = read_settings(by_name=True)

    def partitions(self) -> list[InputPartition]:
        with as_spark_error(self._settings):
            return [InputPartition(group) for group in fragment_groups(self._read.table)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        fragments = partition.value or ()  # Spark creates one partition if there is none
        with as_spark_error(self._settings):
            for batch in scan_fragments(self._read.table.open(), fragments, self._read.scan):
                yield spark_batch(batch, self._read.schema)
