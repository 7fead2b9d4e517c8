"""Generated queries over the schema of the golden files: blocks of clauses, results with groups, order and limits."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

# A variable has the same type everywhere.
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
    "$p knows{3,3} $q",
    "$p knows{2,2} $p",
    "$p $j:knows $p",
    "$q $k:<knows> $q",
    "$p <knows>{1,3} $q",
    "$p follows $r",
    "$t contains{1,2} $u",
)
FILTERS: Final = (
    "$p.age > 1",
    "$p.age = 1.5 or $p.age < 1.5",
    "$q.age is null",
    "$p.age < $q.age",
    "$p.name = $q.name",
    "not ($p.age = 1 and $q.age = 1)",
    "$r.age != $p.age",
    '$c.code = "x"',
    "$c.name = $p.name",
    "$p != $q",
    "$p = $r",
    "$k.weight > 0.5",
    "$k.since is not null",
    "$j.weight < 0.9",
    "$p.age in [1, 2.0, 2.5]",
    '$p.slug in ["a", "c", "zz"]',
    '$q.id = "b"',
    "$p.active",
    "not $q.active",
    "$p.age + 1 > $q.age",
    "3000000000 > $p.age",
    "$t.name = $c.name",
    "1 < 2",
    '$p.tags contains "m"',
    "$p.tags contains $q.name",
    "$q.points contains 2",
    '$p.bio contains "ö"',
    '$p.bio starts_with "m%"',
    "$p.bio contains $q.name",
    "$p.bio starts_with $p.name",
    "not $p.bio contains $p.name",
    "$p.total < $p.ratio or $p.ratio < $q.total",
    "$p.total = $q.big",
    "$p.big > $p.ratio",
    "$p.big >= 9007199254740993",
    "$p.height < $p.ratio",
    "$p.seen > $q.joined",
    '$p.joined < "2020-01-01"',
    '$q.seen >= "2020-01-01T00:00:00.001Z"',
    '$p.status != "left"',
    "$p.ratio / $p.total > 0 or $p.age / 0 = 1",
    "-$p.age < $q.total - 1",
    "$p.age * 2 = $q.age",
    "$c.founded is null",
    "$p.height = 0.5",
    "$p.photo is null",
)
SEARCHES: Final = (
    'search($p.bio, "m q")',
    'search($r.bio, "NÖ")',
    'match_text($q.bio, "nö m")',
    'fuzzy($p.bio, "mx", 1)',
    'not fuzzy($r.bio, "nxx") or $r.age = 1',
)
SCORES: Final = (
    'bm25({}.bio, "m nö m")',
    "nearest({}.embedding, [1.0, 0.5, 0.0, 0.0])",
    'rrf(bm25({0}.bio, "nö"), nearest({0}.embedding, [0.0, 1.0, 0.25, 0.0]))',
    'rrf(nearest({0}.embedding, [1.0, 0.5, 0.0, 0.0]), bm25({0}.bio, "m"), k=2)',
)
VARIABLES: Final = ("p", "q", "r", "c", "t", "u", "k", "l", "j")
NODES: Final = frozenset({"p", "q", "r"})
NUMBERS: Final = ("age", "height", "ratio", "total")


def variables_in(text: str) -> set[str]:
    """The variables that a clause mentions."""
    return {name for name in VARIABLES if f"${name}" in text}


@st.composite
def blocks(
    draw: st.DrawFn, outer: frozenset[str], depth: int, filters: tuple[str, ...]
) -> tuple[str, frozenset[str]]:
    """The clauses of a block, and the variables that can be used after it."""
    bound = set(outer)
    clauses: list[str] = []
    for clause in draw(st.lists(st.sampled_from(TRAVERSALS), min_size=1, max_size=3, unique=True)):
        is_binding = ": " in clause
        new_edge = {"k", "l", "j"} & variables_in(clause) & bound
        if not new_edge and not (is_binding and variables_in(clause) & bound):
            clauses.append(clause)
            bound |= variables_in(clause)
    if not clauses:
        clauses.append("$_: City")
    if depth and draw(st.booleans()):
        inner, escaped = draw(blocks(frozenset(bound), depth - 1, filters))
        optional = draw(st.booleans())
        clauses.append(f"{'optional' if optional else 'not'} {{ {inner} }}")
        bound |= escaped if optional else set()
    usable = [text for text in filters if variables_in(text) <= bound]
    if usable:
        clauses.extend(draw(st.lists(st.sampled_from(usable), max_size=2, unique=True)))
    return " ".join(clauses), frozenset(bound)


@st.composite
def queries(draw: st.DrawFn, *, searches: bool = False) -> str:
    """The text of one query; with `searches` also predicates over texts, and scores."""
    clauses, bound = draw(blocks(frozenset(), 2, (*FILTERS, *SEARCHES) if searches else FILTERS))
    names = sorted(bound)
    match draw(st.integers(0, 6 if searches else 5)) if names else 0:
        case 0:
            columns = ", ".join(f"${name}.id" for name in names) or "1"
            return f"query a() {{ match {{ {clauses} }} return {{ {columns} }} }}"
        case 1:
            shown = f"${names[0]}, count(${names[-1]}) as n, count(distinct ${names[-1]}) as m"
            return f"query a() {{ match {{ {clauses} }} return {{ {shown} }} }}"
        case 2:
            return f"query a() {{ match {{ {clauses} }} return {{ count(${names[-1]}) as n }} }}"
        case 3:
            return f"query a() {{ match {{ {clauses} }} return {{ {_aggregates(draw, bound)} }} }}"
        case 4:
            nodes = sorted(bound & NODES)
            key = f"${nodes[0]}.{draw(st.sampled_from(('age', 'name', 'ratio', 'seen')))}" if nodes else "1"
            columns = ", ".join(f"${name}.id" for name in names)
            down = draw(st.sampled_from(("", " desc")))
            order = f"order {{ {key} as_key{down} }}".replace(" as_key", "")
            tail = f"{order} limit 4 offset 1"
            return f"query a() {{ match {{ {clauses} }} return {{ {columns}, {key} as key }} {tail} }}"
        case 6 if bound & NODES:
            ranked = draw(st.sampled_from(sorted(bound & NODES)))
            score = draw(st.sampled_from(SCORES)).format(f"${ranked}")
            columns = ", ".join(f"${name}.id" for name in names)
            tail = draw(st.sampled_from(("order { s } ", "order { s desc } ", ""))) + "limit 5"
            return f"query a() {{ match {{ {clauses} }} return {{ {columns}, {score} as s }} {tail} }}"
        case _:
            columns = ", ".join(f"${name}.id" for name in names)
            order = f" order {{ ${names[0]}.id desc }} limit 4 offset 1"
            return f"query a() {{ match {{ {clauses} }} return {{ {columns} }}{order} }}"


def _aggregates(draw: st.DrawFn, bound: frozenset[str]) -> str:
    nodes = sorted(bound & NODES)
    if not nodes:
        return "count(1) as n"
    one, other = f"${nodes[0]}", f"${nodes[-1]}"
    number = draw(st.sampled_from(NUMBERS))
    shown = [
        f"sum({other}.{number}) as s",
        f"avg({other}.{number}) as a",
        f"min({other}.{draw(st.sampled_from(('name', 'age', 'joined', 'seen', 'active')))}) as lo",
        f"max({other}.{draw(st.sampled_from(('bio', 'ratio', 'big', 'seen')))}) as hi",
        f"count({other}.bio) as n",
        f"count(distinct {other}.age) as d",
    ]
    chosen = draw(st.lists(st.sampled_from(shown), min_size=1, max_size=4, unique=True))
    keys = draw(st.sampled_from(("", f"{one}.name, ", f"{one}.age, {one}.active, ", f"{one}.ratio, ")))
    return keys + ", ".join(chosen)
