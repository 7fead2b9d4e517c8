"""Groups tests that share an expensive resource, so that they run in one process.

Tests of Spark share sessions, tests of commands a warm Spark server, and the cases of one file of conformance cases
their graphs. A file has a mark `xdist_group`; the scheduler of xdist does not see marks, so this module reads the
files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

_ROOT: Final = Path(__file__).parents[1]
_SPARK: Final = 'xdist_group("spark")'
_COMMANDS: Final = ("tests/cli/", "tests/docs/")
_CASES: Final = "tests/conformance/test_conformance.py"


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Schedules groups of tests, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the name of a test's group; most tests are a group of their own."""
    path, _, name = nodeid.partition("::")
    if path == _CASES and "[" in name:
        return f"{path} {name.partition('[')[2].partition(':')[0]}"
    if not _needs_spark(path):
        return nodeid
    return "commands" if path.startswith(_COMMANDS) else "spark"


@cache
def _needs_spark(path: str) -> bool:
    return _SPARK in (_ROOT / path).read_text(encoding="utf-8")
