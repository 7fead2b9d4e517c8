"""The health of a graph for clients. A check reads every branch, so its document is kept for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from omnigraph.wire.maintenance import GraphHealthOutput


class HealthCache:
    """The last document of a graph. Requests at the same time share one check."""

    def __init__(self, check: Callable[[], GraphHealthOutput], clock: Clock = SYSTEM_CLOCK) -> None:
        self._check = check
        self._clock = clock
        self._lock = threading.Lock()
        self._document: GraphHealthOutput | None = None
        self._checked = 0.0

    def read(self) -> GraphHealthOutput:
        """Return the document, which is at most a minute old."""
        with self._lock:
            now = self._clock.monotonic()
            if self._document is None or now - self._checked >= limits.SERVER_HEALTH_SECONDS:
                self._document, self._checked = self._check(), now
            return self._document
