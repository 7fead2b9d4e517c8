"""How tests wait: for a condition, and at most until one limit that only a hanging program reaches.

A machine can be 25 times slower than usual, so no test asserts a duration or sleeps a fixed time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.base.clock import SYSTEM_CLOCK

SECONDS_MAX: Final = 900.0
"""The limit of every wait for another process, thread or server."""


def wait_until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Poll until the condition holds; fail after the limit."""
    deadline = SYSTEM_CLOCK.monotonic() + SECONDS_MAX
    while not condition():
        assert SYSTEM_CLOCK.monotonic() < deadline, f"timed out after {SECONDS_MAX:.0f} s: {what}"
        SYSTEM_CLOCK.sleep(0.01)
