"""A task that failed, as a value: so that one table's failure ends its own work and not that of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.base.errors import OmnigraphError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The error of a task. It travels."""

    error: OmnigraphError


def isolated(run: Callable[[], Result]) -> Result | TaskFailure:
    """What the function gives, or how it failed. What is no error of ours is a mistake in the code and is raised."""
    try:
        return run()
    except OmnigraphError as error:
        return TaskFailure(error)
