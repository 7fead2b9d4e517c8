"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no reason to fail; the tests that are about speed measure it themselves.
settings.register_profile("omnigraph", deadline=None)
settings.load_profile("omnigraph")
