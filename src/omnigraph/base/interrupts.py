"""The signals that asked this process to end, and what they interrupted.

In: signals, which the entry point notes. Out: a `KeyboardInterrupt` before the next task or the first durable step of a
write. A signal also raises it directly, wherever the main thread is, but a library that calls Python can ignore that.
The write path notes when a write begins to commit, because only before that an interrupted command has written nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

MAY_BE_COMMITTED: Final = "the write may have been committed: see Graph.log()"
"""The note of a `KeyboardInterrupt` in the commit phase. The command line prints it with a command."""

commit_started: Final = Event()
"""Set once this process has begun to commit a write, or has sent one to a server."""

received_signals: Final[list[int]] = []
"""The signals that the process received, oldest first."""


@contextmanager
def commit_phase() -> Iterator[None]:
    """Add a note to Ctrl-C in a block that commits: the write may be visible, or recovery may finish it."""
    commit_started.set()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if MAY_BE_COMMITTED not in getattr(interrupt, "__notes__", ()):
            interrupt.add_note(MAY_BE_COMMITTED)
        raise


def raise_if_interrupted() -> None:
    """Raise `KeyboardInterrupt` if a signal asked this process to end."""
    if received_signals:
        raise KeyboardInterrupt
