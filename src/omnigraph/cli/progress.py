"""Shows progress on stderr: a bar on a terminal, elsewhere a plain line at most every second, nothing when quiet.

Work that ends within a second shows nothing. A single task prints lines only if it reports a part of its bytes.
The events are values of `omnigraph.base.progress`; a command passes the function that `show_progress` yields. The bar
is removed at the end, also after an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from omnigraph.base.display import format_bytes, format_count
from omnigraph.base.progress import Progress, Report, ignore_progress

_SECONDS_BEFORE: Final = 1.0
_SECONDS_BETWEEN: Final = 1.0


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Report]:
    """Yield a function that shows the progress that it receives."""
    if quiet:
        yield ignore_progress
    elif sys.stderr.isatty():
        bar = _Bar()
        try:
            yield bar.show
        finally:
            bar.close()
    else:
        yield _Lines().show


def describe(progress: Progress) -> str:
    """Return one line: the finished work, its speed and the estimated remaining time."""
    parts = [f"{progress.tasks_done:,}/{format_count(progress.tasks_total, 'task')}"]
    seconds = max(progress.seconds, 0.001)
    if progress.rows is not None:
        parts.append(format_count(progress.rows, "row"))
    if progress.bytes:
        parts.append(format_bytes(progress.bytes))
        parts.append(f"{format_bytes(int(progress.bytes / seconds))}/s")
    remaining = seconds_remaining(progress)
    if remaining is not None and not progress.is_last:
        parts.append(f"{remaining:,.0f} s left")
    return f"{progress.step}: {', '.join(parts)}"


def seconds_remaining(progress: Progress) -> float | None:
    """Estimate the remaining time from the finished work; None if nothing is finished."""
    share = share_done(progress)
    return progress.seconds * (1 - share) / share if share else None


def share_done(progress: Progress) -> float:
    """Return the finished share between 0 and 1: by bytes if they are known, otherwise by tasks."""
    if progress.bytes and progress.bytes_total:
        return min(1.0, progress.bytes / progress.bytes_total)
    return progress.tasks_done / progress.tasks_total if progress.tasks_total else 1.0


class _Lines:
    """Prints plain lines, for a log."""

    def __init__(self) -> None:
        self._printed_at: dict[str, float] = {}

    def show(self, progress: Progress) -> None:
        printed_at = self._printed_at.get(progress.step)
        is_early = progress.seconds < (_SECONDS_BEFORE if printed_at is None else printed_at + _SECONDS_BETWEEN)
        is_started = progress.bytes is not None and 0 < progress.bytes < (progress.bytes_total or 0)
        if progress.tasks_total <= 1 and not is_started and printed_at is None:
            return
        if is_early and not (progress.is_last and printed_at is not None):
            return
        self._printed_at[progress.step] = progress.seconds
        sys.stderr.write(describe(progress) + "\n")
        sys.stderr.flush()


class _Bar:
    """Shows a bar of rich, created at the first event after a second."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._steps: dict[str, Any] = {}

    def show(self, progress: Progress) -> None:
        if self._bar is None:
            if progress.seconds < _SECONDS_BEFORE:
                return
            self._bar = _make_bar()
            self._bar.start()
        if progress.step not in self._steps:
            self._steps[progress.step] = self._bar.add_task("", total=1.0)
        self._bar.update(self._steps[progress.step], completed=share_done(progress), description=describe(progress))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
