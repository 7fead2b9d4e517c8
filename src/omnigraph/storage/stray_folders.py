"""Lance makes empty folders beside a local dataset whose path has letters that a URI escapes; they are removed again.

When it creates a branch below `zoë/graph.omni` it also makes `zo%C3%AB/graph.omni/…/_refs/branches`, and puts nothing
there. What was there before, and what is not empty, stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from omnigraph.storage.location import Location

_UNESCAPED: Final = "/ !$&'()+,;=@:"
"""What Lance's object store leaves as it is, beside letters, digits, `-`, `.` and `_`."""


@contextmanager
def no_strays(location: Location) -> Iterator[None]:
    """Leave no empty folder at the escaped spelling of a local path."""
    escaped = Path(quote(location.uri, safe=_UNESCAPED).replace("~", "%7E"))
    if not location.is_local or str(escaped) == location.uri:
        yield
        return
    refs = escaped / "_refs" / "branches"
    new = [folder for folder in (refs, *refs.parents) if not folder.exists()]
    try:
        yield
    finally:
        for folder in new:
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106  # refuses what is not empty
