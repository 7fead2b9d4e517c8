"""The commands that doctor recommends, complete: each can be typed as it is. Pure.

In: the graph's address as the caller typed it. Out: text for `Finding.fix`. A command that would delete or publish
something is recommended as its preview, which prints how to go on.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.graph.snapshot import MAIN


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands for one graph."""

    address: str

    def optimize(self, branch: str = MAIN) -> str:
        """Bring files and indexes of a branch up to date, after pending recoveries on all branches."""
        command = f"omnigraph optimize {self._graph}"
        return command if branch == MAIN else f"{command} --branch {shlex.quote(branch)}"

    @property
    def cleanup(self) -> str:
        """Show what can be deleted."""
        return f"omnigraph cleanup {self._graph} --keep {limits.CLEANUP_KEEP_RECOMMENDED}"

    @property
    def repair(self) -> str:
        """Show what external tools changed."""
        return f"omnigraph repair {self._graph}"

    @property
    def deep(self) -> str:
        """Check everything, whatever it costs."""
        return f"omnigraph doctor {self._graph} --deep"

    @property
    def _graph(self) -> str:
        return shlex.quote(self.address)
