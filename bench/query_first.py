"""Measures the first query of a new process, with a stored adjacency, for all engines.

Each side is a new process that opens its files and runs one query. The time counts from the end of its imports to the
last row, because imports are not a property of an engine; the time of the whole process is reported too. Each side
first collects the garbage of its imports, because otherwise Python does that during the query of one side and not of
another.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from bench.harness import Ratio, compare, sized
from bench.social import Social
from omnigraph.api.graph import Graph
from omnigraph.engine.traversal.adjacency import build_adjacency, write_adjacency
from omnigraph.storage.lance.dataset import open_dataset

ROUNDS: Final = sized(7, 2)
PERSON: Final = "p777"
TWO_HOPS: Final = "query q($s: String) { match { $p: Person { slug: $s } $p knows{1,2} $f } return { $f.name } }"
TOP: Final = (
    "query q() { match { $p: Person $p knows $f } return { $f.slug, count($p) as n } order { n desc } limit 10 }"
)
_TIMED: Final = (
    "import gc\nfrom time import perf_counter\ngc.collect()\n"
    "started = perf_counter()\n{}\nprint(perf_counter() - started)\n"
)
_OURS: Final = (
    "import lance, omnigraph.api.graph, omnigraph.api.prepared, omnigraph.arrow.hashing\n"
    "import omnigraph.query.transform\n"
    + _TIMED.format("rows = omnigraph.open({graph!r}, read_only=True).query({ours!r}, params={params!r}).to_arrow()")
)
_LADYBUG: Final = "import ladybug, pyarrow\n" + _TIMED.format(
    "connection = ladybug.Connection(ladybug.Database({ladybug!r}, read_only=True))\n"
    "rows = connection.execute({cypher!r}, {params!r}).get_as_arrow()"
)
_DUCKDB: Final = "import duckdb, pyarrow\n" + _TIMED.format(
    "rows = duckdb.connect({duckdb!r}, read_only=True).execute({sql!r}).to_arrow_table()"
)
_LANCE_HOPS: Final = "import lance\n" + _TIMED.format(
    "knows, person = lance.dataset({knows!r}), lance.dataset({person!r})\n"
    "def near(ids):\n"
    "    listed = ', '.join(repr(node) for node in ids)\n"
    "    return set(knows.to_table(columns=['dst'], filter=f'src IN ({{listed}})').column(0).to_pylist())\n"
    "friends = near(['p777'])\n"
    "listed = ', '.join(repr(node) for node in friends | near(friends))\n"
    "rows = person.to_table(columns=['name'], filter=f'id IN ({{listed}})')"
)
_LANCE_TOP: Final = "import lance\n" + _TIMED.format(
    "counts = lance.dataset({knows!r}).to_table(columns=['dst']).group_by('dst').aggregate([([], 'count_all')])\n"
    "rows = counts.sort_by([('count_all', 'descending')]).slice(0, 10)"
)
_SQL: Final = {
    "two hops": (
        "WITH one AS (SELECT DISTINCT dst FROM knows WHERE src = 'p777'), "
        "two AS (SELECT DISTINCT k.dst FROM knows k JOIN one ON k.src = one.dst) "
        "SELECT name FROM person WHERE id IN (SELECT dst FROM one UNION SELECT dst FROM two)"
    ),
    "top in-degree": "SELECT dst, count(*) AS n FROM knows GROUP BY dst ORDER BY n DESC LIMIT 10",
}
_CYPHER: Final = {
    "two hops": "MATCH (p:Person)-[:Knows*1..2]->(f:Person) WHERE p.id = $s RETURN DISTINCT f.id, f.name",
    "top in-degree": "MATCH (p:Person)-[:Knows]->(f:Person) RETURN f.id, count(p) AS n ORDER BY n DESC LIMIT 10",
}


def first_queries(folder: Path, graph: Graph, social: Social) -> list[Ratio]:
    """Return our first query over the fastest first query of the others; LadybugDB's files exist in the directory."""
    _store_adjacency(graph)
    duckdb: Any = import_module("duckdb")
    with duckdb.connect(str(folder / "duck.db")) as connection:
        for name, table in (("person", social.persons.drop_columns(["embedding"])), ("knows", social.knows)):
            connection.register("input", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM input")
            connection.unregister("input")
    return [_measure_first(name, folder, graph) for name in _SQL]


def _store_adjacency(graph: Graph) -> None:
    """Store the adjacency of the edge table, as optimize does."""
    snapshot = graph.snapshot()
    record = snapshot.tables["edge:Knows"]
    dataset = open_dataset(snapshot.root.child(record.path), version=record.pin.version)
    endpoints = dataset.read(["src", "dst"])
    sources, targets = (endpoints.column(name).combine_chunks() for name in ("src", "dst"))
    adjacency = build_adjacency(sources, targets, same_type=True)
    write_adjacency(snapshot.root, record, dataset, adjacency)


def _measure_first(name: str, folder: Path, graph: Graph) -> Ratio:
    snapshot = graph.snapshot()
    is_hops = name == "two hops"
    values = {
        "graph": graph.uri,
        "ladybug": str(folder / "ladybug"),
        "duckdb": str(folder / "duck.db"),
        "ours": TWO_HOPS if is_hops else TOP,
        "sql": _SQL[name],
        "cypher": _CYPHER[name],
        "params": {"s": PERSON} if is_hops else {},
        **{
            alias.rpartition(":")[2].lower(): snapshot.root.child(record.path).lance_uri
            for alias, record in snapshot.tables.items()
        },
    }
    scripts = {
        "omnigraph": _OURS,
        "ladybug": _LADYBUG,
        "duckdb": _DUCKDB,
        "lance": _LANCE_HOPS if is_hops else _LANCE_TOP,
    }
    times: dict[str, list[float]] = {side: [] for side in scripts}
    process_times: dict[str, list[float]] = {side: [] for side in scripts}
    for _ in range(ROUNDS):
        for side, script in scripts.items():
            started = perf_counter()
            output = _run([sys.executable, "-c", script.format(**values)])
            # DuckDB prints a progress bar before the time.
            times[side].append(float(output.split()[-1]))
            process_times[side].append(perf_counter() - started)
    medians = {side: median(seconds) for side, seconds in times.items()}
    best = min((side for side in medians if side != "omnigraph"), key=medians.__getitem__)
    ratio = compare(f"first query, {name}", medians, ("omnigraph", best), 1.5)
    processes = ", ".join(f"{side} {median(seconds) * 1e3:.0f}" for side, seconds in process_times.items())
    return replace(ratio, detail=f"{ratio.detail}; whole processes, ms: {processes}", sides=medians)


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
