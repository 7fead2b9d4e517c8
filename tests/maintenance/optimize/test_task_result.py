"""How a task ended travels from an executor: also an error with facts, as what it is."""

from __future__ import annotations

import pickle

from omnigraph.base.errors import NotFoundError
from omnigraph.maintenance.optimize.task_result import FailedTask, TaskOutcome, run_isolated


def test_a_result() -> None:
    outcome = run_isolated(lambda: 7)
    assert outcome.result == 7
    assert outcome.seconds >= 0


def test_an_error_with_facts() -> None:
    def fail() -> int:
        raise NotFoundError("it is gone", code="gone", hint="look again", facts={"path": "a"})

    outcome: TaskOutcome[int] = pickle.loads(pickle.dumps(run_isolated(fail)))
    assert isinstance(outcome.result, FailedTask)
    error = outcome.result.error
    assert isinstance(error, NotFoundError)
    assert (error.message, error.code, error.hint, dict(error.facts)) == (
        "it is gone",
        "gone",
        "look again",
        {"path": "a"},
    )
