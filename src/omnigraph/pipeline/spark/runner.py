"""Runs tasks on Spark: one partition per task, one call of the function on an executor.

In: a top-level function and small picklable tasks (`SparkRunner`), or a function of the partitions of a DataFrame
(`run_partitions`). Out: the results in the order of the tasks. A task reads and writes files by itself and returns only
what the driver needs, so rows of the graph do not pass through the JVM; rows of a DataFrame do. Spark may run a task
more than once, so a function must be safe to repeat; the driver sees the result of one successful attempt. If all
attempts fail, the job fails and the error of the task is raised. Ctrl-C cancels the job and waits for its tasks.
"""

from __future__ import annotations

import gc
import lzma
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base.progress import Report, ignore_progress
from omnigraph.pipeline.runner import (
    Result,
    Task,
    TaskInfo,
    TaskSize,
    batches_of,
    maintenance_concurrency,
    receive_partial,
    task_info,
)
from omnigraph.pipeline.spark.connect import is_connect, is_on_this_machine, is_private
from omnigraph.pipeline.spark.executors import prepare_executors, settings_for
from omnigraph.pipeline.spark.job import JobProgress, SizeAccumulator, make_size_sum, run_job
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.pipeline.spark.size_directory import SizeWriter, open_size_directory
from omnigraph.pipeline.spark.task_errors import encode_error
from omnigraph.storage.settings import StorageSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PartitionFunction = Callable[[int, "Iterator[pa.RecordBatch]"], Result]
TASKS_PER_PACK: Final = 64
_COLUMNS: Final = "partition long, result binary"


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Runs tasks on `session`, or on the session that `settings` choose; `report` receives the progress."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    report: Report = ignore_progress
    session: SparkSession | None = None

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
        """Return the results in the order of the tasks."""
        info = task_info(function)
        size = maintenance_concurrency() if info.is_table else max(1, len(tasks))
        return [result for batch in batches_of(tasks, size) for result in self._run_batch(function, batch, info)]

    @property
    def description(self) -> str:
        session = self._open_session()
        return "spark connect" if is_connect(session) else f"spark {session.sparkContext.master}"

    def shares_disk(self, _job_bytes: int, /) -> bool:
        return is_on_this_machine(self._open_session())

    def _run_batch(self, function: Callable[[Task], Result], tasks: Sequence[Task], info: TaskInfo) -> Sequence[Result]:
        session, count = self._open_session(), len(tasks)
        prepare_executors(session)  # before the tasks are pickled: it decides whether they contain secrets
        frame = session.range(0, count, 1, numPartitions=count)
        bytes_total = None if info.input_bytes is None else sum(map(info.input_bytes, tasks))
        progress = JobProgress(info.step, count, self.report, bytes_total)
        return run_partitions(frame, _make_task_function(function, pack_tasks(tasks)), progress, info.measure)

    def _open_session(self) -> SparkSession:
        return self.session or spark_session(self.settings)


def run_partitions(
    frame: DataFrame,
    function: PartitionFunction[Result],
    progress: JobProgress,
    measure: Callable[[Result], TaskSize] | None = None,
) -> tuple[Result, ...]:
    """Return the results of the function for each partition of a DataFrame, in partition order, in one Spark job.

    The function takes the number of the partition and its batches. `measure` is a top-level function that returns the
    size of a result; it is called on the executor. Executors on this machine report sizes through a directory, also
    while they run; others through an accumulator, which Spark Connect does not have.
    """
    session = frame.sparkSession
    prepare_executors(session)
    with ExitStack() as stack:
        if measure is not None and (is_on_this_machine(session) or is_private(session)):
            sizes = stack.enter_context(open_size_directory())
            progress.size_sum = sizes
            function = _make_reporting(function, measure, sizes.path)
        elif measure is not None and not is_connect(session):
            progress.size_sum = make_size_sum(session)
            function = _make_measured(function, measure, progress.size_sum)
        run = _make_partition_function(function, settings_for(session))
        rows = run_job(session, frame.mapInArrow(run, _COLUMNS).toArrow, progress).sort_by("partition")
    results: list[Any] = rows.column("result").to_pylist()
    return tuple(map(pickle.loads, results))


def pack_tasks(tasks: Sequence[Any]) -> tuple[bytes, ...]:
    """Return the tasks in compressed packs: Spark sends all packs with every task, and similar tasks compress well."""
    return tuple(
        lzma.compress(pickle.dumps([pickle.dumps(task) for task in pack]), preset=0)
        for pack in batches_of(tasks, TASKS_PER_PACK)
    )


def unpack_task(packs: Sequence[bytes], number: int) -> Any:
    """Return the task with this number. Only its pack is decompressed."""
    pack = pickle.loads(lzma.decompress(packs[number // TASKS_PER_PACK]))
    return pickle.loads(pack[number % TASKS_PER_PACK])


def _make_task_function(function: Callable[[Task], Result], packs: tuple[bytes, ...]) -> PartitionFunction[Result]:
    """Return a function for a DataFrame with one task number per partition. Spark sends it with the packs inside."""

    def run(_: int, batches: Iterator[pa.RecordBatch]) -> Result:
        numbers: list[Any] = [number for batch in batches for number in batch.column(0).to_pylist()]
        (number,) = numbers
        return function(unpack_task(packs, number))

    return run


def _make_reporting(
    function: PartitionFunction[Result], measure: Callable[[Result], TaskSize], directory: str
) -> PartitionFunction[Result]:
    """Return the function that also writes what it has done into the directory."""

    def run(partition: int, batches: Iterator[pa.RecordBatch]) -> Result:
        writer = SizeWriter(directory, partition)
        with receive_partial(writer.receive):
            result = function(partition, batches)
        writer.write(measure(result))
        return result

    return run


def _make_measured(
    function: PartitionFunction[Result], measure: Callable[[Result], TaskSize], size_sum: SizeAccumulator
) -> PartitionFunction[Result]:
    """Return the function that also adds the size of its result to the accumulator."""

    def run(partition: int, batches: Iterator[pa.RecordBatch]) -> Result:
        result = function(partition, batches)
        size_sum.add(measure(result))
        return result

    return run


def _make_partition_function(
    function: PartitionFunction[Result], settings: StorageSettings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs on an executor, with the caller's storage settings instead of its own."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        partition = context.partitionId()
        try:
            with settings.applied():
                result = function(partition, batches)
                column = pyarrow.array([pickle.dumps(result)], pyarrow.binary())
        except Exception as error:
            raise encode_error(error) from None
        freeze_imported_objects()
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([partition]), column], ["partition", "result"])

    return run


@cache
def freeze_imported_objects() -> None:
    """Exclude all current objects of this process from garbage collection, once.

    A Spark worker runs a full garbage collection after each task. With hundreds of thousands of objects of libraries,
    this took a quarter of the time of a task.
    """
    gc.freeze()
