"""What a command loads: a start must not pay for what the command does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.process import environment
from tests.waiting import SECONDS_MAX

HEAVY = {
    "duckdb",
    "fastapi",
    "lance",
    "lark",
    "numpy",
    "obstore",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "ulid",
}


def test_version_loads_nothing_heavy() -> None:
    assert _loaded("version") == set()


def test_help_loads_nothing_heavy() -> None:
    assert _loaded("--help") == set()


def test_snapshot_loads_lance_and_what_lance_loads(graph: Path) -> None:
    assert _loaded("snapshot", str(graph)) <= {"lance", "numpy", "obstore", "pandas", "pyarrow"}


def test_query_loads_lance_lark_and_what_they_load(graph: Path) -> None:
    text = "query q() { match { $p: Person } return { $p.slug } }"
    loaded = _loaded("query", "--store", str(graph), "-e", text)
    assert loaded <= {"lance", "lark", "numpy", "obstore", "pandas", "pyarrow"}


def _loaded(*arguments: str) -> set[str]:
    """The heavy packages among the modules that a run of the command line imports."""
    program = "import sys; from omnigraph.cli.main import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return HEAVY & {name.partition(".")[0] for name in done.stderr.split()}
