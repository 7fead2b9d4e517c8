"""The package is fast to import: heavy libraries are imported with the first text, table or suggestion."""

from __future__ import annotations

import subprocess
import sys


def test_heavy_packages_are_imported_late() -> None:
    script = (
        "import sys\n"
        "from omnigraph.schema.build import build_catalog\n"
        "from omnigraph.schema.parser import parse_schema\n"
        "heavy = {'lark', 'pyarrow', 'lance', 'difflib', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "build_catalog(parse_schema('node A { a: String }'))\n"
        "assert not (heavy - {'lark'}) & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
