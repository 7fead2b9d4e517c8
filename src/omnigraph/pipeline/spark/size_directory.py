"""Sizes of running tasks through a directory of this machine, one small file per task.

In: sizes that tasks report on executors of this machine. Out: their sum on the driver. Spark Connect has no
accumulators, and those of Spark count a task only when it is finished, which shows nothing for one large file. A file
that cannot be written or read is skipped: progress never fails a job. The driver deletes the directory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.pipeline.runner import TaskSize


class SizeWriter:
    """Writes the size of one task; of partial sizes only some, because a task reports one after each block."""

    def __init__(self, directory: str, partition: int, written_at: float | None = None) -> None:
        self._directory, self._partition = directory, partition
        self._written_at = SYSTEM_CLOCK.monotonic() if written_at is None else written_at

    def receive(self, size: TaskSize) -> None:
        """Write a partial size, unless the last one is recent."""
        if SYSTEM_CLOCK.monotonic() - self._written_at >= limits.PROGRESS_SECONDS:
            self.write(size)

    def write(self, size: TaskSize) -> None:
        """Write a size. It replaces the earlier one, also that of an earlier attempt."""
        self._written_at = SYSTEM_CLOCK.monotonic()
        path = Path(self._directory, str(self._partition))
        draft = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            draft.write_text(f"{size.rows} {size.bytes}", encoding="ascii")
            draft.replace(path)


@dataclass(frozen=True, slots=True)
class SizeDirectory:
    """The directory, and the sum of the sizes in it."""

    path: str
    sizes: dict[str, tuple[int, TaskSize]] = field(default_factory=dict)

    @property
    def value(self) -> TaskSize:
        """Return the sum; only files that changed are read."""
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.isdigit():
                    self._read(entry)
        return sum((size for _, size in self.sizes.values()), TaskSize())

    def _read(self, entry: os.DirEntry[str]) -> None:
        with suppress(OSError, ValueError):
            changed = entry.stat().st_mtime_ns
            if self.sizes.get(entry.name, (None,))[0] != changed:
                rows, size_bytes = Path(entry.path).read_text(encoding="ascii").split()
                self.sizes[entry.name] = (changed, TaskSize(int(rows), int(size_bytes)))


@contextmanager
def open_size_directory() -> Iterator[SizeDirectory]:
    """Yield an empty directory; it is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-progress-", ignore_cleanup_errors=True) as path:
        yield SizeDirectory(path)
