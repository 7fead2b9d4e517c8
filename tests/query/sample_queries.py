"""Generates queries over the schema of the golden files: blocks of clauses, results with groups, order and limits.

Half of the queries have parameters with values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from tests.query.sample_parameters import (
    SampleParameter,
    aggregates,
    columns,
    conditions,
    declared,
    inline,
    parameters,
    values_of,
)

# A variable has the same type everywhere.
TRAVERSALS: Final = (
    "$p: Person",
    "$q: Person",
    "$q: Person { age: 3 - 2 }",
    "$r: Person { active: 1 < 2 }",
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
    "$p (knows|follows) $q",
    "$p $w:knows{1,3} $q",
    "$q (follows|knows){1,3} $r",
    "$p <knows|follows>{2,3} $r",
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
    "$p.bio not contains $p.name",
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
PARAMETER_SEARCHES: Final = ("search($p.bio, $words)", "match_text($q.bio, $words)", "fuzzy($p.bio, $words, 1)")
SCORES: Final = (
    'bm25({}.bio, "m nö m")',
    "nearest({}.embedding, [1.0, 0.5, 0.0, 0.0])",
    'rrf(bm25({0}.bio, "nö"), nearest({0}.embedding, [0.0, 1.0, 0.25, 0.0]))',
    'rrf(nearest({0}.embedding, [1.0, 0.5, 0.0, 0.0]), bm25({0}.bio, "m"), k=2)',
)
PARAMETER_SCORES: Final = ("bm25({}.bio, $words)", "nearest({}.embedding, $vector)")
WORDS: Final = ("m nö", "M", "", "None", "q %")
VARIABLES: Final = ("p", "q", "r", "c", "t", "u", "k", "l", "j")
NODES: Final = frozenset({"p", "q", "r"})
NUMBERS: Final = ("age", "height", "ratio", "total")


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """The text of one query, and the values of its parameters."""

    text: str
    values: Mapping[str, object]


def variables_in(text: str) -> set[str]:
    """Return the variables in a clause."""
    return {name for name in VARIABLES if f"${name}" in text}


@st.composite
def blocks(draw: st.DrawFn, outer: frozenset[str], depth: int, filters: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    """Generate the clauses of a block, and the variables that can be used after it."""
    bound = set(outer)
    clauses: list[str] = []
    for clause in draw(st.lists(st.sampled_from(TRAVERSALS), min_size=1, max_size=3, unique=True)):
        if not {"k", "l", "j"} & variables_in(clause) & bound:
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
def queries(draw: st.DrawFn, *, searches: bool = False) -> SampleQuery:
    """Generate a query; with `searches` also text predicates and scores."""
    choices = draw(parameters) if draw(st.booleans()) else ()
    filters: tuple[str, ...] = (*FILTERS, *SEARCHES) if searches else FILTERS
    scores: tuple[str, ...] = SCORES
    heads = declared(choices)
    values = values_of(choices)
    if choices:
        # Only one other filter, so that those with parameters are chosen.
        filters = (*draw(st.lists(conditions(choices), min_size=2, max_size=4)), draw(st.sampled_from(filters)))
        heads += ", $most: I64, $skip: U32"
        values |= {"$most": 4, "$skip": 1}
    if choices and searches:
        filters += PARAMETER_SEARCHES[: draw(st.integers(0, 3))]
        scores = PARAMETER_SCORES
        heads += ", $words: String, $vector: Vector(4)"
        values |= {"$words": draw(st.sampled_from(WORDS)), "$vector": [1, 0.5, -0.0, 0.25]}
    clauses, bound = draw(blocks(frozenset(), 2, filters))
    if choices:
        clauses = clauses.replace("$p: Person", f"$p: Person{draw(inline(choices))}")
    tail = draw(_results(bound, choices, scores if searches else ()))
    return SampleQuery(f"query a({heads}) {{ match {{ {clauses} }} {tail} }}", values)


@st.composite
def _results(
    draw: st.DrawFn, bound: frozenset[str], choices: tuple[SampleParameter, ...], scores: tuple[str, ...]
) -> str:
    names = sorted(bound)
    ids = ", ".join(f"${name}.id" for name in names) or "1"
    more = draw(columns(choices)) if choices else ""
    cut = "limit $most offset $skip" if choices else "limit 4 offset 1"
    match draw(st.integers(0, 6 if scores else 5)) if names else 0:
        case 0:
            return f"return {{ {ids}{more} }}"
        case 1:
            shown = f"${names[0]}, count(${names[-1]}) as n, count(distinct ${names[-1]}) as m"
            return f"return {{ {shown}{more} }}"
        case 2:
            return f"return {{ count(${names[-1]}) as n }}"
        case 3:
            shown = _aggregates(draw, bound)
            return f"return {{ {shown}{', ' + draw(aggregates(choices)) if choices else ''} }}"
        case 4:
            nodes = sorted(bound & NODES)
            key = f"${nodes[0]}.{draw(st.sampled_from(('age', 'name', 'ratio', 'seen')))}" if nodes else "1"
            down = draw(st.sampled_from(("", " desc")))
            return f"return {{ {ids}, {key} as key{more} }} order {{ {key}{down} }} {cut}"
        case 6 if bound & NODES:
            ranked = draw(st.sampled_from(sorted(bound & NODES)))
            score = draw(st.sampled_from(scores)).format(f"${ranked}")
            tail = draw(st.sampled_from(("order { s } ", "order { s asc } ", "order { s desc } ", ""))) + "limit 5"
            return f"return {{ {ids}, {score} as s }} {tail}"
        case _:
            order = f"order {{ ${names[0]}.id desc }} {cut}"
            return f"return {{ {ids}{more} }} {order}"


def _aggregates(draw: st.DrawFn, bound: frozenset[str]) -> str:
    nodes = sorted(bound & NODES)
    if not nodes:
        return "count(1) as n"
    first, last = f"${nodes[0]}", f"${nodes[-1]}"
    number = draw(st.sampled_from(NUMBERS))
    shown = [
        f"sum({last}.{number}) as s",
        f"avg({last}.{number}) as a",
        f"min({last}.{draw(st.sampled_from(('name', 'age', 'joined', 'seen', 'active')))}) as lo",
        f"max({last}.{draw(st.sampled_from(('bio', 'ratio', 'big', 'seen')))}) as hi",
        f"count({last}.bio) as n",
        f"count(distinct {last}.age) as d",
        f"collect({last}) as es",
        f"collect(distinct {last}) as ds",
    ]
    chosen = draw(st.lists(st.sampled_from(shown), min_size=1, max_size=4, unique=True))
    keys = draw(st.sampled_from(("", f"{first}.name, ", f"{first}.age, {first}.active, ", f"{first}.ratio, ")))
    return keys + ", ".join(chosen)
