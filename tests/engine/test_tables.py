"""Facts of tables for the planner: rows, indexes, and the rows that indexes do not cover yet."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.prepare import ExplainOptions, QuerySource, explain_query
from omnigraph.engine.run import QueryRunOptions, gather_facts, run_query
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.types import IndexFact, TableFacts
from omnigraph.query.plan.walk import steps_of
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location, parse_location
from tests.engine.running import PlannedText
from tests.graph.writers import KNOWS, PERSON, Change, create, run, run_index
from tests.maintenance.graphs import in_place

QUERY = 'query q() { match { $p: Person { slug: "b" } $p knows $f } return { $f.age } }'


def graph(directory: Path) -> Location:
    location = parse_location(str(directory / "graph.omni"))
    create(location)
    run(location, [Change(PERSON, insert=("a", "b", "c")), Change(KNOWS, insert=("a", "b"))])
    return location


def plan(location: Location) -> str:
    return explain_query(read_snapshot(location), QuerySource(QUERY)).text


def test_rows_and_coverage(tmp_path: Path) -> None:
    location = graph(tmp_path)
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(3)}

    run_index(location, PERSON, [IndexSpec("id", IndexKind.BTREE), IndexSpec("slug", IndexKind.BTREE)])
    complete = (IndexFact("id", IndexKind.BTREE), IndexFact("slug", IndexKind.BTREE))
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(3, complete)}

    run(location, [Change(PERSON, insert=("d", "e"))])
    partial = (IndexFact("id", IndexKind.BTREE, 1, 2), IndexFact("slug", IndexKind.BTREE, 1, 2))
    assert gather_facts(read_snapshot(location), (PERSON,)).tables == {PERSON: TableFacts(5, partial)}


def test_explain_shows_index_and_uncovered_rows(tmp_path: Path) -> None:
    location = graph(tmp_path)
    assert "using" not in plan(location)
    run_index(location, PERSON, [IndexSpec("slug", IndexKind.BTREE)])
    run_index(location, KNOWS, [IndexSpec("src", IndexKind.BTREE)])
    assert 'where p.slug = "b" using btree on slug  —' in plan(location)
    assert "expand p -[Knows]-> f using btree on src  —" in plan(location)
    run(location, [Change(PERSON, insert=("d",))])
    assert "using btree on slug, 1 row uncovered" in plan(location)
    run(location, [Change(PERSON, insert=("e",))])
    assert "using btree on slug, 2 rows uncovered" in plan(location)


def test_explain_analyze_shows_what_the_run_used(tmp_path: Path) -> None:
    location = graph(tmp_path)
    run_index(location, PERSON, [IndexSpec("slug", IndexKind.BTREE)])
    analyzed = explain_query(read_snapshot(location), QuerySource(QUERY), options=ExplainOptions(analyze=True))
    (scan,) = (step for step in analyzed.steps if step.text.startswith("scan"))
    assert (scan.figures.mode, "using" in scan.text) == ("from memory", False)
    assert "using btree on slug" in plan(location)


def test_equality_of_a_unique_property_is_estimated_as_one_row(tmp_path: Path) -> None:
    people = og.init(tmp_path / "u.omni", "node P { k: String @key  email: String? @unique  name: String? }")
    people.load([{"type": "P", "data": {"k": f"{n}", "email": f"{n}", "name": "a"}} for n in range(500)])

    def estimate(name: str) -> int | None:
        text = f'query q() {{ match {{ $p: P {{ {name}: "7" }} }} return {{ $p.k }} }}'
        return people.explain(text).steps[-1].figures.rows_estimated

    assert [estimate("k"), estimate("email"), estimate("name")] == [1, 1, 5]


def executed(location: Location, text: str) -> str:
    """Return how storage reports that it ran the scan of the query."""
    trace = Trace()
    snapshot = read_snapshot(location)
    plan = PlannedText(text).planner.bound_plan(snapshot, None)
    for _ in run_query(snapshot, plan, QueryRunOptions(EngineOptions(cached=False), trace=trace)).batches:
        pass
    (scan,) = (step for step in steps_of(plan.root) if isinstance(step, op.Scan))
    mode, reason = trace.modes[id(scan)]
    return f"{mode}, {reason}"


def test_scan_uses_index_before_and_after_appends_and_optimize(tmp_path: Path) -> None:
    location = graph(tmp_path)
    assert executed(location, QUERY) == "from storage, no index"
    specs = [IndexSpec("slug", IndexKind.BTREE)]
    run_index(location, PERSON, specs)
    assert executed(location, QUERY) == "from storage, by index slug_btree"
    run(location, [Change(PERSON, insert=("d", "e"))])
    assert executed(location, QUERY) == "from storage, by index slug_btree"
    run_index(location, PERSON, specs)
    assert executed(location, QUERY) == "from storage, by index slug_btree"
    run(location, [Change(PERSON, delete=("a",))])
    run(location, [Change(PERSON, insert=("f",))])
    before = gather_facts(read_snapshot(location), (PERSON,)).tables[PERSON].index("slug", IndexKind.BTREE)
    assert before == IndexFact("slug", IndexKind.BTREE, 1, 1)
    done = {row.table_key: row for row in optimize_all_tables(Graph(location), OptimizeOptions(), in_place)}
    assert done[PERSON].committed
    after = gather_facts(read_snapshot(location), (PERSON,)).tables[PERSON].index("slug", IndexKind.BTREE)
    assert after == IndexFact("slug", IndexKind.BTREE)
    assert executed(location, QUERY) == "from storage, by index slug_btree"
    run(location, [Change(PERSON, insert=("g",))])
    assert executed(location, QUERY) == "from storage, by index slug_btree"
    by_age = "query q() { match { $p: Person  $p.age > 3 } return { $p.slug } }"
    assert executed(location, by_age) == "from storage, no index"
    everything = "query q() { match { $p: Person } return { $p.slug } }"
    assert executed(location, everything) == "from storage, no filter that storage can evaluate"
