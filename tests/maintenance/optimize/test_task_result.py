"""The outcome of a task can be returned from an executor, including an error with its class and facts."""

from __future__ import annotations

import pickle

from omnigraph.base.errors import NotFoundError
from omnigraph.maintenance.optimize.task_result import FailedTask, TaskOutcome, isolated


def test_result() -> None:
    outcome = isolated(abs)(-7)
    assert outcome.result == 7
    assert outcome.seconds >= 0


def test_error_with_facts() -> None:
    @isolated
    def fail(_: str) -> int:
        raise NotFoundError("file missing", code="missing", hint="Retry.", facts={"path": "a"})

    outcome: TaskOutcome[int] = pickle.loads(pickle.dumps(fail("a")))
    assert isinstance(outcome.result, FailedTask)
    error = outcome.result.error
    assert isinstance(error, NotFoundError)
    assert (error.message, error.code, error.hint, dict(error.facts)) == (
        "file missing",
        "missing",
        "Retry.",
        {"path": "a"},
    )
