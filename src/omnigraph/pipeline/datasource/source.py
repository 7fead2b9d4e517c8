"""The Spark data source `omnigraph`: `spark.dataSource.register(OmnigraphDataSource)`, then read and write by format.

In: options by name, see docs/user/spark.md. Out: DataFrames of a type, batches of new commits, and commits of the rows
of DataFrames. Spark creates an instance in a Python process of the driver and pickles it, so a read is pinned in the
instance when it is defined. It holds nothing open. The class is pickled with the storage settings of the process that
registers it, because other processes have the settings with which Spark was started.
"""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from omnigraph.pipeline.datasource.options import Purpose, as_spark_error, read_options, write_options
from omnigraph.pipeline.datasource.read import SparkTableReader, TableRead, plan_read, require_same_schema
from omnigraph.pipeline.datasource.stream import CommitStream
from omnigraph.pipeline.datasource.write import BatchWriter, TableWriter, plan_write
from omnigraph.pipeline.spark.executors import settings_for
from omnigraph.pipeline.spark.session import active_session
from omnigraph.storage.settings import StorageSettings, read_settings


class _RegisteredType(ABCMeta):
    """The metaclass of the class that programs register; it is pickled with the caller's settings."""


class _Source(DataSource):
    """The class in Spark's processes. `settings` are those of the process that registered it."""

    settings: StorageSettings | None = None
    _pinned: TableRead | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> StructType:
        with self._as_caller():
            return self._plan().schema

    def reader(self, schema: StructType) -> DataSourceReader:
        with self._as_caller():
            read_options(self.options, Purpose.READ)  # Spark asks for the schema before the purpose is known
            read = self._plan()
            require_same_schema(schema, read.schema)
            return SparkTableReader(read)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        with self._as_caller():
            options = read_options(self.options, Purpose.STREAM_READ)
            require_same_schema(schema, self._plan().schema)
            return CommitStream(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with self._as_caller():
            options = write_options(self.options, Purpose.WRITE, overwrite=overwrite)
            return TableWriter(plan_write(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        with self._as_caller():
            options = write_options(self.options, Purpose.STREAM_WRITE, overwrite=overwrite)
            return BatchWriter(plan_write(options, schema))

    def _as_caller(self) -> AbstractContextManager[None]:
        return as_spark_error(self.settings or read_settings(by_name=True))

    def _plan(self) -> TableRead:
        """Return what the read sees. Spark asks for the schema first and keeps this instance with its pin."""
        if self._pinned is None:
            options: Any = dict(self.options)
            # Spark does not say what it asks the schema for; only a stream has this option.
            is_stream = "startingcommit" in {name.lower() for name in options}
            purpose = Purpose.STREAM_READ if is_stream else Purpose.READ
            self._pinned = plan_read(read_options(options, purpose))
        return self._pinned


class OmnigraphDataSource(_Source, metaclass=_RegisteredType):
    """One type of one graph, to read, write or stream; docs/user/spark.md has its options."""


def _make_class(settings: StorageSettings) -> ABCMeta:
    """Return the class with these settings, which Spark's processes pickle without changes."""
    return ABCMeta(OmnigraphDataSource.__name__, (_Source,), {"settings": settings, "__module__": __name__})


def _reduce_class(_: _RegisteredType) -> tuple[Any, ...]:
    session = active_session()
    return _make_class, (read_settings(by_name=True) if session is None else settings_for(session),)


copyreg.pickle(_RegisteredType, _reduce_class)
