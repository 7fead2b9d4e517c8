"""The page of all measurements: `bench/results/README.md` with its plots, and those that the README shows.

In: the results of one run. Out: Markdown, always the same for the same results: first what is beyond its bar and what
was not measured, then a section for each subject with its plots and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.harness import RESULTS, Machine, Ratio, Result
from bench.plots import Plot, Shape, draw, rates_of, shown

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
IN_README: Final = ("query", "commit")
_FIRST: Final = ("first query", "omnigraph query")


@dataclass(frozen=True, slots=True)
class Section:
    """A subject: what to know about it, the benchmarks that measure it, and how it is drawn."""

    title: str
    about: str
    benchmarks: tuple[str, ...]
    plots: tuple[Plot, ...] = ()


SECTIONS: Final = (
    Section(
        "Load",
        "The same lines brought into tables by a load with all its checks, by pyarrow's parser and raw Lance, and by "
        "DuckDB, both without any check. Then the most memory that a process of a load has held.",
        ("load", "memory"),
        (
            Plot("load", "Load", Shape.RATES, ("load",), ("load of",), axis="lines a second; more is better"),
            Plot("memory", "Memory of a load, by lines", Shape.LINES, ("memory",), axis="MB"),
        ),
    ),
    Section(
        "Executors",
        "The same load on one and on two executor processes with one core each, beside the driver.",
        ("executors",),
        (Plot("executors", "A load, by executors", Shape.BARS, ("executors",)),),
    ),
    Section(
        "Queries",
        "100,000 persons and 2.4 million edges unless the run is quick. Every engine has its data open and its "
        "statement prepared; the first query of a new process counts from the end of its imports.",
        ("query",),
        (
            Plot("query", "Warm queries beside other engines", Shape.BARS, ("query",), without=_FIRST),
            Plot("query_first", "The first query of a process", Shape.BARS, ("query",), _FIRST),
        ),
    ),
    Section(
        "Maintenance",
        "Optimize beside the raw Lance calls that do the same, cleanup beside Lance's own, and both beside delta-rs on "
        "the same rows.",
        ("optimize", "cleanup", "delta"),
        (Plot("maintenance", "Maintenance", Shape.BARS, ("optimize", "cleanup", "delta")),),
    ),
    Section(
        "Commits",
        "A commit of 100 rows to one table, with lease, checks, intent and publish, beside a plain Lance append of the "
        "same rows to a dataset with as many versions.",
        ("commit",),
        (Plot("commit", "A commit of 100 rows, by commits before it", Shape.LINES, ("commit",)),),
    ),
    Section(
        "Durability",
        "The same commit to local files with `OMNIGRAPH_DURABILITY=sync`, which survives a power cut, and with "
        "`process`, which survives the crash of processes. It depends on the disk.",
        ("durability",),
    ),
    Section(
        "Opening a graph",
        "What a read does first, beside plain Lance, and how a command starts.",
        ("snapshot",),
    ),
    Section(
        "Branches and merges",
        "A merge beside an upsert of the same rows to main.",
        ("branch", "merge"),
        (
            Plot("branch", "By rows of the table", Shape.LINES, ("branch",), ("table of", "branch of")),
            Plot("changes", "By changed rows", Shape.LINES, ("branch",), ("changed",)),
        ),
    ),
    Section(
        "Schema changes",
        "Each as a commit of its own, on a large table and on a small one.",
        ("schema",),
        (Plot("schema", "Schema changes", Shape.BARS, ("schema",)),),
    ),
)


def write_page(results: Sequence[Result]) -> Path:
    """Write the page and its plots; the path of the page."""
    RESULTS.mkdir(exist_ok=True)
    for old in RESULTS.glob("*.svg"):
        old.unlink()
    for plot in (plot for section in SECTIONS for plot in section.plots if shown(plot, results)):
        drawn = draw(plot, results)
        (RESULTS / plot.file).write_text(drawn)
        if plot.name in IN_README:
            IMAGES.mkdir(parents=True, exist_ok=True)
            (IMAGES / plot.file).write_text(drawn)
    path = RESULTS / "README.md"
    path.write_text(page(results))
    return path


def page(results: Sequence[Result]) -> str:
    """The page as Markdown."""
    blocks = [
        *_head(results),
        "## Beyond its bar",
        _beyond(results),
        *_failures(results),
        *(block for section in SECTIONS for block in _section(section, results)),
    ]
    return "\n\n".join(blocks) + "\n"


def _head(results: Sequence[Result]) -> Iterator[str]:
    yield "# Measurements"
    days = sorted({result.day for result in results})
    machines = dict.fromkeys(_machine(result.machine) for result in results)
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    yield f"Measured on {when}: {'; '.join(machines)}. `make bench` measures everything anew."
    yield (
        "A ratio is ours over what it is measured by, both of one run, as medians of rounds that take turns wherever "
        "it can be repeated; below 1 ours is faster. A busy machine changes the seconds more than the ratios. A bar is "
        "what was asked for."
    )
    if any(result.quick for result in results):
        yield (
            "**A quick run, at small sizes** (`make bench BENCH=quick`): it shows that everything runs. The bars are "
            "meant for the full sizes; what starts once weighs more here."
        )


def _machine(machine: Machine) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    return (
        f"{machine.kind}, {machine.cores} cores, {machine.memory_gb} GB, Python {machine.python}, {packages}"
    )


def _beyond(results: Sequence[Result]) -> str:
    rows = [
        f"| {result.name} | {ratio.name} | {ratio.ratio:.2f} | {ratio.bar:g} | {ratio.ratio / ratio.bar - 1:.0%} |"
        for result in results
        for ratio in result.ratios
        if ratio.bar is not None and not ratio.ok
    ]
    if not rows:
        return "Nothing."
    return "\n".join(
        ["| benchmark | measured | ratio | bar | beyond it by |", "|---|---|---|---|---|", *rows]
    )


def _failures(results: Sequence[Result]) -> Iterator[str]:
    why = {result.name: result.failure for result in results}
    names = [name for section in SECTIONS for name in section.benchmarks]
    rows = [f"- `{name}`: {why.get(name) or 'was not run'}" for name in names if name not in why or why[name]]
    if rows:
        yield "## Not measured"
        yield "\n".join(rows)


def _section(section: Section, results: Sequence[Result]) -> Iterator[str]:
    tables = [
        "\n".join(_table(result)) for result in results if result.name in section.benchmarks and result.ratios
    ]
    if tables:
        yield f"## {section.title}"
        yield section.about
        for plot in section.plots:
            yield from _plot(plot, shown(plot, results))
        yield from tables


def _plot(plot: Plot, ratios: Sequence[Ratio]) -> Iterator[str]:
    if ratios:
        yield f"![{plot.title}]({plot.file})"
    if ratios and plot.shape is Shape.RATES:
        rows = [f"| {side} | {rate:,.0f} |" for side, rate in rates_of(ratios).items()]
        yield "\n".join([f"| | {plot.axis} |", "|---|---|", *rows])


def _table(result: Result) -> Iterator[str]:
    yield f"| {result.name} | ratio | bar | | |"
    yield "|---|---|---|---|---|"
    for ratio in result.ratios:
        yield f"| {ratio.name} | {ratio.ratio:.2f} | {_bar(ratio)} | {_mark(ratio)} | {ratio.detail} |"


def _bar(ratio: Ratio) -> str:
    return "–" if ratio.bar is None else f"{ratio.bar:g}"


def _mark(ratio: Ratio) -> str:
    return "" if ratio.bar is None else "within" if ratio.ok else "**beyond**"
