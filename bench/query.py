"""Compares warm queries with other engines: LadybugDB for traversals, DuckDB for groups, Lance for the rest.

The other engines are not dependencies of this package: run `uv pip install ladybug duckdb` first. All sides have opened
their data and prepared their statements, and return rows as Arrow. Vectors are searched exactly on both sides; Lance
searches texts with its index. `query_first` measures the first query of a new process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow.parquet as pq
from lance.query import MatchQuery

from bench.harness import Ratio, compare, median_seconds, sized
from bench.query_first import first_queries
from bench.social import VECTOR, Social, make_social, write_social
from omnigraph.api.graph import Graph

ROUNDS: Final = sized(20, 5)
PERSON: Final = "p777"
TEXT: Final = "word17 word2500 word42"


Prepare = Callable[[str], Callable[[], object]]
"""Returns the action that runs a statement of another engine."""


@dataclass(frozen=True, slots=True)
class EngineComparison:
    """One query in two languages, the limit of the ratio, and the other engine."""

    ours: str
    theirs: str
    limit: float
    engine: str = "ladybug"


_ONE_HOP: Final = "MATCH (p:Person)-[:Knows]->(f:Person) WHERE p.id = $s"
_MANY_HOPS: Final = "MATCH (p:Person)-[:Knows*1..{n}]->(f:Person) WHERE p.id = $s"
COMPARISONS: Final[Mapping[str, EngineComparison]] = {
    "point lookup": EngineComparison(
        "match { $p: Person { slug: $s } } return { $p.name, $p.age }", f"id = '{PERSON}'", 1.0, "lance"
    ),
    "one hop": EngineComparison(
        "match { $p: Person { slug: $s } $p knows $f } return { $f.name }",
        f"{_ONE_HOP} RETURN DISTINCT f.id, f.name",
        1.0,
    ),
    "two hops": EngineComparison(
        "match { $p: Person { slug: $s } $p knows{1,2} $f } return { $f.name }",
        f"{_MANY_HOPS.format(n=2)} RETURN DISTINCT f.id, f.name",
        1.0,
    ),
    "three hops": EngineComparison(
        "match { $p: Person { slug: $s } $p knows{1,3} $f } return { count($f) as n }",
        f"{_MANY_HOPS.format(n=3)} RETURN count(DISTINCT f.id)",
        1.0,
    ),
    "three-paths": EngineComparison(
        "match { $p: Person { slug: $s } $p knows $a $a knows $b $b knows $f } return { count($f) as n }",
        "MATCH (p:Person)-[:Knows]->()-[:Knows]->()-[:Knows]->(f:Person) WHERE p.id = $s RETURN count(f)",
        1.0,
    ),
    "filtered two-paths": EngineComparison(
        "match { $p: Person $p knows $a $a knows $f $p.age > 80 $a.age < 20 $f.age = 50 } return { count($f) as n }",
        "MATCH (p:Person)-[:Knows]->(a:Person)-[:Knows]->(f:Person) "
        "WHERE p.age > 80 AND a.age < 20 AND f.age = 50 RETURN count(*)",
        1.0,
    ),
    "top in-degree": EngineComparison(
        "match { $p: Person $p knows $f } return { $f.slug, count($p) as n } order { n desc } limit 10",
        "MATCH (p:Person)-[:Knows]->(f:Person) RETURN f.id, count(p) AS n ORDER BY n DESC LIMIT 10",
        1.0,
    ),
    "filter and aggregate": EngineComparison(
        "match { $p: Person $p.age > 30 } return { $p.city, count($p) as n, avg($p.score) as a }",
        "SELECT city, count(*), avg(score) FROM person WHERE age > 30 GROUP BY city",
        1.5,
        "duckdb",
    ),
    "text top 10": EngineComparison(
        "match { $p: Person } return { $p.slug, bm25($p.bio, $t) as s } order { s desc } limit 10",
        TEXT,
        1.3,
        "lance text",
    ),
    "text search, top 10": EngineComparison(
        "match { $p: Person search($p.bio, $t) } return { $p.slug, bm25($p.bio, $t) as s } order { s desc } limit 10",
        TEXT,
        1.3,
        "lance text",
    ),
    "vector top 10": EngineComparison(
        "match { $p: Person } return { $p.slug, nearest($p.embedding, $v) as d } order { d } limit 10",
        "",
        1.3,
        "lance vector",
    ),
    "vector top 10, filtered": EngineComparison(
        "match { $p: Person $p.age < 30 } return { $p.slug, nearest($p.embedding, $v) as d } order { d } limit 10",
        "age < 30",
        1.3,
        "lance vector",
    ),
}
PARAMETERS: Final[Mapping[str, tuple[str, object]]] = {
    "s": ("String", PERSON),
    "t": ("String", TEXT),
    "v": (f"Vector({VECTOR})", [math.sin(position) for position in range(VECTOR)]),
}


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of all comparisons."""
    social = make_social()
    graph = write_social(folder / "social.omni", social)
    engines = {"ladybug": _ladybug(folder, social), "duckdb": _duckdb(social), **_lance(graph)}
    ratios = [_measure(name, graph, engines) for name in COMPARISONS]
    return [*ratios, *first_queries(folder, graph, social)]


