"""The rules against the reference: on small random graphs, a rewritten plan gives the rows of the plan as written."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query import NO_FACTS, RULES, PlanFacts, ReadPlan, TableFacts, rewrite_plan
from omnigraph.query.plan import QueryPlan
from tests.query.golden_files import checked
from tests.query.reference import Row, Tables, run

PERSONS: Final = ("a", "b", "c")
COMPANIES: Final = ("x", "y")
CITIES: Final = ("s", "t")
FACTS: Final = PlanFacts({"node:Person": TableFacts(rows=3), "edge:Knows": TableFacts(rows=9)})

# Each clause with the variables that it introduces; a variable has the same type everywhere.
TRAVERSALS: Final = (
    "$p: Person",
    "$q: Person",
    "$c: Company",
    "$p knows $q",
    "$q knows $r",
    "$r knows $p",
    "$p knows{1,2} $r",
    "$p knows{2,3} $q",
    "$p <knows> $r",
    "$q <knows>{2,2} $r",
    "$p knows $p",
    "$p $k:knows $q",
    "$p $l:<knows> $r",
    "$p worksAt $c",
    "$q worksAt $c",
    "$c locatedIn $t",
    "$p knows $_",
)
FILTERS: Final = (
    "$p.age > 1",
    "$p.age = 1.5 or $p.age < 1.5",
    "$q.age is null",
    "$p.age < $q.age",
    "$p.name = $q.name",
    "not ($p.age = 1 and $q.age = 1)",
    "$r.age != $p.age",
    "$c.code = 'x'".replace("'", '"'),
    "$c.name = $p.name",
    "$p != $q",
    "$k.weight > 0.5",
    "$p.age in [1, 2.0, 2.5]",
    "$p.active",
    "not $q.active",
    "$p.age + 1 > $q.age",
    "3000000000 > $p.age",
    "$t.name = $c.name",
    "1 < 2",
)
VARIABLES: Final = ("p", "q", "r", "c", "t", "k", "l")


def edges_of(sources: tuple[str, ...], targets: tuple[str, ...]) -> st.SearchStrategy[list[dict[str, Any]]]:
    ends = st.tuples(st.sampled_from(sources), st.sampled_from(targets), st.sampled_from((0.2, 0.5, 0.9)))
    return st.lists(ends, max_size=5).map(
        lambda found: [
            {"id": f"e{number}", "src": src, "dst": dst, "weight": weight, "since": None, "role": None}
            for number, (src, dst, weight) in enumerate(found)
        ]
    )


@st.composite
def graphs(draw: st.DrawFn) -> Tables:
    ages = st.sampled_from((None, 0, 1, 2))
    names = st.sampled_from(("m", "n"))
    rest = ("status", "tags", "points", "bio", "embedding", "photo", "joined", "seen", "height", "ratio")
    return {
        "node:Person": [
            {"id": key, "slug": key, "name": draw(names), "age": draw(ages), "active": draw(st.booleans())}
            | dict.fromkeys((*rest, "visits", "total", "big"))
            for key in PERSONS
        ],
        "node:Company": [
            {"id": key, "code": key, "name": draw(names), "founded": None, "logo": None} for key in COMPANIES
        ],
        "node:City": [{"id": key, "name": draw(names), "size": 0} for key in CITIES],
        "edge:Knows": draw(edges_of(PERSONS, PERSONS)),
        "edge:WorksAt": draw(edges_of(PERSONS, COMPANIES)),
        "edge:LocatedIn": draw(edges_of(COMPANIES, CITIES)),
    }


def variables_in(text: str) -> set[str]:
    return {name for name in VARIABLES if f"${name}" in text}


@st.composite
def blocks(draw: st.DrawFn, outer: frozenset[str], depth: int) -> tuple[str, frozenset[str]]:
    """The clauses of a block, and the variables that can be used after it."""
    bound = set(outer)
    clauses: list[str] = []
    for clause in draw(st.lists(st.sampled_from(TRAVERSALS), min_size=1, max_size=3, unique=True)):
        is_binding = ": " in clause
        new_edge = {"k", "l"} & variables_in(clause) & bound
        if not new_edge and not (is_binding and variables_in(clause) & bound):
            clauses.append(clause)
            bound |= variables_in(clause)
    if not clauses:
        clauses.append("$_: City")
    if depth and draw(st.booleans()):
        inner, escaped = draw(blocks(frozenset(bound), depth - 1))
        optional = draw(st.booleans())
        clauses.append(f"{'optional' if optional else 'not'} {{ {inner} }}")
        bound |= escaped if optional else set()
    usable = [text for text in FILTERS if variables_in(text) <= bound]
    if usable:
        clauses.extend(draw(st.lists(st.sampled_from(usable), max_size=2, unique=True)))
    return " ".join(clauses), frozenset(bound)


@st.composite
def queries(draw: st.DrawFn) -> str:
    clauses, bound = draw(blocks(frozenset(), 2))
    names = sorted(bound)
    columns = ", ".join(f"${name}.id" for name in names) or "1"
    grouped, ordered = draw(st.tuples(st.booleans(), st.booleans()))
    if names and grouped:
        columns = f"${names[0]}, count(${names[-1]}) as n, count(distinct ${names[-1]}) as m"
        return f"query a() {{ match {{ {clauses} }} return {{ {columns} }} }}"
    order = f" order {{ ${names[0]}.id desc }} limit 4 offset 1" if names and ordered else ""
    return f"query a() {{ match {{ {clauses} }} return {{ {columns} }}{order} }}"


@given(queries(), graphs())
@settings(max_examples=150)
def test_the_rows_stay_the_same(text: str, tables: Tables) -> None:
    (query,) = checked(text)
    expected = rows_of(query.plan, tables)
    for facts in (NO_FACTS, FACTS):
        assert rows_of(rewrite_plan(query.plan, facts), tables) == expected
    for count in range(1, len(RULES)):
        assert rows_of(rewrite_plan(query.plan, NO_FACTS, RULES[:count]), tables) == expected


def rows_of(plan: QueryPlan, tables: Tables) -> Counter[tuple[tuple[str, Any], ...]] | list[Row]:
    assert isinstance(plan, ReadPlan)
    rows = run(plan.root, tables)
    assert all(list(row) == [field.name for field in plan.outputs] for row in rows)
    return Counter(tuple(row.items()) for row in rows)
