"""The packages that a command imports: only those that it uses, so that it starts fast."""

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


def test_entry_point_imports_typer_inside_main() -> None:
    """Ctrl-C during the import of Typer prints one line only if `main` has already set its signal handlers."""
    program = "import sys, omnigraph.cli.main; sys.exit('typer' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], env=environment(), timeout=SECONDS_MAX, check=True)


def test_version_imports_nothing_heavy() -> None:
    assert _imported("version") == set()


def test_help_imports_nothing_heavy() -> None:
    assert _imported("--help") == set()


def test_snapshot_imports_lance_and_its_dependencies(graph: Path) -> None:
    assert _imported("snapshot", str(graph)) <= {"lance", "numpy", "obstore", "pyarrow"}


def test_query_imports_lance_lark_and_their_dependencies(graph: Path) -> None:
    text = "query q() { match { $p: Person } return { $p.slug } }"
    imported = _imported("query", "--store", str(graph), "-e", text)
    assert imported <= {"lance", "lark", "numpy", "obstore", "pyarrow"}


def _imported(*arguments: str) -> set[str]:
    """Return the heavy packages that a command imports."""
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from omnigraph.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return HEAVY & {name.partition(".")[0] for name in done.stderr.split()}
