"""Start-up time: parsing a query imports neither Arrow, Lance, NumPy nor Spark."""

from __future__ import annotations

import subprocess
import sys


def test_heavy_packages_are_imported_late() -> None:
    script = (
        "import sys\n"
        "from omnigraph.query.parser import parse_queries\n"
        "heavy = {'pyarrow', 'lance', 'difflib', 'numpy', 'pyspark'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "parse_queries('query a() { match { $p: Person } return { $p.name } }')\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
