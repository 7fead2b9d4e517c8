"""Groups tests that share an expensive resource, so that they run in one process.

Tests of Spark share sessions, tests of commands a warm Spark server, and the cases of one file of conformance cases
their graphs. Tests of one file share its fixtures with the scope `module`, for example a server process. A file of
Spark has a mark `xdist_group`; the scheduler of xdist sees neither marks nor fixtures, so this module reads the files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

_ROOT: Final = Path(__file__).parents[1]
_SPARK: Final = 'xdist_group("spark")'
_COMMANDS: Final = ("tests/cli/", "tests/docs/")
_MODULE: Final = 'scope="module"'
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
    if _contains(path, _SPARK):
        return "commands" if path.startswith(_COMMANDS) else "spark"
    has_module_fixtures = _contains(path, _MODULE) or _contains(f"{path.rpartition('/')[0]}/conftest.py", _MODULE)
    return path if has_module_fixtures else nodeid


@cache
def _contains(path: str, text: str) -> bool:
    file = _ROOT / path
    return file.exists() and text in file.read_text(encoding="utf-8")
