"""Progress on stderr: lines in a log, a bar on a terminal, nothing if it is quiet or fast."""

from __future__ import annotations

from io import StringIO

import pytest

from omnigraph.base.progress import Progress
from omnigraph.cli.progress import describe, seconds_remaining, show_progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def progress_after(seconds: float, done: int, *, is_last: bool = False) -> Progress:
    return Progress(
        step="load",
        seconds=seconds,
        tasks_done=done,
        tasks_total=10,
        rows=done * 1000,
        bytes=done * 2 * 1024**2,
        bytes_total=20 * 1024**2,
        is_last=is_last,
    )


def test_line_has_finished_work_speed_and_remaining_time() -> None:
    assert describe(progress_after(4.0, 4)) == "load: 4/10 tasks, 4,000 rows, 8.0 MiB, 2.0 MiB/s, 6 s left"
    assert describe(progress_after(10.0, 10, is_last=True)) == "load: 10/10 tasks, 10,000 rows, 20.0 MiB, 2.0 MiB/s"
    assert describe(Progress(step="load", seconds=5.0, tasks_done=1, tasks_total=2)) == "load: 1/2 tasks, 5 s left"
    assert describe(Progress(step="load", seconds=5.0, tasks_done=0, tasks_total=2)) == "load: 0/2 tasks"
    assert (
        describe(Progress(step="load", seconds=5.0, tasks_done=1, tasks_total=1, rows=1, is_last=True))
        == "load: 1/1 task, 1 row"
    )


def test_remaining_time_is_estimated_from_bytes_first() -> None:
    assert (
        seconds_remaining(
            Progress(step="load", seconds=3.0, tasks_done=1, tasks_total=2, rows=1, bytes=30, bytes_total=40)
        )
        == 1.0
    )
    assert seconds_remaining(Progress(step="load", seconds=3.0, tasks_done=1, tasks_total=2)) == 3.0


def test_at_most_one_line_per_second_and_none_for_fast_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with show_progress(quiet=False) as report:
        for tenth in range(35):
            report(progress_after(tenth / 10, tenth // 4))
        report(progress_after(3.5, 10, is_last=True))
        report(Progress(step="quick", seconds=0.9, tasks_done=2, tasks_total=2, is_last=True))
    lines = stderr.getvalue().splitlines()
    assert [line.partition(" ")[2].partition(",")[0] for line in lines] == [
        "2/10 tasks",
        "5/10 tasks",
        "7/10 tasks",
        "10/10 tasks",
    ]


def test_single_task_prints_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with show_progress(quiet=False) as report:
        report(Progress(step="load", seconds=0.1, tasks_done=0, tasks_total=1, rows=0, bytes=0))
        report(Progress(step="load", seconds=6.0, tasks_done=0, tasks_total=1, rows=3, bytes=90))
        report(Progress(step="load", seconds=7.0, tasks_done=1, tasks_total=1, rows=3, bytes=90))
        report(Progress(step="load", seconds=7.1, tasks_done=1, tasks_total=1, rows=3, bytes=90, is_last=True))
    assert stderr.getvalue() == ""


def test_single_task_prints_the_bytes_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with show_progress(quiet=False) as report:
        for seconds, size, done in ((2.0, 2, 0), (4.0, 4, 0), (5.0, 8, 1)):
            report(
                Progress(
                    step="load",
                    seconds=seconds,
                    tasks_done=done,
                    tasks_total=1,
                    rows=size * 1000,
                    bytes=size * 1024**2,
                    bytes_total=8 * 1024**2,
                    is_last=done == 1,
                )
            )
    assert stderr.getvalue().splitlines() == [
        "load: 0/1 task, 2,000 rows, 2.0 MiB, 1.0 MiB/s, 6 s left",
        "load: 0/1 task, 4,000 rows, 4.0 MiB, 1.0 MiB/s, 4 s left",
        "load: 1/1 task, 8,000 rows, 8.0 MiB, 1.6 MiB/s",
    ]


def test_quiet_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with show_progress(quiet=True) as report:
        report(progress_after(5.0, 5))
    assert stderr.getvalue() == ""


def test_bar_on_a_terminal_is_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with show_progress(quiet=False) as report:
        report(progress_after(0.5, 1))
        assert stderr.getvalue() == ""
        report(progress_after(5.0, 5))
        report(progress_after(9.0, 9))
    assert "9/10 tasks" in stderr.getvalue()
    assert stderr.getvalue().rstrip().endswith("\x1b[2K")
