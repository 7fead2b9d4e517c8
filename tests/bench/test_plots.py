"""What plots are drawn from, and that they are drawn."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bench.plots import Plot, Shape, draw, lines_of, rates_of, shown, told
from tests.bench.made_results import ALL, COMMIT, LOAD, SNAPSHOT

LINES = Plot("commit", "Commits", Shape.LINES, ("commit", "load"), ("after",))
RATES = Plot("load", "Loads", Shape.RATES, ("load",), axis="lines a second")
BARS = Plot("all", "All", Shape.BARS, ("load", "commit", "snapshot"))


def test_lines_go_by_size() -> None:
    assert lines_of(shown(LINES, ALL)) == {
        "commit": [(10, 0.05), (500, 0.06)],
        "append": [(10, 0.01), (500, 0.01)],
    }


def test_rates_are_sizes_over_seconds() -> None:
    assert rates_of(shown(RATES, ALL)) == {"load": 250.0, "pyarrow and Lance": 400.0, "DuckDB": 500.0}


def test_what_has_no_sides_or_no_size_is_not_drawn() -> None:
    assert shown(BARS, ALL) == [*LOAD.ratios, *COMMIT.ratios]
    assert shown(RATES, ALL) == list(LOAD.ratios[:2])
    assert shown(BARS, [SNAPSHOT]) == []
    assert shown(replace(BARS, without=("load", "merge")), ALL) == list(COMMIT.ratios)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "1.23 ms"), (0.123, "123 ms"), (1.234, "1.23 s"), (12_345, "12,345 s")]
)
def test_times_are_told_shortly(seconds: float, text: str) -> None:
    assert told(seconds) == text


@pytest.mark.parametrize("plot", [LINES, RATES, BARS], ids=lambda plot: plot.shape.value)
def test_drawn_the_same_each_time(plot: Plot) -> None:
    """Where `make bench` has installed what draws."""
    pytest.importorskip("matplotlib")
    drawn = draw(plot, ALL)
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert plot.title in drawn
    assert "small sizes" not in drawn
    assert draw(plot, ALL) == drawn
    assert "small sizes" in draw(plot, [replace(result, quick=True) for result in ALL])
