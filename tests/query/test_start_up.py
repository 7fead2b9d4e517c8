"""Start-up time: importing the parser imports no large library, and parsing a text imports only lark."""

from __future__ import annotations

import subprocess
import sys


def test_heavy_packages_are_imported_late() -> None:
    script = (
        "import sys, omnigraph.query.parser as query\n"
        "heavy = {'lark', 'pyarrow', 'lance', 'difflib', 'numpy', 'pyspark'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "query.parse_queries('query a() { match { $p: Person } return { $p.name } }')\n"
        "assert not (heavy - {'lark'}) & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
