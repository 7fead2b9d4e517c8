"""What maintenance needs of a graph that somebody has opened. The Python surface itself stands above this room."""

from __future__ import annotations

from typing import Protocol

from omnigraph.storage.location import Location


class GraphPlace(Protocol):
    """A graph, as far as maintenance needs one."""

    @property
    def location(self) -> Location: ...
