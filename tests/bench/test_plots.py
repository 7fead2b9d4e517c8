"""The data of plots, and the drawn plots."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bench.plots import Plot, PlotKind, draw, format_seconds, lines_of, plotted_ratios, rates_of
from tests.bench.sample_results import ALL, COMMIT, LOAD, SNAPSHOT

LINES = Plot("commit", "Commits", PlotKind.LINES, ("commit", "load"), ("after",))
RATES = Plot("load", "Loads", PlotKind.RATES, ("load",), axis="lines a second")
BARS = Plot("all", "All", PlotKind.BARS, ("load", "commit", "snapshot"))


def test_lines_are_sorted_by_size() -> None:
    assert lines_of(plotted_ratios(LINES, ALL)) == {
        "commit": [(10, 0.05), (500, 0.06)],
        "append": [(10, 0.01), (500, 0.01)],
    }


def test_rates_are_sizes_per_second() -> None:
    assert rates_of(plotted_ratios(RATES, ALL)) == {"load": 250.0, "pyarrow and Lance": 400.0, "DuckDB": 500.0}


def test_ratios_without_sides_or_size_are_not_drawn() -> None:
    assert plotted_ratios(BARS, ALL) == [*LOAD.ratios, *COMMIT.ratios]
    assert plotted_ratios(RATES, ALL) == list(LOAD.ratios[:2])
    assert plotted_ratios(BARS, [SNAPSHOT]) == []
    assert plotted_ratios(replace(BARS, without=("load", "merge")), ALL) == list(COMMIT.ratios)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "1.23 ms"), (0.123, "123 ms"), (1.234, "1.23 s"), (12_345, "12,345 s")]
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize("plot", [LINES, RATES, BARS], ids=lambda plot: plot.kind.value)
def test_plots_are_deterministic(plot: Plot) -> None:
    pytest.importorskip("matplotlib")
    drawn = draw(plot, ALL)
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert plot.title in drawn
    assert "small sizes" not in drawn
    assert draw(plot, ALL) == drawn
    assert "small sizes" in draw(plot, [replace(result, quick=True) for result in ALL])
