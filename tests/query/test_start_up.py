"""Importing this room is cheap: the heavy packages come with the first text, and most of them never."""

from __future__ import annotations

import subprocess
import sys


def test_heavy_packages_are_imported_late() -> None:
    script = (
        "import sys, omnigraph.query.parser as query\n"
        "heavy = {'lark', 'pyarrow', 'msgspec', 'lance', 'difflib', 'numpy', 'pyspark'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "query.parse_queries('query a() { match { $p: Person } return { $p.name } }')\n"
        "assert not (heavy - {'lark'}) & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
