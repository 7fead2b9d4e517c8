"""Measures things as ratios: the median of one over the median of another, in interleaved rounds of one run.

In: pairs of functions and the bar of their ratio. Out: a table on stdout and `bench/results/<name>.json`. A busy
machine slows both sides of a round, so a ratio holds where a time does not.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

RESULTS: Final = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measured ratio. Without a bar it is only told."""

    name: str
    ratio: float
    bar: float | None
    detail: str

    @property
    def ok(self) -> bool:
        return self.bar is None or self.ratio <= self.bar


def median_seconds(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each action; every round runs each of them once, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            started = perf_counter()
            action()
            times[name].append(perf_counter() - started)
    return {name: median(found[1:]) for name, found in times.items()}


def compare(name: str, times: Mapping[str, float], pair: tuple[str, str], bar: float | None) -> Ratio:
    """The ratio of two measured actions."""
    ours, theirs = pair
    detail = f"{ours} {times[ours] * 1e3:.1f} ms, {theirs} {times[theirs] * 1e3:.1f} ms"
    return Ratio(name, times[ours] / times[theirs], bar, detail)


def report(name: str, ratios: list[Ratio]) -> bool:
    """Print and keep the ratios of one benchmark; whether all of them are within their bars."""
    width = max(len(ratio.name) for ratio in ratios)
    print(f"{name:<{width}}  ratio   bar  ok")
    for ratio in ratios:
        bar = "    -" if ratio.bar is None else f"{ratio.bar:5.1f}"
        print(
            f"{ratio.name:<{width}}  {ratio.ratio:5.2f} {bar}  {'yes' if ratio.ok else 'NO '}  {ratio.detail}"
        )
    RESULTS.mkdir(exist_ok=True)
    document = {"machine": platform.machine(), "ratios": [asdict(ratio) for ratio in ratios]}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    return all(ratio.ok for ratio in ratios)
