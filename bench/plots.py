"""The plots of the page, as SVG.

In: results. Out: for each plot that they have numbers for, its text. A plot is bars, one group for each ratio with a
bar for each side, or lines, one for each side over the size. The same results give the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import Any, Final, assert_never

from bench.harness import Ratio, Result

OURS: Final = "#3465a4"
OTHERS: Final = ("#c4a000", "#73d216", "#75507b", "#cc0000")
_WIDTH: Final = 8.0
_GAP: Final = 0.7
_LINEAR_MAX: Final = 25
_LOOK: Final = {"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}


class Shape(Enum):
    """How numbers are drawn."""

    BARS = "bars"
    LINES = "lines"
    RATES = "rates"


@dataclass(frozen=True, slots=True)
class Plot:
    """What a plot shows: ratios of these benchmarks whose names begin with one of these words and none of those."""

    name: str
    title: str
    shape: Shape
    benchmarks: tuple[str, ...]
    of: tuple[str, ...] = ("",)
    without: tuple[str, ...] = ()
    axis: str = "time; less is better"

    @property
    def file(self) -> str:
        return f"{self.name}.svg"


Series = dict[str, list[tuple[float, float]]]
"""For each line its points."""


def shown(plot: Plot, results: Sequence[Result]) -> list[Ratio]:
    """The ratios that a plot is drawn from; where there are none there is no plot."""
    return [
        ratio
        for result in results
        if result.name in plot.benchmarks
        for ratio in result.ratios
        if ratio.sides
        and ratio.name.startswith(plot.of)
        and not ratio.name.startswith(plot.without)
        and (plot.shape is Shape.BARS or ratio.size is not None)
    ]


def lines_of(ratios: Sequence[Ratio]) -> Series:
    """What each side took at each size."""
    series: Series = {}
    for ratio in ratios:
        for side, value in ratio.sides.items():
            if ratio.size is not None:
                series.setdefault(side, []).append((ratio.size, value))
    return {side: sorted(points) for side, points in series.items()}


def rates_of(ratios: Sequence[Ratio]) -> dict[str, float]:
    """How much each side did in a second."""
    return {side: ratio.size / value for ratio in ratios for side, value in ratio.sides.items() if ratio.size}


def draw(plot: Plot, results: Sequence[Result]) -> str:
    """The plot as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ratios = shown(plot, results)
    with mpl.rc_context(_LOOK):
        figure: Any = Figure(figsize=(_WIDTH, _height(plot, ratios)), layout="constrained")
        axes = figure.add_subplot()
        match plot.shape:
            case Shape.BARS:
                _draw_bars(axes, {ratio.name: ratio.sides for ratio in ratios})
            case Shape.RATES:
                _draw_rates(axes, rates_of(ratios))
            case Shape.LINES:
                _draw_lines(axes, lines_of(ratios))
                if all(ratio.unit == "s" for ratio in ratios):
                    axes.yaxis.set_major_formatter(lambda value, _: told(value))
            case unknown:
                assert_never(unknown)
        small = any(result.quick for result in results)
        axes.set_title(plot.title + (" (small sizes)" if small else ""))
        (axes.set_ylabel if plot.shape is Shape.LINES else axes.set_xlabel)(plot.axis)
        axes.spines[["top", "right"]].set_visible(False)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _height(plot: Plot, ratios: Sequence[Ratio]) -> float:
    match plot.shape:
        case Shape.BARS:
            return 0.9 + 0.2 * sum(len(ratio.sides) + _GAP for ratio in ratios)
        case Shape.RATES:
            return 0.9 + 0.35 * len(rates_of(ratios))
        case Shape.LINES:
            return 3.6
        case unknown:
            assert_never(unknown)


def _draw_bars(axes: Any, groups: Mapping[str, Mapping[str, float]]) -> None:
    """A group for each ratio, ours on top; a bar has its side and its time beside it."""
    place = 0.0
    ticks: dict[str, float] = {}
    for name, sides in groups.items():
        ticks[name] = place + (len(sides) - 1) / 2
        for number, (side, value) in enumerate(sides.items()):
            bar = axes.barh(place, value, height=0.9, color=_color(number))
            axes.bar_label(bar, [f"{side} {told(value)}"], padding=3, fontsize=7.5)
            place += 1
        place += _GAP
    axes.set_yticks(list(ticks.values()), list(ticks))
    axes.invert_yaxis()
    axes.margins(y=0.02)
    values = [value for sides in groups.values() for value in sides.values()]
    least, most = min(values), max(values)
    # A bar in a logarithmic plot has no honest beginning, so only what would not be seen otherwise is drawn in one.
    if most > _LINEAR_MAX * least:
        axes.set_xscale("log")
        axes.set_xlim(least / 3, most * (most / least) ** 0.3)
    else:
        axes.set_xlim(0, most * 1.3)
    axes.xaxis.set_major_formatter(lambda value, _: told(value))
    axes.minorticks_off()


def _draw_rates(axes: Any, rates: Mapping[str, float]) -> None:
    for number, rate in enumerate(rates.values()):
        bar = axes.barh(number, rate, height=0.7, color=_color(number))
        axes.bar_label(bar, [f"{rate:,.0f}"], padding=3)
    axes.set_yticks(range(len(rates)), list(rates))
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_lines(axes: Any, series: Series) -> None:
    for number, (side, points) in enumerate(series.items()):
        axes.plot(*zip(*points, strict=True), marker="o", label=side, color=_color(number))
    axes.set_xscale("log")
    sizes = sorted({size for points in series.values() for size, _ in points})
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)


def _color(number: int) -> str:
    return OURS if number == 0 else OTHERS[(number - 1) % len(OTHERS)]


def told(seconds: float) -> str:
    """A time in words that are as short as it is."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
