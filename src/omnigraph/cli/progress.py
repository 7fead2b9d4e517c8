"""Shows progress on stderr: a bar on a terminal, elsewhere a plain line at most every second, nothing when quiet.

Work that ends within a second shows nothing, and a single task prints no lines: there is no half of it to tell. The
events are values of `omnigraph.base.progress`; a command passes what `show_progress` yields to the work. However the
work ends, the bar is gone afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from omnigraph.base.progress import Progress, Report, ignore_progress

_SECONDS_BEFORE: Final = 1.0
_SECONDS_BETWEEN: Final = 1.0


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Report]:
    """Something to report progress to."""
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
    """One line: what is done, how fast, and how long it may still take."""
    parts = [f"{progress.tasks_done}/{progress.tasks_total} tasks"]
    seconds = max(progress.seconds, 0.001)
    if progress.rows is not None:
        parts.append(f"{progress.rows:,} rows")
    if progress.bytes:
        parts.append(f"{progress.bytes / 1e6:,.1f} MB")
        parts.append(f"{progress.bytes / 1e6 / seconds:,.1f} MB/s")
    remaining = seconds_remaining(progress)
    if remaining is not None and not progress.is_last:
        parts.append(f"{remaining:,.0f} s left")
    return f"{progress.step}: {', '.join(parts)}"


def seconds_remaining(progress: Progress) -> float | None:
    """A guess from what was done so far; None before anything is."""
    share = share_done(progress)
    return progress.seconds * (1 - share) / share if share else None


def share_done(progress: Progress) -> float:
    """Between 0 and 1: by bytes when they are known, otherwise by tasks."""
    if progress.bytes and progress.bytes_total:
        return min(1.0, progress.bytes / progress.bytes_total)
    return progress.tasks_done / progress.tasks_total if progress.tasks_total else 1.0


class _Lines:
    """Plain lines for a log."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def show(self, progress: Progress) -> None:
        told_at = self._told_at.get(progress.step)
        is_early = progress.seconds < (_SECONDS_BEFORE if told_at is None else told_at + _SECONDS_BETWEEN)
        if progress.tasks_total <= 1 or (is_early and not (progress.is_last and told_at is not None)):
            return
        self._told_at[progress.step] = progress.seconds
        sys.stderr.write(describe(progress) + "\n")
        sys.stderr.flush()


class _Bar:
    """A bar of rich, made when there is something to show."""

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
        self._bar.update(
            self._steps[progress.step], completed=share_done(progress), description=describe(progress)
        )

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
