"""The path of a search, as a table: what is asked, the index, the size of the matching rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from omnigraph.base import limits
from omnigraph.query.plan.types import IndexFact
from omnigraph.query.rules.search_choice import (
    PredicateRequest,
    RankedRequest,
    SearchPath,
    candidate_count,
    choose_predicate,
    choose_ranked,
    probe_count,
)
from omnigraph.schema.property_types import IndexKind, TextOptions

LARGE = limits.SEARCH_EXACT_BYTES + 1
VECTOR = IndexFact("v", IndexKind.VECTOR, 1, 1_200, lance_type="IVF_RQ", segments=4)
TEXT = IndexFact("t", IndexKind.INVERTED, lance_type="Inverted")
FOLDED = TextOptions(ascii_folding=True)
PARTIAL = IndexFact("t", IndexKind.INVERTED, 1, 1_200, lance_type="Inverted")
OLD = IndexFact("v", IndexKind.VECTOR, lance_type="IVF_PQ", is_current=False)
INDEXED = "IVF_RQ on v, 4 segments, 1,200 rows uncovered, 200 candidates"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"count": 2_500}, None),
        ({"matching_bytes": LARGE - 1}, "below 64 MiB"),
        ({"matching_bytes": 0, "forced": SearchPath.INDEX}, None),
        ({"matching_bytes": limits.SEARCH_FILTERED_BYTES, "is_filtered": True}, "matching rows below 4 MiB"),
        ({"matching_bytes": limits.SEARCH_FILTERED_BYTES + 1, "is_filtered": True}, None),
        ({"kind": IndexKind.INVERTED, "index": TEXT, "matching_bytes": 1}, "below 64 MiB"),
        ({"kind": IndexKind.INVERTED, "index": TEXT, "matching_bytes": 1, "has_table_scores": True}, None),
        ({"kind": IndexKind.INVERTED, "index": PARTIAL}, None),
        ({"kind": IndexKind.INVERTED, "index": TEXT, "is_filtered": True}, None),
        ({"kind": IndexKind.INVERTED, "index": PARTIAL, "is_filtered": True}, None),
        ({"is_filtered": True}, None),
        ({"forced": SearchPath.EXACT}, "requested"),
        ({"is_exact": True}, "requested"),
        ({"index": None}, "no index"),
        ({"index": None, "vector_size": 6}, "length is not a multiple of 8"),
        ({"index": OLD}, "parameters differ"),
        ({"is_zero": True}, "zero vector"),
        ({"count": 2_501}, "limit above 2,500"),
        ({"is_filter_sql": False}, "filter is not SQL"),
        ({"is_exact": True, "index": None}, "requested"),
        ({"kind": IndexKind.INVERTED, "index": TEXT, "is_zero": True}, None),
        ({"kind": IndexKind.INVERTED, "index": None, "vector_size": 6}, "no index"),
    ],
)
def test_path_of_a_ranked_search(changes: dict[str, Any], reason: str | None) -> None:
    request: dict[str, Any] = {"kind": IndexKind.VECTOR, "index": VECTOR, "matching_bytes": LARGE, "count": 10}
    choice = choose_ranked(RankedRequest(**(request | changes)))
    assert (choice.path is SearchPath.INDEX) is (reason is None)
    assert reason is None or choice.reason == reason


def test_index_is_described() -> None:
    request = RankedRequest(kind=IndexKind.VECTOR, index=VECTOR, matching_bytes=LARGE, count=10)
    assert choose_ranked(request).reason == INDEXED
    text = PredicateRequest(index=TEXT, is_fuzzy=False, has_words=False)
    assert choose_predicate(text).reason == "Inverted on t, 1 segment, all rows covered"
    folded = replace(text, index=msgspec.structs.replace(TEXT, text=FOLDED), text=FOLDED)
    assert choose_predicate(folded).reason == "Inverted on t (ascii_folding=true), 1 segment, all rows covered"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"is_fuzzy": True}, None),
        ({"index": VECTOR}, None),
        ({"index": VECTOR, "is_fuzzy": True}, "rows uncovered"),
        ({"index": None}, "no index"),
        ({"index": OLD}, "parameters differ"),
        ({"text": FOLDED}, "parameters differ"),
        ({"text": FOLDED, "index": IndexFact("t", IndexKind.INVERTED, text=FOLDED)}, None),
        ({"can_split": False}, None),
        ({"can_split": False, "is_fuzzy": True}, "words differ in the index"),
        ({"has_words": True}, "words are cached"),
        ({"has_words": True, "forced": SearchPath.INDEX}, None),
        ({"forced": SearchPath.EXACT}, "requested"),
    ],
)
def test_path_of_a_predicate(changes: dict[str, Any], reason: str | None) -> None:
    request: dict[str, Any] = {"index": TEXT, "is_fuzzy": False, "has_words": False}
    choice = choose_predicate(PredicateRequest(**(request | changes)))
    assert (choice.path is SearchPath.INDEX) is (reason is None)
    assert reason is None or choice.reason == reason


@pytest.mark.parametrize(("count", "candidates"), [(1, 200), (20, 200), (21, 210), (1_000, 10_000), (2_500, 10_000)])
def test_candidates(count: int, candidates: int) -> None:
    assert candidate_count(count) == candidates


@pytest.mark.parametrize(
    ("rows", "matching", "probes"),
    [(0, 0, 64), (10, 10, 64), (1_000, 1_000, 64), (1_000, 500, 128), (1_000, 3, 4_096), (1_000, 0, 4_096)],
)
def test_probes(rows: int, matching: int, probes: int) -> None:
    assert probe_count(rows, matching) == probes
