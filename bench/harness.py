"""Measures things as ratios: the median of one over the median of another, in interleaved rounds of one run.

In: pairs of functions and the bar of their ratio. Out: a table on stdout and `bench/results/<name>.json`, from which
`bench.page` is made. A busy machine slows both sides of a round, so a ratio holds where a time does not. With
`BENCH=quick` in the environment every benchmark takes the smaller of its sizes.
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
    """One measured ratio. Without a bar it is only told.

    `sides` has what was measured of each side, that of ours first: seconds, unless `unit` says otherwise. `size` is how
    much there was, where several ratios differ in just that.
    """

    name: str
    ratio: float
    bar: float | None
    detail: str
    sides: dict[str, float] = field(default_factory=dict)
    size: float | None = None
    unit: str = "s"

    @property
    def ok(self) -> bool:
        return self.bar is None or self.ratio <= self.bar


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and with what it was measured."""

    kind: str
    cores: int
    memory_gb: int
    python: str
    packages: dict[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark has found, or in a few words why it has not."""

    name: str
    day: str
    quick: bool
    machine: Machine
    ratios: tuple[Ratio, ...] = ()
    failure: str | None = None


def is_quick() -> bool:
    """Whether everything is measured at its small size."""
    return os.environ.get("BENCH") == "quick"


def sized(full: Size, quick: Size) -> Size:
    """A size of a benchmark: how much there is of something, and how much in a quick run."""
    return quick if is_quick() else full


def median_seconds(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each action; every round runs each of them once, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            started = perf_counter()
            action()
            times[name].append(perf_counter() - started)
    return {name: median(found[1:]) for name, found in times.items()}


def compare(
    name: str, times: Mapping[str, float], pair: tuple[str, str], bar: float | None, size: float | None = None
) -> Ratio:
    """The ratio of two measured actions."""
    ours, theirs = pair
    detail = f"{ours} {times[ours] * 1e3:.1f} ms, {theirs} {times[theirs] * 1e3:.1f} ms"
    sides = {side: times[side] for side in pair}
    return Ratio(name, times[ours] / times[theirs], bar, detail, sides, size)


def report(name: str, ratios: list[Ratio]) -> bool:
    """Print and keep the ratios of one benchmark; whether all of them are within their bars."""
    width = max(len(ratio.name) for ratio in ratios)
    print(f"{name:<{width}}  ratio   bar  ok")
    for ratio in ratios:
        bar = "    -" if ratio.bar is None else f"{ratio.bar:5.1f}"
        print(
            f"{ratio.name:<{width}}  {ratio.ratio:5.2f} {bar}  {'yes' if ratio.ok else 'NO '}  {ratio.detail}"
        )
    keep(Result(name, _today(), is_quick(), this_machine(), tuple(ratios)))
    return all(ratio.ok for ratio in ratios)


def failed(name: str, why: str) -> Result:
    """A benchmark that came to no result."""
    return Result(name, _today(), is_quick(), this_machine(), failure=why)


def keep(result: Result) -> None:
    """Write a result where `kept` finds it."""
    RESULTS.mkdir(exist_ok=True)
    kept_at(result.name).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")


def kept(name: str) -> Result | None:
    """The result of the last run of a benchmark."""
    path = kept_at(name)
    return msgspec.json.decode(path.read_bytes(), type=Result) if path.exists() else None


def kept_at(name: str) -> Path:
    """Where the result of a benchmark is."""
    return RESULTS / f"{name}.json"


def this_machine() -> Machine:
    """What a reader has to know to judge the seconds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = {name: found for name in PACKAGES if (found := _version(name)) is not None}
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
