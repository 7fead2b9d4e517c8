"""Runs descriptions of work on Spark: one task, one partition, one call of a function on an executor.

In: a top-level function and small picklable tasks. Out: the results in the order of the tasks. Rows never pass
through the JVM: a task reads and writes by itself and returns what the driver has to know. The whole is one Spark
job, run once. Spark may run a task twice, so a function must be safe to repeat; only the result of an attempt that
succeeded arrives. The first task that keeps failing ends the job, and its error is raised here as the one that
the function raised. Ctrl-C cancels the job and returns when its tasks have stopped.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.progress import Report, report_nothing
from omnigraph.pipeline.connect import is_connect
from omnigraph.pipeline.executors import prepare_executors
from omnigraph.pipeline.job import run_job
from omnigraph.pipeline.task_errors import pack_error
from omnigraph.pipeline.watch import SizeSum, TaskSize, Watch, make_size_sum

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

_COLUMNS: Final = "task long, result binary"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run tasks. `measure` is a top-level function that tells the size of a result, called on the executor;
    `bytes_total` is what the sizes will add up to.
    """

    step: str = "work"
    report: Report = report_nothing
    measure: Callable[[Any], TaskSize] | None = None
    bytes_total: int | None = None
    clock: Clock = SYSTEM_CLOCK


def run_tasks(
    session: SparkSession,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    options: RunOptions | None = None,
) -> tuple[Result, ...]:
    """The result of every task, in the order of the tasks."""
    if not tasks:
        return ()
    options = options or RunOptions()
    count = len(tasks)
    silent = Watch(options.step, count, report_nothing, options.clock)
    prepare_executors(session, lambda action: run_job(session, action, silent))
    size_sum = make_size_sum(session) if options.measure and not is_connect(session) else None
    watch = Watch(options.step, count, options.report, options.clock)
    watch.measure_with(size_sum, options.bytes_total)
    packed = tuple(pickle.dumps(task) for task in tasks)
    run = _make_partition_function(function, packed, options.measure, size_sum)
    frame = session.range(0, count, 1, numPartitions=count).mapInArrow(run, _COLUMNS)
    table = run_job(session, frame.toArrow, watch)
    rows: list[dict[str, Any]] = table.to_pylist()
    results: dict[int, Result] = {row["task"]: pickle.loads(row["result"]) for row in rows}
    return tuple(results[task] for task in range(count))


def _make_partition_function(
    function: Callable[[Task], Result],
    packed: tuple[bytes, ...],
    measure: Callable[[Result], TaskSize] | None,
    size_sum: SizeSum | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs on an executor. It is made here so that Spark sends it with the tasks inside."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            tasks: list[Any] = batch.column(0).to_pylist()
            for task in tasks:
                try:
                    result = function(pickle.loads(packed[task]))
                    if measure is not None and size_sum is not None:
                        size_sum.add(measure(result))
                    column = pyarrow.array([pickle.dumps(result)], pyarrow.binary())
                except Exception as error:
                    raise pack_error(error) from None
                yield pyarrow.RecordBatch.from_arrays([pyarrow.array([task]), column], ["task", "result"])

    return run
