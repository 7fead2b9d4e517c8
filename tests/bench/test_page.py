"""The page of measurements: a pure function from results to text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.__main__ import BENCHMARKS
from bench.page import IN_README, SECTIONS, page
from tests.bench.sample_results import ALL, COMMIT
from tests.schema.golden_files import compare

GOLDEN = Path(__file__).parent / "golden" / "page.md"


def test_golden(update_golden: bool) -> None:
    compare(GOLDEN, page(ALL), update=update_golden)


def test_page_without_ratios_above_limits() -> None:
    text = page([replace(COMMIT, name=name) for name in BENCHMARKS])
    assert "## Above the limit\n\nNone.\n" in text
    assert "Not measured" not in text


def test_quick_run_is_marked() -> None:
    assert "A quick run" not in page(ALL)
    assert "**A quick run, at small sizes**" in page([COMMIT, replace(ALL[0], quick=True)])


def test_each_benchmark_is_in_one_section() -> None:
    assert sorted(name for section in SECTIONS for name in section.benchmarks) == sorted(BENCHMARKS)


def test_plots_have_separate_files_and_belong_to_their_section() -> None:
    plots = [plot for section in SECTIONS for plot in section.plots]
    assert len({plot.file for plot in plots}) == len(plots)
    assert set(IN_README) <= {plot.name for plot in plots}
    for section in SECTIONS:
        assert all(set(plot.benchmarks) <= set(section.benchmarks) for plot in section.plots)
