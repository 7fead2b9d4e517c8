"""How long the work on each table took: that of its tasks on workers added up, and what the driver did for it alone."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from omnigraph.graph.staged import LooseEffect
from omnigraph.storage.dataset import Dataset


@dataclass(slots=True)
class TableSeconds:
    """The seconds of a run, by alias."""

    _spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def of(self, alias: str) -> float:
        """What a table took so far."""
        return self._spent[alias]

    def add(self, alias: str, seconds: float) -> None:
        """What a worker says it took."""
        self._spent[alias] += seconds

    @contextmanager
    def clocked(self, alias: str) -> Iterator[None]:
        """What is done within the block counts."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(alias, time.perf_counter() - started)

    def committing(self, alias: str, effect: LooseEffect) -> LooseEffect:
        """The same effect, whose commit counts as work on its table."""

        def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
            with self.clocked(alias):
                return effect.run(handle, hold)

        return replace(effect, run=run)
