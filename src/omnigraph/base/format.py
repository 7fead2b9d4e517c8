"""The storage format that this release writes. It stands alone so that `omnigraph version` is quick."""

from __future__ import annotations

from typing import Final

INTERNAL_SCHEMA_VERSION: Final = 1
