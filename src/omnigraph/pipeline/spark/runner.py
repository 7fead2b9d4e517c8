"""Runs descriptions of work on Spark: one task, one partition, one call of a function on an executor.

In: a top-level function and small picklable tasks. Out: the results in the order of the tasks. Rows never pass
through the JVM: a task reads and writes by itself and returns what the driver has to know. Rows that Spark holds
already, in a frame of the user's, are handed to the function by partition. The whole is one Spark job, run once. Spark
may run a task twice, so a function must be safe to repeat; only the result of an attempt that succeeded arrives. The
first task that keeps failing ends the job, and its error is raised here as the one that the function raised. Ctrl-C
cancels the job and returns when its tasks have stopped.
"""

from __future__ import annotations

import lzma
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base.progress import Report, report_nothing
from omnigraph.pipeline.runner import (
    Result,
    RunTasks,
    Task,
    TaskSize,
    batches_of,
    maintenance_concurrency,
    task_info,
)
from omnigraph.pipeline.spark.connect import is_connect, is_on_this_machine
from omnigraph.pipeline.spark.executors import prepare_executors, settings_for
from omnigraph.pipeline.spark.job import SizeSum, Watch, make_size_sum, run_job
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.pipeline.spark.task_errors import pack_error
from omnigraph.storage.settings import StorageSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PartitionFunction = Callable[[int, "Iterator[pa.RecordBatch]"], Result]

TASKS_PER_PACK: Final = 64
_COLUMNS: Final = "partition long, result binary"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How to run tasks. `measure` is a top-level function that tells the size of a result, called on the executor;
    `bytes_total` is what the sizes will add up to.
    """

    step: str = "work"
    report: Report = report_nothing
    measure: Callable[[Any], TaskSize] | None = None
    bytes_total: int | None = None


def run_tasks(
    session: SparkSession,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    options: JobOptions | None = None,
) -> tuple[Result, ...]:
    """The result of every task, in the order of the tasks."""
    if not tasks:
        return ()
    prepare_executors(session)  # before the tasks are pickled: it decides whether secrets travel
    count = len(tasks)
    frame = session.range(0, count, 1, numPartitions=count)
    return run_partitions(frame, _make_task_function(function, pack_tasks(tasks)), options, count)


def pack_tasks(tasks: Sequence[Any]) -> tuple[bytes, ...]:
    """Descriptions in small packs. Spark sends all of them with every task, and they are nearly alike."""
    return tuple(
        lzma.compress(
            pickle.dumps([pickle.dumps(task) for task in tasks[start : start + TASKS_PER_PACK]]), preset=0
        )
        for start in range(0, len(tasks), TASKS_PER_PACK)
    )


def unpack_task(packs: Sequence[bytes], number: int) -> Any:
    """One description; only its pack is opened."""
    pack = pickle.loads(lzma.decompress(packs[number // TASKS_PER_PACK]))
    return pickle.loads(pack[number % TASKS_PER_PACK])


def run_partitions(
    frame: DataFrame,
    function: PartitionFunction[Result],
    options: JobOptions | None = None,
    count: int | None = None,
) -> tuple[Result, ...]:
    """What the function makes of each partition of a frame, in their order. Spark runs the frame's plan once.

    The function gets the number of the partition and its batches. `count` is how many there are, when that is known.
    """
    session = frame.sparkSession
    options = options or JobOptions()
    prepare_executors(session)
    size_sum = make_size_sum(session) if options.measure and not is_connect(session) else None
    watch = Watch(options.step, count, options.report)
    watch.measure_with(size_sum, options.bytes_total)
    measured = _make_measured(function, options.measure, size_sum)
    run = _make_partition_function(measured, settings_for(session))
    table = run_job(session, frame.mapInArrow(run, _COLUMNS).toArrow, watch)
    rows: list[dict[str, Any]] = table.to_pylist()
    return tuple(pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: int(row["partition"])))


def _make_task_function(
    function: Callable[[Task], Result], packs: tuple[bytes, ...]
) -> PartitionFunction[Result]:
    """For a frame of numbers, one a partition. It is made here so that Spark sends it with the tasks inside."""

    def run(_: int, batches: Iterator[pa.RecordBatch]) -> Result:
        numbers: list[Any] = [number for batch in batches for number in batch.column(0).to_pylist()]
        (task,) = numbers
        return function(unpack_task(packs, task))

    return run


def _make_measured(
    function: PartitionFunction[Result],
    measure: Callable[[Result], TaskSize] | None,
    size_sum: SizeSum | None,
) -> PartitionFunction[Result]:
    if measure is None or size_sum is None:
        return function

    def run(partition: int, batches: Iterator[pa.RecordBatch]) -> Result:
        result = function(partition, batches)
        size_sum.add(measure(result))
        return result

    return run


def _make_partition_function(
    function: PartitionFunction[Result], settings: StorageSettings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs on an executor: under the storage settings of the caller, not under its own."""

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
            raise pack_error(error) from None
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([partition]), column], ["partition", "result"])

    return run


def on_spark(settings: SparkSettings, report: Report = report_nothing) -> RunTasks:
    """Return a runner for the configured session that reports the progress of its tasks."""

    def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        info = task_info(function)
        size = maintenance_concurrency() if info.is_table else max(1, len(tasks))
        options = JobOptions(info.step, report, info.measure)
        return [
            result
            for part in batches_of(tasks, size)
            for result in run_tasks(spark_session(settings), function, part, options)
        ]

    return run


def on_master(master: str | None, report: Report | None) -> RunTasks:
    """Return a runner for a master by its URL; None is the configured one."""
    return on_spark(SparkSettings(master=master), report or report_nothing)


@dataclass(frozen=True, slots=True)
class SparkWorkers:
    """Executors of the session that the settings choose; `report` receives their progress."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    report: Report = report_nothing

    def run(self, step: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        return run_tasks(
            self._session(), function, tasks, JobOptions(step, self.report, task_info(function).measure)
        )

    def share_disk(self) -> bool:
        return is_on_this_machine(self._session())

    def _session(self) -> SparkSession:
        return spark_session(self.settings)