def _measure(name: str, graph: Graph, engines: Mapping[str, Prepare]) -> Ratio:
    comparison = COMPARISONS[name]
    used = {
        name: parameter for name, parameter in PARAMETERS.items() if f"${name}" in comparison.ours.replace("$p", "")
    }
    declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in used.items())
    prepared = graph.prepare(f"query q({declared}) {{ {comparison.ours} }}")
    snapshot = graph.snapshot()
    params = {name: value for name, (_, value) in used.items()}
    actions: dict[str, Callable[[], object]] = {
        "omnigraph": lambda: prepared.run(params, as_of=snapshot).to_arrow(),
        comparison.engine: engines[comparison.engine](comparison.theirs),
    }
    # Columns and adjacency are cached when they are requested again.
    for _ in range(4):
        actions["omnigraph"]()
    return compare(name, median_seconds(actions, ROUNDS), ("omnigraph", comparison.engine), comparison.limit)


def _ladybug(folder: Path, social: Social) -> Prepare:
    ladybug: Any = import_module("ladybug")
    connection = ladybug.Connection(ladybug.Database(str(folder / "ladybug")))
    connection.execute(
        "CREATE NODE TABLE Person(id STRING, slug STRING, name STRING, city STRING, age INT32, score DOUBLE, "
        "PRIMARY KEY(id))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since DATE)")
    edges = social.knows.select(["src", "dst", "since"])
    for name, table in (("Person", social.persons.drop_columns(["bio", "embedding"])), ("Knows", edges)):
        pq.write_table(table, folder / f"{name}.parquet")
        connection.execute(f"COPY {name} FROM '{folder}/{name}.parquet'")

    def prepare(text: str) -> Callable[[], object]:
        params = {"s": PERSON} if "$s" in text else {}
        return lambda: connection.execute(text, params).get_as_arrow()

    return prepare


def _duckdb(social: Social) -> Prepare:
    duckdb: Any = import_module("duckdb")
    connection = duckdb.connect()
    connection.register("input", social.persons)
    connection.execute("CREATE TABLE person AS SELECT * FROM input")
    return lambda text: lambda: connection.sql(text).to_arrow_table()


def _lance(graph: Graph) -> dict[str, Prepare]:
    snapshot = graph.snapshot()
    table = snapshot.tables["node:Person"]
    dataset = lance.dataset(snapshot.root.child(table.path).lance_uri, version=table.pin.version)
    nearest = {"column": "embedding", "q": PARAMETERS["v"][1], "k": 10, "metric": "cosine"}
    return {
        "lance": lambda where: lambda: dataset.to_table(columns=["name", "age"], filter=where),
        "lance text": lambda words: (
            lambda: dataset.to_table(columns=["slug", "_score"], full_text_query=MatchQuery(words, "bio"), limit=10)
        ),
        "lance vector": lambda where: (
            lambda: dataset.to_table(
                columns=["slug", "_distance"], nearest=nearest, filter=where or None, prefilter=True
            )
        ),
    }
