"""The runner in this process: order, errors, progress, and that an interrupt waits for running tasks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from omnigraph.base.errors import ConflictError
from omnigraph.base.progress import Progress
from omnigraph.pipeline.runner import LocalRunner, TaskError, TaskSize, raise_if_stopped, report_partial, task
from tests.waiting import SECONDS_MAX


def _rows(number: int) -> TaskSize:
    return TaskSize(rows=number, bytes=10)


@task("squares", _rows, input_bytes=lambda number: number)
def square(number: int) -> int:
    return number**2


@task("tables", is_table=True)
def table(number: int) -> int:
    return number


@dataclass
class Gate:
    """A task that waits until it is opened."""

    started: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    finished: list[int] = field(default_factory=list)

    def wait(self, number: int) -> int:
        self.started.set()
        assert self.opened.wait(SECONDS_MAX)
        self.finished.append(number)
        return number


def test_results_are_in_the_order_of_the_tasks() -> None:
    assert LocalRunner()(square, range(100)) == [number**2 for number in range(100)]


def test_without_tasks_nothing_is_reported() -> None:
    reports: list[Progress] = []
    assert LocalRunner(reports.append)(square, []) == []
    assert reports == []


def test_progress_counts_tasks_rows_and_bytes() -> None:
    reports: list[Progress] = []
    LocalRunner(reports.append)(square, [1, 2, 3])
    assert [report.tasks_done for report in reports] == [1, 2, 3]
    assert [report.is_last for report in reports] == [False, False, True]
    last = reports[-1]
    assert (last.step, last.tasks_total, last.rows, last.bytes, last.bytes_total) == ("squares", 3, 14, 30, 6)


def test_progress_has_what_a_running_task_reported() -> None:
    opened = threading.Event()
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        opened.set()

    @task("long", _rows)
    def work(number: int) -> int:
        report_partial(TaskSize(rows=1, bytes=3))
        assert opened.wait(SECONDS_MAX)
        return number

    assert LocalRunner(report)(work, [5]) == [5]
    sizes = [(event.tasks_done, event.rows, event.bytes, event.is_last) for event in reports]
    assert sizes[0] == (0, 1, 3, False)
    assert sizes[-1] == (1, 5, 10, True)
    report_partial(TaskSize(rows=1))  # outside of a task nothing happens


def test_error_of_omnigraph_is_raised_unchanged() -> None:
    error = ConflictError("another writer was first", code="race")

    def fail(_: int) -> int:
        raise error

    with pytest.raises(ConflictError) as raised:
        LocalRunner()(fail, [1])
    assert raised.value is error


def test_other_error_is_a_task_error() -> None:
    def fail(number: int) -> int:
        raise ValueError(f"no square of {number}")

    with pytest.raises(TaskError, match="a task failed: ValueError: no square of 7") as raised:
        LocalRunner()(fail, [7])
    assert raised.value.code == "task_failed"
    assert isinstance(raised.value.__cause__, ValueError)


def test_failed_task_starts_no_other_and_waits_for_running_ones() -> None:
    gate = Gate()

    def run(number: int) -> int:
        if number == 0:
            return gate.wait(number)
        if number == 1:
            assert gate.started.wait(SECONDS_MAX)
            threading.Timer(0.1, gate.opened.set).start()
            raise ConflictError("failed", code="race")
        gate.finished.append(number)
        return number

    with pytest.raises(ConflictError):
        LocalRunner(threads_max=2)(run, [0, 1, *range(2, 50)])
    assert gate.finished == [0]


def test_failed_task_ends_the_waits_of_the_others() -> None:
    waits = threading.Event()

    def run(number: int) -> int:
        if number == 0:
            waits.set()
            raise_if_stopped(2 * SECONDS_MAX)
            raise AssertionError("the run was not stopped")
        assert waits.wait(SECONDS_MAX)
        raise ConflictError("failed", code="race")

    with pytest.raises(ConflictError):
        LocalRunner(threads_max=2)(run, [0, 1])


@pytest.mark.parametrize("concurrency", [1, 2])
def test_tables_run_at_most_as_many_at_a_time_as_configured(concurrency: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE_CONCURRENCY", str(concurrency))
    running, most, lock = 0, 0, threading.Lock()

    def count(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        table(number)
        with lock:
            running -= 1
        return number

    task("tables", is_table=True)(count)
    LocalRunner()(count, range(50))
    assert most <= concurrency
