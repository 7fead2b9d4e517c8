"""How many tables maintenance works on at the same time: `OMNIGRAPH_MAINTENANCE_CONCURRENCY`, or the default.

A thread pool of that size bounds what the driver does. Spark runs the tasks of one job together, so what is done by
tasks is cut into jobs of at most that many tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from omnigraph.base.errors import UsageError
from omnigraph.base.limits import MAINTENANCE_CONCURRENCY

Item = TypeVar("Item")

VARIABLE: Final = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"


def maintenance_concurrency(environ: Mapping[str, str] = os.environ) -> int:
    """The number of tables; raise when the variable holds anything but a whole number from 1 on."""
    text = environ.get(VARIABLE, "")
    if not text:
        return MAINTENANCE_CONCURRENCY
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(
            f"{VARIABLE} is '{text}', which is no number of tables",
            code="maintenance_concurrency",
            hint=f"set it to a whole number from 1 on, or leave it out for {MAINTENANCE_CONCURRENCY}",
        )
    return int(text)


def batches_of(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in their order, at most `size` together."""
    return (items[start : start + size] for start in range(0, len(items), size))
