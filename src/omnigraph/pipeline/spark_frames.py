"""A DataFrame of Spark as a source of rows of one type, on a classic session or over Connect.

In: the frame, its type. Out: the part that each of its partitions became. Spark runs the frame's plan once for each
read; the rows go from Spark's executors straight into the worker beside them, as Arrow batches, and never to the
driver. A row's line is its number, counted over the partitions in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.pipeline.arrow_rows import arrow_block
from omnigraph.pipeline.blocks import Block
from omnigraph.pipeline.frames import frame_name
from omnigraph.pipeline.input_types import refuse_foreign_columns, refuse_twin_columns, type_of_rows
from omnigraph.pipeline.load_task import LoadPart, LoadShape, load_blocks
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.tasks import RunOptions, run_partitions
from omnigraph.schema import Entity, catalog_from_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SparkFrameSource:
    """The rows of a frame. Nobody knows how many there are before they are read."""

    frame: DataFrame
    type_name: str
    name: str
    options: RunOptions

    @property
    def text_bytes(self) -> None:
        return None

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        del run_tasks  # the tasks are the partitions of the frame, and Spark alone can run them
        return run_partitions(
            self.frame, partial(_load_partition, shape, self.name, self.type_name), self.options
        )


def plan_spark_frame(frame: DataFrame, entity: Entity, options: RunOptions) -> SparkFrameSource:
    """The source, once the names of the columns are good."""
    name = frame_name(entity)
    refuse_twin_columns(name, frame.columns)
    refuse_foreign_columns(name, frame.columns, entity)
    return SparkFrameSource(frame, entity.name, name, options)


def _load_partition(
    shape: LoadShape, name: str, type_name: str, partition: int, batches: Iterator[pa.RecordBatch]
) -> LoadPart:
    entity = type_of_rows(catalog_from_json(shape.catalog_json), type_name)
    size_bytes = 0

    def blocks() -> Iterator[Block]:
        nonlocal size_bytes
        for batch in batches:
            size_bytes += batch.nbytes
            yield arrow_block(entity, batch)

    part = load_blocks(shape, (name, partition), blocks(), 0)
    return replace(part, bytes_read=size_bytes)
