"""Keeps pandas out of commands: they do not use it, and its import takes longer than that of Lance.

`pyarrow.dataset`, which Lance imports, imports pandas if it is installed. PySpark needs pandas, so it is available
again after pyspark was imported. Only the command line does this: in a program, `result.to_pandas()` must work.
`tests/cli/test_start.py` fails if a new version of pyarrow finds another way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


def hide_pandas() -> None:
    """Make `import pandas` fail until pyspark is imported."""
    sys.meta_path.insert(0, _PandasHider())


class _PandasHider:
    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        if fullname == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("pandas is not imported by commands", name=fullname)
