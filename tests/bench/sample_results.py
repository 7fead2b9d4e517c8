"""Sample results of benchmarks: within and above their limits, by size, and one that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.harness import BenchmarkResult, Machine, Ratio, compare

_MACHINE: Final = Machine("x86_64", 2, 24, "3.11.2", {"pylance": "14.0.2", "duckdb": "2.0.0"})
_LOADS: Final = {"load": 4.0, "pyarrow and Lance": 2.5, "DuckDB": 2.0}


def sample_result(
    name: str, *ratios: Ratio, day: str = "2026-11-16", quick: bool = False, failure: str | None = None
) -> BenchmarkResult:
    return BenchmarkResult(name, day, quick, _MACHINE, ratios, failure, 90.0)


LOAD: Final = replace(
    sample_result(
        "load",
        compare("load of 1,000 lines over pyarrow and Lance", _LOADS, ("load", "pyarrow and Lance"), 2.0, 1_000),
        compare("load of 1,000 lines over DuckDB", _LOADS, ("load", "DuckDB"), 1.3, 1_000),
        compare("merge over DuckDB", _LOADS, ("load", "DuckDB"), None),
    ),
    earlier={"load of 1,000 lines over DuckDB": 1.94},
)
COMMIT: Final = sample_result(
    "commit",
    compare("after 500 commits", {"commit": 0.06, "append": 0.01}, ("commit", "append"), 7.0, 500),
    compare("after 10 commits", {"commit": 0.05, "append": 0.01}, ("commit", "append"), 7.0, 10),
)
SNAPSHOT: Final = sample_result("snapshot", Ratio("opens", 0.5, 1.0, "10 of 20"))
DELTA: Final = sample_result("delta", day="2026-11-17", failure="took longer than 5 s")
ALL: Final = (LOAD, DELTA, COMMIT, SNAPSHOT)
