"""`python -m bench [name …]`: run the benchmarks, print their ratios, and fail if one is beyond its bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from bench import cleanup, commit, delta, load, memory, merge, optimize, query, schema, snapshot

BENCHMARKS: Final[dict[str, Callable[[], bool]]] = {
    "cleanup": cleanup.main,
    "commit": commit.main,
    "delta": delta.main,
    "snapshot": snapshot.main,
    "load": load.main,
    "memory": memory.main,
    "merge": merge.main,
    "query": query.main,
    "optimize": optimize.main,
    "schema": schema.main,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(
            f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 2
    outcomes = [BENCHMARKS[name]() for name in names or BENCHMARKS]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
