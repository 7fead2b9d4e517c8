"""The Spark data source `omnigraph`: `spark.dataSource.register(OmnigraphDataSource)`, then read and write by format.

In: options by name, see docs/user/spark.md. Out: DataFrames of a type, batches of new commits, and graph commits made
of DataFrames. Spark makes an instance in a Python process of the driver and sends it around, so what it reads is pinned
in it when a read is defined. It holds nothing open.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from omnigraph.pipeline.source_errors import told_to_spark
from omnigraph.pipeline.source_options import Purpose, read_options, write_options
from omnigraph.pipeline.source_read import TableRead, TableReader, plan_read, refuse_other_schema
from omnigraph.pipeline.source_stream import CommitStream
from omnigraph.pipeline.source_write import BatchWriter, TableWriter, plan_write


class OmnigraphDataSource(DataSource):
    """One type of one graph, to read, to write, to stream; docs/user/spark.md has its options."""

    _pinned: TableRead | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> StructType:
        with told_to_spark():
            return self._plan().schema

    def reader(self, schema: StructType) -> DataSourceReader:
        with told_to_spark():
            read_options(self.options, Purpose.READ)  # the schema is asked for before it is clear what for
            read = self._plan()
            refuse_other_schema(schema, read.schema)
            return TableReader(read)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        with told_to_spark():
            options = read_options(self.options, Purpose.STREAM_READ)
            refuse_other_schema(schema, self._plan().schema)
            return CommitStream(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with told_to_spark():
            options = write_options(self.options, Purpose.WRITE, overwrite=overwrite)
            return TableWriter(plan_write(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        with told_to_spark():
            options = write_options(self.options, Purpose.STREAM_WRITE, overwrite=overwrite)
            return BatchWriter(plan_write(options, schema))

    def _plan(self) -> TableRead:
        """What the read sees. Spark asks for the schema first and keeps this instance, pin and all."""
        if self._pinned is None:
            options: Any = dict(self.options)
            is_stream = "startingcommit" in {name.lower() for name in options}
            purpose = Purpose.STREAM_READ if is_stream else Purpose.READ
            self._pinned = plan_read(read_options(options, purpose))
        return self._pinned
