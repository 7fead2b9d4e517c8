"""Queries beside other engines, warm, as ratios: LadybugDB for traversals, DuckDB for groups, Lance for one row.

The others are not dependencies of this package: `uv pip install ladybug duckdb` before this is run. Every side has its
data open and its statement prepared, and gives its rows as Arrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow.parquet as pq

from bench.harness import Ratio, compare, median_seconds, report
from bench.social import Social, make_social, write_social
from omnigraph.api.graph import Graph

ROUNDS: Final = 20
PERSON: Final = "p777"


@dataclass(frozen=True, slots=True)
class Question:
    """One question in two languages, and the bar of the ratio; `rival` says whom it is compared with."""

    ours: str
    theirs: str
    bar: float
    rival: str = "ladybug"


_ONE: Final = "MATCH (p:Person)-[:Knows]->(f:Person) WHERE p.id = $s"
_STARS: Final = "MATCH (p:Person)-[:Knows*1..{n}]->(f:Person) WHERE p.id = $s"
QUESTIONS: Final[Mapping[str, Question]] = {
    "point lookup": Question(
        "match { $p: Person { slug: $s } } return { $p.name, $p.age }", f"id = '{PERSON}'", 1.0, "lance"
    ),
    "one hop": Question(
        "match { $p: Person { slug: $s } $p knows $f } return { $f.name }",
        f"{_ONE} RETURN DISTINCT f.id, f.name",
        1.0,
    ),
    "two hops": Question(
        "match { $p: Person { slug: $s } $p knows{1,2} $f } return { $f.name }",
        f"{_STARS.format(n=2)} RETURN DISTINCT f.id, f.name",
        1.0,
    ),
    "three hops": Question(
        "match { $p: Person { slug: $s } $p knows{1,3} $f } return { count($f) as n }",
        f"{_STARS.format(n=3)} RETURN count(DISTINCT f.id)",
        1.0,
    ),
    "three-paths": Question(
        "match { $p: Person { slug: $s } $p knows $a $a knows $b $b knows $f } return { count($f) as n }",
        "MATCH (p:Person)-[:Knows]->()-[:Knows]->()-[:Knows]->(f:Person) WHERE p.id = $s RETURN count(f)",
        1.0,
    ),
    "filtered two-paths": Question(
        "match { $p: Person $p knows $a $a knows $f $p.age > 80 $a.age < 20 $f.age = 50 } "
        "return { count($f) as n }",
        "MATCH (p:Person)-[:Knows]->(a:Person)-[:Knows]->(f:Person) "
        "WHERE p.age > 80 AND a.age < 20 AND f.age = 50 RETURN count(*)",
        1.0,
    ),
    "top in-degree": Question(
        "match { $p: Person $p knows $f } return { $f.slug, count($p) as n } order { n desc } limit 10",
        "MATCH (p:Person)-[:Knows]->(f:Person) RETURN f.id, count(p) AS n ORDER BY n DESC LIMIT 10",
        1.0,
    ),
    "filter and aggregate": Question(
        "match { $p: Person $p.age > 30 } return { $p.city, count($p) as n, avg($p.score) as a }",
        "SELECT city, count(*), avg(score) FROM person WHERE age > 30 GROUP BY city",
        1.5,
        "duckdb",
    ),
}


def main() -> bool:
    """Measure all questions."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        social = make_social()
        graph = write_social(folder / "social.omni", social)
        rivals = {
            "ladybug": _ladybug(folder, social),
            "duckdb": _duckdb(social),
            "lance": _lance(graph),
        }
        return report("query", [_measured(name, graph, rivals) for name in QUESTIONS])


def _measured(name: str, graph: Graph, rivals: Mapping[str, Callable[[str], Callable[[], object]]]) -> Ratio:
    question = QUESTIONS[name]
    has_parameter = "$s" in question.ours
    declared = "$s: String" if has_parameter else ""
    prepared = graph.prepare(f"query q({declared}) {{ {question.ours} }}")
    snapshot = graph.pin()
    params = {"s": PERSON} if has_parameter else {}
    actions: dict[str, Callable[[], object]] = {
        "omnigraph": lambda: prepared.run(snapshot, params).arrow(),
        question.rival: rivals[question.rival](question.theirs),
    }
    # Columns and adjacency enter the cache when they are asked for again.
    for _ in range(4):
        actions["omnigraph"]()
    return compare(name, median_seconds(actions, ROUNDS), ("omnigraph", question.rival), question.bar)


def _ladybug(folder: Path, social: Social) -> Callable[[str], Callable[[], object]]:
    ladybug: Any = import_module("ladybug")
    connection = ladybug.Connection(ladybug.Database(str(folder / "ladybug")))
    connection.execute(
        "CREATE NODE TABLE Person(id STRING, slug STRING, name STRING, city STRING, age INT32, score DOUBLE, "
        "PRIMARY KEY(id))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since DATE)")
    edges = social.knows.select(["src", "dst", "since"])
    for name, table in (("Person", social.persons), ("Knows", edges)):
        pq.write_table(table, folder / f"{name}.parquet")
        connection.execute(f"COPY {name} FROM '{folder}/{name}.parquet'")

    def ask(text: str) -> Callable[[], object]:
        params = {"s": PERSON} if "$s" in text else {}
        return lambda: connection.execute(text, params).get_as_arrow()

    return ask


def _duckdb(social: Social) -> Callable[[str], Callable[[], object]]:
    duckdb: Any = import_module("duckdb")
    connection = duckdb.connect()
    connection.register("given", social.persons)
    connection.execute("CREATE TABLE person AS SELECT * FROM given")
    return lambda text: lambda: connection.sql(text).to_arrow_table()


def _lance(graph: Graph) -> Callable[[str], Callable[[], object]]:
    snapshot = graph.pin()
    table = snapshot.tables["node:Person"]
    dataset = lance.dataset(snapshot.root.child(table.path).lance_uri, version=table.pin.version)
    return lambda where: lambda: dataset.to_table(columns=["name", "age"], filter=where)
