"""The memory of an exact search is bounded, although the table is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.search import MEMORY_MIB, exact_search_growth


@pytest.mark.parametrize("rows", [20_000, pytest.param(2_000_000, marks=pytest.mark.soak)])
def test_exact_search_needs_bounded_memory(tmp_path: Path, rows: int) -> None:
    """The search has a limit of 256 MiB, and the process grows by no more. 2,000,000 vectors are 1 GB.

    `test_streamed_rows_need_no_memory` has a limit that only a few vectors fit into.
    """
    assert 0 < exact_search_growth(tmp_path, rows) <= MEMORY_MIB << 20
