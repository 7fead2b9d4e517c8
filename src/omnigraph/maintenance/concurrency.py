"""How many tables maintenance works on at once: `OMNIGRAPH_MAINTENANCE_CONCURRENCY`, or the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from omnigraph.base.errors import UsageError
from omnigraph.base.limits import MAINTENANCE_CONCURRENCY

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
