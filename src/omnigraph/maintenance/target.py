"""The part of an opened graph that maintenance needs. `api` is above this package, so it cannot be imported here."""

from __future__ import annotations

from typing import Protocol

from omnigraph.storage.location import Location


class GraphTarget(Protocol):
    """An opened graph."""

    @property
    def location(self) -> Location: ...
