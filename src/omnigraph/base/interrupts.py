"""The signals that asked this process to end.

In: signals, which the entry point notes. Out: a `KeyboardInterrupt` before the next task or the first durable step of a
write. A signal also raises it directly, wherever the main thread is, but a library that calls Python can ignore that.
"""

from __future__ import annotations

from typing import Final

received_signals: Final[list[int]] = []
"""The signals that the process received, oldest first."""


def raise_if_interrupted() -> None:
    """Raise `KeyboardInterrupt` if a signal asked this process to end."""
    if received_signals:
        raise KeyboardInterrupt
