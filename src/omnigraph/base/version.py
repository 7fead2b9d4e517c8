"""The storage format that this release writes, apart from what reads it, so that `omnigraph version` is quick."""

from __future__ import annotations

from typing import Final

INTERNAL_SCHEMA_VERSION: Final = 1
