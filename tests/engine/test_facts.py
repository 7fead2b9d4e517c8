"""What a plan knows about the tables of a snapshot: rows, indexes, and what they do not cover yet."""

from __future__ import annotations

from pathlib import Path

from omnigraph.api.checking import QuerySource, explain_query
from omnigraph.engine.run import gather_facts
from omnigraph.graph.snapshot import read_snapshot
from omnigraph.query import IndexFact, TableFacts
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.indexes import IndexSpec
from omnigraph.storage.location import Location, parse_location
from tests.graph.writers import KNOWS, PERSON, Change, create, run, run_index

QUERY = 'query q() { match { $p: Person { slug: "b" } $p knows $f } return { $f.age } }'


def graph(place: Path) -> Location:
    location = parse_location(str(place / "graph.omni"))
    create(location)
    run(location, [Change(PERSON, insert=("a", "b", "c")), Change(KNOWS, insert=("a", "b"))])
    return location


def plan(location: Location) -> str:
    return explain_query(read_snapshot(location), QuerySource(QUERY)).text


def test_rows_and_coverage(tmp_path: Path) -> None:
    location = graph(tmp_path)
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(3)}

    run_index(location, PERSON, [IndexSpec("id", IndexKind.BTREE), IndexSpec("slug", IndexKind.BTREE)])
    whole = (IndexFact("id", IndexKind.BTREE), IndexFact("slug", IndexKind.BTREE))
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(3, whole)}

    run(location, [Change(PERSON, insert=("d", "e"))])
    partial = (IndexFact("id", IndexKind.BTREE, 1, 2), IndexFact("slug", IndexKind.BTREE, 1, 2))
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(5, partial)}


def test_explain_shows_the_index_and_what_it_lacks(tmp_path: Path) -> None:
    location = graph(tmp_path)
    assert "using" not in plan(location)
    run_index(location, PERSON, [IndexSpec("slug", IndexKind.BTREE)])
    run_index(location, KNOWS, [IndexSpec("src", IndexKind.BTREE)])
    assert 'where p.slug = "b" using btree on slug  —' in plan(location)
    assert "expand p -[Knows]-> f using btree on src  —" in plan(location)
    run(location, [Change(PERSON, insert=("d", "e"))])
    assert "using btree on slug, 2 rows uncovered" in plan(location)
