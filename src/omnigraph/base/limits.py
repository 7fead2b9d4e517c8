"""Every bound of the system, named, in one place. Units come last in a name."""

from __future__ import annotations

from typing import Final

SCHEMA_TEXT_BYTES_MAX: Final = 4 * 1024 * 1024
SCHEMA_PROBLEMS_MAX: Final = 100
VECTOR_DIMENSIONS_MAX: Final = 65_536

MANIFEST_FRAGMENTS_MAX: Final = 8
PUBLISHER_RETRY_BUDGET: Final = 40
PUBLISHER_BACKOFF_SECONDS_MIN: Final = 0.005
PUBLISHER_BACKOFF_SECONDS_MAX: Final = 0.5

JAVA_PROBE_SECONDS_MAX: Final = 30
