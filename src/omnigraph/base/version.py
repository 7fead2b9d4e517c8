"""The version of the storage format that this release writes. In its own module to keep `omnigraph version` fast."""

from __future__ import annotations

from typing import Final

INTERNAL_SCHEMA_VERSION: Final = 1
