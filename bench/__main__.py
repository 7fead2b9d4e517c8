"""`python -m bench [--quick] [name …]`: run the benchmarks, print their ratios, and write the page if all have run.

Each benchmark runs in a separate process with a temporary directory and a time limit, so a failure does not stop the
others and leaves no files. The exit code is 1 if a benchmark failed; ratios above their limits are printed at the end
and on the page.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

from bench.harness import BenchmarkResult, format_ratio, read_result, report
from bench.page import write_page
from bench.run import run_in_process

BENCHMARKS: Final = (
    "start",
    "load",
    "memory",
    "executors",
    "query",
    "search",
    "embed",
    "optimize",
    "cleanup",
    "delta",
    "commit",
    "writers",
    "server",
    "durability",
    "snapshot",
    "merge",
    "branch",
    "schema",
)


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(unknown)}; expected {', '.join(BENCHMARKS)}")
    if options.quick:
        # The processes of the benchmarks read their sizes from it.
        os.environ["BENCH"] = "quick"
    names = options.names or list(BENCHMARKS)
    if options.here:
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                report(name, import_module(f"bench.{name}").run(Path(folder)))
        return 0
    results = _read_results() if options.page else [run_in_process(name) for name in names]
    _print_problems(results)
    if options.page or not options.names:
        print(write_page(results))
    return 1 if any(result.failure for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bench", description="Measure ratios to other engines.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument(
        "--quick", action="store_true", help="use small sizes, for a run of minutes; the same as BENCH=quick"
    )
    parser.add_argument("--page", action="store_true", help="only write the page of the stored results")
    parser.add_argument("--here", action="store_true", help="run in this process, without a time limit")
    return parser


def _read_results() -> list[BenchmarkResult]:
    return [result for name in BENCHMARKS if (result := read_result(name)) is not None]


def _print_problems(results: list[BenchmarkResult]) -> None:
    for result in results:
        if result.failure:
            print(f"{result.name}: {result.failure}", file=sys.stderr)
        for ratio in result.ratios:
            if not ratio.ok:
                print(f"{result.name}: {ratio.name}: {format_ratio(result, ratio)}, above its limit {ratio.limit}")


if __name__ == "__main__":
    # Raise SystemExit on SIGTERM, so that the process of a benchmark is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1:]))
