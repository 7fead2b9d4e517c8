"""A process that commits and queries repeatedly, and reports its use of memory as lines of JSON.

Every commit deletes a row of each of three tables or adds it again, every query reads all three, and the tables are
compacted regularly, as `optimize` does. The size of the graph is constant, so growing memory is a leak.
Run it as `python -m tests.api.committing FOLDER COMMITS REPORT_EVERY`.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Final

import lance

import omnigraph as og
from omnigraph.engine.cache import SHARED_CACHE
from omnigraph.storage.lance.dataset import shared_session
from omnigraph.storage.location import parse_location
from tests.graph.writers import SCHEMA, TABLES, run_compaction

ROWS: Final = 20
COMPACT_EVERY: Final = 50
ADD: Final = (
    "query m($s: String, $n: I64) { insert Person { slug: $s, age: $n } insert Company { name: $s } "
    "insert Knows { from: $s, to: $s } }"
)
REMOVE: Final = (
    "query m($s: String) { delete Knows where from = $s delete Company where name = $s delete Person where slug = $s }"
)
QUERY: Final = (
    "query q($s: String) { match { $p: Person { slug: $s } $p knows $f $c: Company { name: $s } } "
    "return { $f.age as n } }"
)


def main(folder: str, commits: int, report_every: int) -> None:
    graph = og.init(Path(folder) / "graph.omni", SCHEMA)
    location = parse_location(graph.uri)
    for number in range(ROWS):
        graph.mutate(ADD, params={"s": f"s{number}", "n": number})
    for number in range(1, commits + 1):
        name = f"s{number // 2 % ROWS}"
        if number % 2:
            graph.mutate(REMOVE, params={"s": name})
        else:
            graph.mutate(ADD, params={"s": name, "n": number})
        graph.query(QUERY, params={"s": name}).to_pylist()
        if number % COMPACT_EVERY == 0:
            run_compaction(location, TABLES)
        if number % report_every == 0:
            _report(number)


def _report(commits: int) -> None:
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    gc.collect()
    report = {
        "commits": commits,
        "resident_bytes": int(resident.split()[1]) * 1024,
        "open_datasets": sum(isinstance(value, lance.LanceDataset) for value in gc.get_objects()),
        "cached_bytes": SHARED_CACHE.nbytes,
        "session_bytes": shared_session().size_bytes(),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
