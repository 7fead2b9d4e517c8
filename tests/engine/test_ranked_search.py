"""All predicates with all rankings, on bound and on traversed variables, compared with brute force over dictionaries.

Plain Python selects the matching rows, the reference computes their scores, then they are sorted and limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Any, Final

import pytest

from omnigraph.engine.cache import Cache
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import STRING
from omnigraph.schema.property_types import VectorType
from tests.engine.graphs import ask, make_snapshot
from tests.query.reference_search import distance, matches, scored, words

SCHEMA: Final = """\
node D { k: String @key  t: String?  v: Vector(3)?  n: I64? }
node A { k: String @key }
edge W: A -> D
edge L: D -> D
"""
Row = dict[str, Any]
TEXTS: Final = ("red fox", None, "red red hen", "blue fox", "", "green", "Red, blue", None, "fox red hen", "hen")
VECTORS: Final = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    None,
    (1.0, 1.0, 0.0),
    (0.0, 0.0, 0.0),
    (-1.0, 0.0, 0.5),
    None,
    None,
    (1.0, 0.0, 0.0),
    (0.5, 0.25, 1.0),
)
DOCUMENTS: Final[list[Row]] = [
    {"k": f"d{number}", "t": text, "v": vector, "n": None if number % 4 == 3 else number}
    for number, (text, vector) in enumerate(zip(TEXTS, VECTORS, strict=True))
]
AUTHORS: Final[list[Row]] = [{"k": f"a{number}"} for number in range(4)]
# a3 wrote nothing; d0 and d2 have two authors.
WROTE: Final = [("a0", "d0"), ("a0", "d1"), ("a0", "d2"), ("a1", "d0"), ("a1", "d2"), ("a1", "d6"), ("a2", "d7")] + [
    ("a2", f"d{number}") for number in (3, 4, 5, 8, 9)
]
LINKS: Final = [("d0", "d2"), ("d0", "d1"), ("d2", "d8"), ("d2", "d4"), ("d8", "d0"), ("d1", "d9"), ("d6", "d6")]

BY_KEY: Final = {row["k"]: row for row in DOCUMENTS}
NOTHING: Final[Row] = {"k": None, "t": None, "v": None, "n": None}


def bound() -> Iterator[tuple[str | None, Row]]:
    yield from ((None, row) for row in DOCUMENTS)


def written() -> Iterator[tuple[str | None, Row]]:
    yield from ((author, BY_KEY[document]) for author, document in WROTE)


def within_two_hops() -> Iterator[tuple[str | None, Row]]:
    near = {far for start, far in LINKS if start == "d0"}
    further = {far for start, far in LINKS if start in near} - near - {"d0"}
    yield from ((None, BY_KEY[key]) for key in near | further)


def start_of_links() -> Iterator[tuple[str | None, Row]]:
    yield from ((far, BY_KEY[near]) for near, far in LINKS)


def optional() -> Iterator[tuple[str | None, Row]]:
    yield from written()
    yield ("a3", NOTHING)


# The pattern, the expression of the other node, and the pairs of the other node and `$d`.
SHAPES: Final[dict[str, tuple[str, str, Callable[[], Iterator[tuple[str | None, Row]]]]]] = {
    "bound": ("$d: D", "1", bound),
    "traversed": ("$a: A  $a w $d", "$a.k", written),
    "bound edge": ("$a $_:w $d", "$a.k", written),
    "hops": ('$x: D { k: "d0" }  $x l{1,2} $d', "1", within_two_hops),
    "start": ("$d l $y", "$y.k", start_of_links),
    "optional": ("$a: A  optional { $a w $d }", "$a.k", optional),
}
PREDICATES: Final[dict[str, Callable[[Row], bool]]] = {
    "": lambda _: True,
    "$d.n > 2": lambda row: row["n"] is not None and row["n"] > 2,
    "$d.n is null": lambda row: row["n"] is None,
    'search($d.t, "RED hen")': lambda row: has(row, ex.TextMode.SEARCH, "RED hen"),
    'match_text($d.t, "red hen")': lambda row: has(row, ex.TextMode.MATCH_TEXT, "red hen"),
    'fuzzy($d.t, "bed", 1)': lambda row: (
        row["t"] is not None and any(distance(word, "bed") <= 1 for word in words(row["t"]))
    ),
    'not search($d.t, "red")': lambda row: row["t"] is not None and not has(row, ex.TextMode.SEARCH, "red"),
    'search($d.t, "blue") or $d.n = 1': lambda row: has(row, ex.TextMode.SEARCH, "blue") or row["n"] == 1,
    'search($d.t, "fox") $d.n < 8': lambda row: (
        has(row, ex.TextMode.SEARCH, "fox") and (row["n"] or 0) < 8 and row["n"] is not None
    ),
    "$d.v is not null": lambda row: row["v"] is not None,
    '$d.t starts_with "red"': lambda row: row["t"] is not None and row["t"].startswith("red"),
    'not { $d l $z  search($z.t, "red") }': lambda row: (
        not any(has(BY_KEY[far], ex.TextMode.SEARCH, "red") for near, far in LINKS if near == row["k"])
    ),
}


def has(row: Row, mode: ex.TextMode, query: str) -> bool:
    return row["t"] is not None and matches(mode, row["t"], query, 0)


TEXT: Final = ex.ColumnRef("d", "t", STRING, nullable=True)
VECTOR: Final = ex.ColumnRef("d", "v", VectorType(3), nullable=True)
RED: Final = ex.Bm25(TEXT, ex.Literal("red fox", STRING))
NEAR: Final = ex.Nearest(VECTOR, ex.Literal((1.0, 0.5, 0.0), VectorType(3)))
OTHER: Final = ex.Nearest(VECTOR, ex.Literal((0.0, 0.0, 1.0), VectorType(3)))
RANKINGS: Final[dict[str, ex.Score]] = {
    'bm25($d.t, "red fox")': RED,
    "nearest($d.v, [1.0, 0.5, 0.0])": NEAR,
    'rrf(bm25($d.t, "red fox"), nearest($d.v, [1.0, 0.5, 0.0]))': ex.Rrf(RED, NEAR, 60),
    "rrf(nearest($d.v, [1.0, 0.5, 0.0]), nearest($d.v, [0.0, 0.0, 1.0]), k=2)": ex.Rrf(NEAR, OTHER, 2),
}
# If the score is not the first sort key, it only breaks ties, and rows without a score remain.
TAILS: Final = (
    "limit 3",
    "order { s } limit 99",
    "order { s asc } limit 99",
    "order { s desc } limit 2",
    "order { $d.n, s } limit 99",
    "order { $d.n, s asc } limit 99",
    "order { s asc }",
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return make_snapshot(
        tmp_path_factory.mktemp("ranked"),
        SCHEMA,
        {
            "node:D": DOCUMENTS,
            "node:A": AUTHORS,
            "edge:W": [{"src": near, "dst": far} for near, far in WROTE],
            "edge:L": [{"src": near, "dst": far} for near, far in LINKS],
        },
    )


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("shape", SHAPES)
def test_ranking_equals_brute_force(graph: Snapshot, shape: str, predicate: str) -> None:
    match, other, _ = SHAPES[shape]
    cache = Cache()
    for text, score in RANKINGS.items():
        for tail in TAILS:
            if "limit" not in tail and not isinstance(score, ex.Bm25):
                continue
            result = f"return {{ {other} as o, $d.k as k, $d.n as n, {text} as s }}"
            body = f"match {{ {match} {predicate} }} {result} {tail}"
            rows = ask(graph, body, EngineOptions(), cache=cache)
            assert shown(rows) == shown(brute_force(shape, predicate, score, tail)), body


def brute_force(shape: str, predicate: str, score: ex.Score, tail: str) -> list[tuple[Any, ...]]:
    pairs = [(end, row) for end, row in SHAPES[shape][2]() if is_matching(shape, predicate, row)]
    rows = [{f"d.{name}": cell for name, cell in (row | {"id": row["k"]}).items()} for _, row in pairs]
    scores = scored(score, rows, value, lambda _: TEXTS)
    results = [
        (1 if end is None else end, row["k"], row["n"], row_score)
        for (end, row), row_score in zip(pairs, scores, strict=True)
    ]
    descends = "desc" in tail or ("asc" not in tail and not isinstance(score, ex.Nearest))
    is_first = "$d.n" not in tail

    def compare(left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
        if not is_first and left[2] != right[2]:
            return -1 if left[2] is None or (right[2] is not None and left[2] < right[2]) else 1
        if left[3] != right[3]:
            if left[3] is None or right[3] is None:
                return 1 if left[3] is None else -1
            return -1 if (left[3] < right[3]) is not descends else 1
        ties = ((left[1] or "", str(left[0])), (right[1] or "", str(right[0])))
        # Ties are broken by the ids of the variables, in the order of the query text.
        if shape not in {"bound", "hops", "start"}:
            ties = (ties[0][::-1], ties[1][::-1])
        return (ties[0] > ties[1]) - (ties[0] < ties[1])

    results.sort(key=cmp_to_key(compare))
    if "limit" in tail:
        if is_first:
            results = [row for row in results if row[3] is not None]
        results = results[: int(tail.rpartition(" ")[2])]
    return results


def is_matching(shape: str, predicate: str, row: Row) -> bool:
    if row is NOTHING and predicate.startswith(("not search", "$d.n is null")):
        return predicate.startswith("$d.n is null")
    return PREDICATES[predicate](row)


def value(expr: ex.Expr, row: Row) -> Any:
    return expr.value if isinstance(expr, ex.Literal) else row[getattr(expr, "name")]  # noqa: B009


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*row[:3], None if row[3] is None else round(row[3], 9)) for row in rows]
