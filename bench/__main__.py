"""`python -m bench [--quick] [name …]`: run the benchmarks, print their ratios, and write the page when all have run.

Each runs in a process of its own, with a folder of its own for what it makes, within a time limit: one that fails or
hangs does not stop the others, and leaves nothing behind. The exit code says whether all came to a result; what is
beyond its bar is told at the end and on the page.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib import import_module
from typing import Final

from bench.harness import Result, kept
from bench.page import write_page
from bench.run import run_apart

BENCHMARKS: Final = (
    "load",
    "memory",
    "executors",
    "query",
    "optimize",
    "cleanup",
    "delta",
    "commit",
    "durability",
    "snapshot",
    "merge",
    "branch",
    "schema",
)


def main(words: list[str]) -> int:
    """Run the named benchmarks, or all."""
    parser = _parser()
    asked = parser.parse_args(words)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if asked.quick:
        # The processes that measure find their sizes by it.
        os.environ["BENCH"] = "quick"
    names = asked.names or list(BENCHMARKS)
    if asked.here:
        for name in names:
            import_module(f"bench.{name}").main()
        return 0
    results = _kept() if asked.page else [run_apart(name) for name in names]
    _tell(results)
    if asked.page or not asked.names:
        print(write_page(results))
    return 1 if any(result.failure for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bench", description="Measure, beside other engines, as ratios.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; or all")
    parser.add_argument(
        "--quick", action="store_true", help="at small sizes, in some minutes; as BENCH=quick"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page of what is kept")
    parser.add_argument("--here", action="store_true", help="in this process, without a time limit")
    return parser


def _kept() -> list[Result]:
    return [found for name in BENCHMARKS if (found := kept(name)) is not None]


def _tell(results: list[Result]) -> None:
    for result in results:
        if result.failure:
            print(f"{result.name}: {result.failure}", file=sys.stderr)
        for ratio in result.ratios:
            if not ratio.ok:
                print(f"{result.name}: {ratio.name}: {ratio.ratio:.2f}, beyond its bar {ratio.bar}")


if __name__ == "__main__":
    # A process that runs apart is ended with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1:]))
