"""Writes the page of all measurements, `bench/results/README.md`, its plots, and the plots of the project's README.

In: the results of one run. Out: Markdown, deterministic: first the ratios above their limits and the benchmarks that
failed, then a section for each subject with plots and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.harness import RESULTS, BenchmarkResult, Machine, Ratio, format_ratio
from bench.plots import Plot, PlotKind, draw, plotted_ratios, rates_of

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
IN_README: Final = ("query", "commit")
LONGEST_COUNT: Final = 5
_FIRST: Final = ("first query",)


@dataclass(frozen=True, slots=True)
class Section:
    """A subject: its description, its benchmarks and its plots."""

    title: str
    about: str
    benchmarks: tuple[str, ...]
    plots: tuple[Plot, ...] = ()


SECTIONS: Final = (
    Section(
        "Start",
        "The CPU time of whole commands, compared with imports in a plain interpreter: `import lance` imports pandas, "
        "which no command does. No command can be faster than importing typer, and Lance without pandas.",
        ("start",),
        (Plot("start", "Commands", PlotKind.BARS, ("start",)),),
    ),
    Section(
        "Load",
        "The same lines are loaded with all checks, by pyarrow's parser and plain Lance, and by DuckDB, both without "
        "checks. Then the peak memory of the processes of a load.",
        ("load", "memory"),
        (
            Plot("load", "Load", PlotKind.RATES, ("load",), ("load of",), axis="lines per second; more is better"),
            Plot("memory", "Memory of a load, by lines", PlotKind.LINES, ("memory",), axis="MB"),
        ),
    ),
    Section(
        "Executors",
        "The same load on one and on two executor processes with one core each, in addition to the driver.",
        ("executors",),
        (Plot("executors", "A load, by executors", PlotKind.BARS, ("executors",)),),
    ),
    Section(
        "Queries",
        "100,000 persons and 2.4 million edges, fewer in a quick run. All engines have opened their data and prepared "
        "their statements; the first query of a new process counts from the end of its imports.",
        ("query", "search"),
        (
            Plot("query", "Warm queries of several engines", PlotKind.BARS, ("query",), without=_FIRST),
            Plot("query_first", "The first query of a process", PlotKind.BARS, ("query",), _FIRST),
        ),
    ),
    Section(
        "Embeddings",
        "`embed` of rows without a vector on Spark, with mock vectors, in waves with one commit each, compared with a "
        "pass of plain Lance in one process, which computes the same vectors and adds them as a column in one commit. "
        "Then the time of the last waves over that of the first ones.",
        ("embed",),
    ),
    Section(
        "Maintenance",
        "Optimize compared with the equivalent Lance calls, cleanup compared with Lance's cleanup, and both compared "
        "with delta-rs on the same rows.",
        ("optimize", "cleanup", "delta"),
        (Plot("maintenance", "Maintenance", PlotKind.BARS, ("optimize", "cleanup", "delta")),),
    ),
    Section(
        "Commits",
        "A commit of 100 rows to one table, with lease, checks, intent and publish, compared with a plain Lance append "
        "of the same rows to a dataset with the same number of versions, in CPU time. Neither syncs its files. "
        "Then the commits of 8 writers of one branch: threads of one process, which share the lease, and processes.",
        ("commit", "writers"),
        (Plot("commit", "A commit of 100 rows, by commits before it", PlotKind.LINES, ("commit",)),),
    ),
    Section(
        "Server",
        "Queries over HTTP compared with the same in the process and with an empty route of the same framework, the "
        "commits of 8 clients compared with 8 processes, and the memory after many requests. Clients and server share "
        "the cores.",
        ("server",),
        (Plot("server", "Queries over HTTP", PlotKind.BARS, ("server",), ("over HTTP",)),),
    ),
    Section(
        "Durability",
        "The same commit to local files with `OMNIGRAPH_DURABILITY=sync`, which survives a power failure, and with "
        "`process`, which survives the crash of processes. The ratio depends on the disk.",
        ("durability",),
    ),
    Section("Opening a graph", "The first part of each read, compared with plain Lance.", ("snapshot",)),
    Section(
        "Branches and merges",
        "A merge compared with an upsert of the same rows to main.",
        ("branch", "merge"),
        (
            Plot("branch", "By rows of the table", PlotKind.LINES, ("branch",), ("table of", "branch of")),
            Plot("changes", "By changed rows", PlotKind.LINES, ("branch",), ("changed",)),
        ),
    ),
    Section(
        "Schema changes",
        "Each change is one commit, on a large table and on a small one.",
        ("schema",),
        (Plot("schema", "Schema changes", PlotKind.BARS, ("schema",)),),
    ),
)


def write_page(results: Sequence[BenchmarkResult]) -> Path:
    """Write the page and its plots; return the path of the page."""
    RESULTS.mkdir(exist_ok=True)
    for old in RESULTS.glob("*.svg"):
        old.unlink()
    for plot in (plot for section in SECTIONS for plot in section.plots if plotted_ratios(plot, results)):
        drawn = draw(plot, results)
        (RESULTS / plot.file).write_text(drawn)
        if plot.name in IN_README:
            IMAGES.mkdir(parents=True, exist_ok=True)
            (IMAGES / plot.file).write_text(drawn)
    path = RESULTS / "README.md"
    path.write_text(page(results))
    return path


def page(results: Sequence[BenchmarkResult]) -> str:
    """Return the page as Markdown."""
    blocks = [
        *_head(results),
        "## Above the limit",
        _above_limit(results),
        *_failures(results),
        *(block for section in SECTIONS for block in _section(section, results)),
    ]
    return "\n\n".join(blocks) + "\n"


def _head(results: Sequence[BenchmarkResult]) -> Iterator[str]:
    yield "# Measurements"
    days = sorted({result.day for result in results})
    machines = dict.fromkeys(_machine(result.machine) for result in results)
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    yield f"Measured on {period}: {'; '.join(machines)}. `make bench` runs all benchmarks again."
    yield (
        "A ratio is our time over the time of the other side, both of one run, as medians of interleaved rounds where "
        "the action can be repeated; below 1 Omnigraph is faster. A busy machine changes times more than ratios. The "
        "limit is the goal of a ratio. In parentheses is the ratio of the run before, if there was one."
    )
    minutes = sum(result.seconds for result in results) / 60
    longest = sorted(results, key=lambda result: -result.seconds)[:LONGEST_COUNT]
    parts = ", ".join(f"`{result.name}` {result.seconds / 60:.1f}" for result in longest)
    yield f"The benchmarks took {minutes:.0f} minutes. The longest took: {parts}."
    if any(result.quick for result in results):
        yield (
            "**A quick run, at small sizes** (`make bench BENCH=quick`): it shows that all benchmarks run. The limits "
            "are goals for the full sizes; with small sizes the start of a process has more weight."
        )


def _machine(machine: Machine) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    return f"{machine.kind}, {machine.cores} cores, {machine.memory_gb} GB, Python {machine.python}, {packages}"


def _above_limit(results: Sequence[BenchmarkResult]) -> str:
    rows = [
        f"| {result.name} | {ratio.name} | {format_ratio(result, ratio)} | {ratio.limit:g} "
        f"| {ratio.ratio / ratio.limit - 1:.0%} |"
        for result in results
        for ratio in result.ratios
        if ratio.limit is not None and not ratio.ok
    ]
    if not rows:
        return "None."
    return "\n".join(["| benchmark | measured | ratio | limit | above by |", "|---|---|---|---|---|", *rows])


def _failures(results: Sequence[BenchmarkResult]) -> Iterator[str]:
    failures = {result.name: result.failure for result in results}
    names = [name for section in SECTIONS for name in section.benchmarks]
    rows = [
        f"- `{name}`: {failures.get(name) or 'was not run'}" for name in names if name not in failures or failures[name]
    ]
    if rows:
        yield "## Not measured"
        yield "\n".join(rows)


def _section(section: Section, results: Sequence[BenchmarkResult]) -> Iterator[str]:
    tables = ["\n".join(_table(result)) for result in results if result.name in section.benchmarks and result.ratios]
    if tables:
        yield f"## {section.title}"
        yield section.about
        for plot in section.plots:
            yield from _plot(plot, plotted_ratios(plot, results))
        yield from tables


def _plot(plot: Plot, ratios: Sequence[Ratio]) -> Iterator[str]:
    if ratios:
        yield f"![{plot.title}]({plot.file})"
    if ratios and plot.kind is PlotKind.RATES:
        rows = [f"| {side} | {rate:,.0f} |" for side, rate in rates_of(ratios).items()]
        yield "\n".join([f"| | {plot.axis} |", "|---|---|", *rows])


def _table(result: BenchmarkResult) -> Iterator[str]:
    yield f"| {result.name} | ratio | limit | | |"
    yield "|---|---|---|---|---|"
    for ratio in result.ratios:
        yield f"| {ratio.name} | {format_ratio(result, ratio)} | {_limit(ratio)} | {_mark(ratio)} | {ratio.detail} |"


def _limit(ratio: Ratio) -> str:
    return "–" if ratio.limit is None else f"{ratio.limit:g}"


def _mark(ratio: Ratio) -> str:
    return "" if ratio.limit is None else "within" if ratio.ok else "**above**"
