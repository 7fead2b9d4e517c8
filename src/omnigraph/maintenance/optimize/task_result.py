"""How a task ended, as a value: so that one table's failure ends its own work and not that of the others.

Every outcome also says how long its worker was at it, which is what a table's own work is counted by.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph.base.errors import OmnigraphError
from omnigraph.pipeline.spark.task_errors import decode_failure, encode_error

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FailedTask:
    """The error of a task, packed so that it travels from an executor."""

    packed: str

    @property
    def error(self) -> OmnigraphError:
        return decode_failure(self.packed)


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Result]):
    """What a task gave, or how it failed, and the seconds that took."""

    result: Result | FailedTask
    seconds: float


def isolated(run: Callable[[], Result]) -> TaskOutcome[Result]:
    """What the function gives, or how it failed. What is no error of ours is a mistake in the code and is raised."""
    started = time.perf_counter()
    result: Result | FailedTask
    try:
        result = run()
    except OmnigraphError as error:
        result = FailedTask(str(encode_error(error)))
    return TaskOutcome(result, time.perf_counter() - started)
