"""The outcome of a task as a value, so that the failure of one table does not end the work on the others.

In: a task function. Out: one that returns the result or the error, and the seconds that it took on its worker, which
count as work on its table. An exception that is not an `OmnigraphError` is a bug and is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Generic, TypeVar

from omnigraph.base.errors import OmnigraphError
from omnigraph.pipeline.spark.task_errors import decode_failure, encode_error

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FailedTask:
    """The error of a task, encoded as text so that an executor can return it."""

    encoded: str

    @property
    def error(self) -> OmnigraphError:
        return decode_failure(self.encoded)


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Result]):
    """The result of a task, or its error, and its seconds."""

    result: Result | FailedTask
    seconds: float


def isolated(function: Callable[[Task], Result]) -> Callable[[Task], TaskOutcome[Result]]:
    """Decorate a task function so that it returns its outcome; an `OmnigraphError` becomes a `FailedTask`."""

    @wraps(function)
    def run(task: Task) -> TaskOutcome[Result]:
        started = time.perf_counter()
        result: Result | FailedTask
        try:
            result = function(task)
        except OmnigraphError as error:
            result = FailedTask(str(encode_error(error)))
        return TaskOutcome(result, time.perf_counter() - started)

    return run
