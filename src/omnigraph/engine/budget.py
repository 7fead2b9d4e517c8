"""The two budgets of a query: bytes that its steps hold, and time.

Whoever holds rows says so with `hold` and gives them back with `release`; every step calls `tick` per frame. A budget
that is hit raises `RunError` with a code of its own. What the caches hold is bounded elsewhere.
"""

from __future__ import annotations

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import RunError
from omnigraph.engine.options import EngineOptions


class Budget:
    """What one query may still use."""

    __slots__ = ("_clock", "_deadline", "_held", "_options")

    def __init__(self, options: EngineOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._deadline = clock.monotonic() + options.seconds_max
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes that stay until they are released; raise if there are too many."""
        self._held += size
        if self._held > self._options.memory_bytes_max:
            raise _error("memory", "bytes", self._options.memory_bytes_max)

    def release(self, size: int) -> None:
        """Bytes that are held no longer."""
        self._held -= size

    def allow(self, size: int) -> None:
        """Raise if this many bytes more would be too many; they are not counted."""
        self.hold(size)
        self.release(size)

    def tick(self) -> None:
        """Raise if the time is over."""
        if self._clock.monotonic() > self._deadline:
            raise _error("time", "seconds", self._options.seconds_max)


def _error(resource: str, unit: str, limit: float) -> RunError:
    small = f"{limit:g} bytes" if limit < 1024**2 else f"{limit / 1024**2:.4g} MiB"
    shown = small if unit == "bytes" else f"{limit:g} s"
    flag, member = ("--max-memory", "memory_bytes") if unit == "bytes" else ("--max-seconds", "seconds")
    hint = (
        f"ask for fewer rows with a filter or a limit, or allow more: `{flag}` on the command line, "
        f"`limits=QueryLimits({member}=…)` in Python"
    )
    return RunError(
        f"the query hit its {resource} budget of {shown}",
        code=f"query_{resource}",
        hint=hint,
        facts={"resource_limit": {"resource": resource, "limit": limit, "unit": unit}},
    )
