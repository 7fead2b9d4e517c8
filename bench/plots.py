"""The plots of the page, as SVG.

In: results. Out: the text of each plot that has numbers. A plot has bars, one group for each ratio with a bar for each
side, or lines, one for each side by size. Equal results give equal text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import Any, Final, assert_never

from bench.harness import BenchmarkResult, Ratio

OURS: Final = "#3465a4"
OTHERS: Final = ("#c4a000", "#73d216", "#75507b", "#cc0000")
_WIDTH: Final = 8.0
_GAP: Final = 0.7
_LINEAR_MAX: Final = 25
_STYLE: Final = {"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}


class PlotKind(Enum):
    """The kinds of plots."""

    BARS = "bars"
    LINES = "lines"
    RATES = "rates"


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the ratios of some benchmarks whose names start with one of `prefixes` and with none of `without`."""

    name: str
    title: str
    kind: PlotKind
    benchmarks: tuple[str, ...]
    prefixes: tuple[str, ...] = ("",)
    without: tuple[str, ...] = ()
    axis: str = "time; less is better"

    @property
    def file(self) -> str:
        return f"{self.name}.svg"


Series = dict[str, list[tuple[float, float]]]
"""The points of each line."""


def plotted_ratios(plot: Plot, results: Sequence[BenchmarkResult]) -> list[Ratio]:
    """Return the ratios of a plot; a plot without ratios is not drawn."""
    return [
        ratio
        for result in results
        if result.name in plot.benchmarks
        for ratio in result.ratios
        if ratio.sides
        and ratio.name.startswith(plot.prefixes)
        and not ratio.name.startswith(plot.without)
        and (plot.kind is PlotKind.BARS or ratio.size is not None)
    ]


def lines_of(ratios: Sequence[Ratio]) -> Series:
    """Return the values of each side by size."""
    series: Series = {}
    for ratio in ratios:
        for side, value in ratio.sides.items():
            if ratio.size is not None:
                series.setdefault(side, []).append((ratio.size, value))
    return {side: sorted(points) for side, points in series.items()}


def rates_of(ratios: Sequence[Ratio]) -> dict[str, float]:
    """Return the rate of each side: size per second."""
    return {side: ratio.size / value for ratio in ratios for side, value in ratio.sides.items() if ratio.size}


def draw(plot: Plot, results: Sequence[BenchmarkResult]) -> str:
    """Return the plot as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ratios = plotted_ratios(plot, results)
    with mpl.rc_context(_STYLE):
        figure: Any = Figure(figsize=(_WIDTH, _height(plot, ratios)), layout="constrained")
        axes = figure.add_subplot()
        match plot.kind:
            case PlotKind.BARS:
                _draw_bars(axes, {ratio.name: ratio.sides for ratio in ratios})
            case PlotKind.RATES:
                _draw_rates(axes, rates_of(ratios))
            case PlotKind.LINES:
                _draw_lines(axes, lines_of(ratios))
                if all(ratio.unit == "s" for ratio in ratios):
                    axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value))
            case unknown:
                assert_never(unknown)
        is_quick = any(result.quick for result in results)
        axes.set_title(plot.title + (" (small sizes)" if is_quick else ""))
        (axes.set_ylabel if plot.kind is PlotKind.LINES else axes.set_xlabel)(plot.axis)
        axes.spines[["top", "right"]].set_visible(False)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _height(plot: Plot, ratios: Sequence[Ratio]) -> float:
    match plot.kind:
        case PlotKind.BARS:
            return 0.9 + 0.2 * sum(len(ratio.sides) + _GAP for ratio in ratios)
        case PlotKind.RATES:
            return 0.9 + 0.35 * len(rates_of(ratios))
        case PlotKind.LINES:
            return 3.6
        case unknown:
            assert_never(unknown)


def _draw_bars(axes: Any, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Draw a group for each ratio, our side on top; each bar has a label with its side and its time."""
    position = 0.0
    ticks: dict[str, float] = {}
    for name, sides in groups.items():
        ticks[name] = position + (len(sides) - 1) / 2
        for number, (side, value) in enumerate(sides.items()):
            bar = axes.barh(position, value, height=0.9, color=_color(number))
            axes.bar_label(bar, [f"{side} {format_seconds(value)}"], padding=3, fontsize=7.5)
            position += 1
        position += _GAP
    axes.set_yticks(list(ticks.values()), list(ticks))
    axes.invert_yaxis()
    axes.margins(y=0.02)
    values = [value for sides in groups.values() for value in sides.values()]
    least, most = min(values), max(values)
    # The length of a bar is misleading on a logarithmic scale, so use it only if small values were invisible otherwise.
    if most > _LINEAR_MAX * least:
        axes.set_xscale("log")
        axes.set_xlim(least / 3, most * (most / least) ** 0.3)
    else:
        axes.set_xlim(0, most * 1.3)
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value))
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


def format_seconds(seconds: float) -> str:
    """Return a time as short text."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
