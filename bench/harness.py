"""Measures ratios: the median time of one function over that of another, in interleaved rounds of one run.

In: pairs of functions and the limit of their ratio. Out: a table on stdout and `bench/results/<name>.json`, the input
of `bench.page`. A busy machine slows both sides of a round, so ratios are more stable than times. With `BENCH=quick` in
the environment all benchmarks use their small sizes.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, TypeVar

import msgspec

RESULTS: Final = Path(__file__).parent / "results"
PACKAGES: Final = ("pylance", "pyspark", "duckdb", "ladybug", "deltalake")

Size = TypeVar("Size")


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measured ratio. Without a limit it is only reported.

    `sides` has the measured value of each side, ours first, in `unit`. `size` is the size of the input, if several
    ratios differ only in it.
    """

    name: str
    ratio: float
    limit: float | None
    detail: str
    sides: dict[str, float] = field(default_factory=dict)
    size: float | None = None
    unit: str = "s"

    @property
    def ok(self) -> bool:
        return self.limit is None or self.ratio <= self.limit


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions of a measurement."""

    kind: str
    cores: int
    memory_gb: int
    python: str
    packages: dict[str, str]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The ratios of one benchmark, or why it failed, and how long it took.

    `earlier` has the ratios of the run before this one, by name, if it had the same sizes.
    """

    name: str
    day: str
    quick: bool
    machine: Machine
    ratios: tuple[Ratio, ...] = ()
    failure: str | None = None
    seconds: float = 0.0
    earlier: dict[str, float] = field(default_factory=dict)


def is_quick() -> bool:
    """Return whether benchmarks use their small sizes."""
    return os.environ.get("BENCH") == "quick"


def sized(full: Size, quick: Size) -> Size:
    """Return the size of a benchmark: the full one, or the one of a quick run."""
    return quick if is_quick() else full


def median_seconds(
    actions: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Return the median time of each action; each round runs all actions once, after one warm-up round.

    With `process_time` as the clock, other processes of a busy machine have less effect.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            started = clock()
            action()
            times[name].append(clock() - started)
    return {name: median(seconds[1:]) for name, seconds in times.items()}


def compare(
    name: str, times: Mapping[str, float], pair: tuple[str, str], limit: float | None, size: float | None = None
) -> Ratio:
    """Return the ratio of two measured actions."""
    ours, theirs = pair
    detail = f"{ours} {times[ours] * 1e3:.1f} ms, {theirs} {times[theirs] * 1e3:.1f} ms"
    sides = {side: times[side] for side in pair}
    return Ratio(name, times[ours] / times[theirs], limit, detail, sides, size)


def report(name: str, ratios: list[Ratio]) -> bool:
    """Print and store the ratios of one benchmark; return whether all are within their limits."""
    width = max(len(ratio.name) for ratio in ratios)
    print(f"{name:<{width}}  ratio limit  ok")
    for ratio in ratios:
        limit = "    -" if ratio.limit is None else f"{ratio.limit:5.1f}"
        print(f"{ratio.name:<{width}}  {ratio.ratio:5.2f} {limit}  {'yes' if ratio.ok else 'NO '}  {ratio.detail}")
    write_result(BenchmarkResult(name, _today(), is_quick(), this_machine(), tuple(ratios)))
    return all(ratio.ok for ratio in ratios)


def format_ratio(result: BenchmarkResult, ratio: Ratio) -> str:
    """Return a ratio as text, with that of the run before in parentheses."""
    earlier = result.earlier.get(ratio.name)
    return f"{ratio.ratio:.2f}" if earlier is None else f"{ratio.ratio:.2f} ({earlier:.2f})"


def failed_result(name: str, failure: str) -> BenchmarkResult:
    """Return the result of a benchmark that failed."""
    return BenchmarkResult(name, _today(), is_quick(), this_machine(), failure=failure)


def write_result(result: BenchmarkResult) -> None:
    """Write the result of a benchmark to its file."""
    RESULTS.mkdir(exist_ok=True)
    result_path(result.name).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")


def read_result(name: str) -> BenchmarkResult | None:
    """Read the result of the last run of a benchmark; None if it has none."""
    path = result_path(name)
    return msgspec.json.decode(path.read_bytes(), type=BenchmarkResult) if path.exists() else None


def result_path(name: str) -> Path:
    """Return the path of the result of a benchmark."""
    return RESULTS / f"{name}.json"


def this_machine() -> Machine:
    """Return the machine and the versions, which a reader needs to interpret times."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = {name: number for name in PACKAGES if (number := _version(name)) is not None}
    return Machine(
        platform.machine(), os.cpu_count() or 1, round(memory / 1024**3), platform.python_version(), packages
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
