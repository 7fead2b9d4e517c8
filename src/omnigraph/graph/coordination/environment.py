"""The one write path: Stage, Lease, Check, Arm, Commit, Publish, Disarm. Every head of every table moves here.

In: a function that stages from a snapshot. Out: `Published`, or None when there was nothing to do, or an error
that says whether the write was applied. A crash before Arm leaves unreferenced files; after it, an intent from
which the next check or open finishes the write or undoes it. See docs/dev/write-path.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.graph.coordination.lease import Lease, LeaseTerms
from omnigraph.graph.manifest.publish import Publisher
from omnigraph.graph.manifest.stamp import FORMAT, Format


@dataclass(frozen=True, slots=True)
class WriteEnvironment:
    """What a write takes from outside: time, chance, lease terms and the format rules."""

    clock: Clock = SYSTEM_CLOCK
    jitter: Callable[[], float] = random.random
    terms: LeaseTerms = field(default_factory=LeaseTerms)
    rules: Format = FORMAT

    def publisher(self, lease: Lease) -> Publisher:
        return Publisher(lease.hold, self.clock, self.jitter, self.rules)
