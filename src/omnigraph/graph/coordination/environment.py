"""The inputs of a write that are not part of the graph: clock, random numbers, lease terms and storage format.

Tests pass other values. Nothing here does I/O.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.graph.coordination.lease import Lease, LeaseTerms
from omnigraph.graph.manifest.publish import Publisher
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat


@dataclass(frozen=True, slots=True)
class WriteEnvironment:
    """What a write takes from outside: time, random jitter, lease terms and storage format."""

    clock: Clock = SYSTEM_CLOCK
    jitter: Callable[[], float] = random.random
    terms: LeaseTerms = field(default_factory=LeaseTerms)
    storage_format: StorageFormat = FORMAT

    def publisher(self, lease: Lease) -> Publisher:
        return Publisher(lease.hold, self.clock, self.jitter, self.storage_format)
