"""The rules over sets: tables of cases, agreement with the reference, and whole changes against a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.arrow.hashing import bucket_of
from omnigraph.integrity.check import ChangeMode, EmptyGraph, TypeChange, check_change
from omnigraph.integrity.rules import NO_ROW, Rule
from omnigraph.integrity.set_rules import (
    SourceCounts,
    cardinality_breaches,
    changed_sources,
    dangling_ends,
    duplicate_ids,
    repeated_keys,
    repeated_rows,
    taken_ids,
    taken_keys,
    unique_keys,
)
from omnigraph.schema.catalog import Cardinality, EdgeType, NodeType
from omnigraph.schema.tables import arrow_schema
from tests.integrity.memory_graph import MemoryGraph, Row
from tests.integrity.reference import counts_after, repeated
from tests.integrity.samples import CATALOG, edge, node, texts, told

_keys = st.none() | st.sampled_from(["", "a", "b", "c", "é", "a\x00", "\x00"])


def test_a_later_row_with_an_id_is_the_duplicate() -> None:
    assert told(duplicate_ids(texts(["a", None, "b", "a", None, "a"]))) == [
        ("duplicate_id", "id", [3, 5], ["a", "a"])
    ]
    assert duplicate_ids(texts(["a", "b", None, None])) == ()
    assert duplicate_ids(texts([])) == ()


@given(st.lists(_keys, max_size=30), st.integers(0, 3))
@settings(max_examples=200)
def test_repeated_rows_agree_with_the_reference(keys: list[str | None], skipped: int) -> None:
    assert repeated_rows(texts(keys)[skipped:]).tolist() == repeated(keys[skipped:])


@given(st.lists(_keys, max_size=30), st.integers(1, 4))
@settings(max_examples=200)
def test_buckets_find_what_the_whole_finds(keys: list[str | None], buckets: int) -> None:
    column = texts(keys)
    bucket = bucket_of(column, buckets)
    found: list[int] = []
    for number in range(buckets):
        rows = np.flatnonzero(bucket == number)
        found.extend(rows[repeated_rows(column.take(pa.array(rows)))].tolist())
    assert sorted(found) == repeated_rows(column).tolist()


def test_an_id_of_the_graph_is_taken() -> None:
    assert told(taken_ids("node:P", texts(["a", "b"]), pa.array([False, True]))) == [
        ("key_conflict", "id", [1], ["b"])
    ]


def test_an_end_that_is_nowhere_dangles_and_a_refused_one_does_not() -> None:
    known = pa.array([True, False, None, None], pa.bool_())
    found = dangling_ends(texts(["a", "b", None, "c"]), known, "to", "Person")
    assert told(found) == [("dangling_end", "to", [1, 3], ["b", "c"])]


def test_unique_values_with_a_null_member_never_collide() -> None:
    keys = unique_keys([texts(["a", "a", "a", "a"]), pa.array([1, None, None, 1], pa.int32())])
    assert told(repeated_keys(keys, ("x", "y"))) == [("unique", "x, y", [3], ['["a","1"]'])]


def test_zeros_of_both_signs_are_one_value() -> None:
    assert repeated_rows(unique_keys([pa.array([0.0, -0.0])])).tolist() == [1]


def test_a_joined_text_is_not_taken_for_another() -> None:
    keys = unique_keys([texts(['a","b', "a"]), texts(["c", 'b","c'])])
    assert repeated_keys(keys, ("x", "y")) == ()


@pytest.mark.parametrize(
    ("holder", "replaced", "collides"),
    [
        (None, [], False),
        ("other", [], True),
        ("other", ["me"], True),
        ("me", ["me"], False),
        ("other", ["me", "other"], False),
        ("other", [None], True),
    ],
)
def test_a_row_that_is_replaced_gives_its_values_free(
    holder: str | None, replaced: list[str | None], collides: bool
) -> None:
    found = taken_keys(texts(["k"]), texts([holder]), texts(replaced), ("email",))
    assert told(found) == ([("unique", "email", [0], ["k"])] if collides else [])


@pytest.mark.parametrize(
    ("added", "removed", "before", "wanted"),
    [
        (["a"], [], {}, []),
        (["a", "a", "a"], [], {}, [("cardinality_max", "from", [2], ["a"])]),
        (["a"], [], {"a": 2}, [("cardinality_max", "from", [0], ["a"])]),
        (["a"], ["a"], {"a": 2}, []),
        ([], ["a"], {"a": 1}, [("cardinality_min", "from", [NO_ROW], ["a"])]),
        (["b"], ["a"], {"a": 1, "b": 1}, [("cardinality_min", "from", [NO_ROW], ["a"])]),
        ([None, "a"], [], {"a": 0}, []),
    ],
)
def test_cardinality(
    added: list[str | None], removed: list[str], before: dict[str, int], wanted: Any
) -> None:
    found = _cardinality(Cardinality(1, 2), added, removed, before)
    assert told(found) == wanted
    words = {Rule.CARDINALITY_MAX: "more than 2 edges", Rule.CARDINALITY_MIN: "fewer than 1 edge"}
    assert all(breach.message == f"has {words[breach.rule]} of this type" for breach in found)


_sources = st.sampled_from("abcd")


@given(
    st.lists(st.none() | _sources, max_size=12),
    st.lists(_sources, max_size=6),
    st.dictionaries(_sources, st.integers(0, 5)),
    st.integers(0, 3),
    st.none() | st.integers(0, 5),
)
@settings(max_examples=200)
def test_cardinality_agrees_with_the_reference(
    added: list[str | None], removed: list[str], before: dict[str, int], low: int, high: int | None
) -> None:
    after = counts_after(before, added, removed)
    breaches = _cardinality(Cardinality(low, high), added, removed, before)
    found = {(one.rule.word, source) for one in breaches for source in one.shown_values()}
    assert found == {
        *(("cardinality_min", source) for source, count in after.items() if count < low),
        *(
            ("cardinality_max", source)
            for source, count in after.items()
            if high is not None and count > high
        ),
    }
    for one in breaches:
        for row, source in zip(one.rows.tolist(), one.shown_values(), strict=True):
            last = max((at for at, name in enumerate(added) if name == source), default=NO_ROW)
            assert row == last


def _cardinality(
    cardinality: Cardinality, added: list[str | None], removed: list[str], before: dict[str, int]
) -> Any:
    sources = changed_sources(texts(added), texts(removed))
    counts = pa.array([before.get(source or "", 0) for source in sources.to_pylist()], pa.int64())
    return cardinality_breaches(cardinality, texts(added), texts(removed), SourceCounts(sources, counts))


PERSON, NOTE, KNOWS, FOLLOWS = node("Person"), node("Note"), edge("Knows"), edge("Follows")


def change(
    entity: NodeType | EdgeType,
    rows: Sequence[Row],
    mode: ChangeMode = ChangeMode.UPSERT,
    removed: Sequence[str] = (),
) -> TypeChange:
    build: Any = pa.Table.from_pylist
    return TypeChange(entity, build(list(rows), schema=arrow_schema(entity)), mode, texts(removed))


def person(identity: str, **values: object) -> dict[str, object]:
    return {"id": identity, "slug": identity, "status": "active", "level": 1, **values}


GRAPH = MemoryGraph(
    {
        PERSON.id: {
            "ada": person("ada", email="a@x"),
            "bob": person("bob", email="b@x"),
            "eve": person("eve"),
        },
        KNOWS.id: {
            "k1": {"src": "ada", "dst": "bob"},
            "k2": {"src": "ada", "dst": "eve"},
            "k3": {"src": "bob", "dst": "ada"},
        },
    }
)


def knows(identity: str, src: str, dst: str) -> Row:
    return {"id": identity, "src": src, "dst": dst}


INSERT, UPSERT, OVERWRITE = ChangeMode.INSERT, ChangeMode.UPSERT, ChangeMode.OVERWRITE
CASES: list[tuple[str, list[TypeChange], list[list[Any]]]] = [
    ("a new person", [change(PERSON, [person("cy", email="c@x")], INSERT)], [[]]),
    (
        "an existing person is inserted",
        [change(PERSON, [person("ada", email="a@x")], INSERT)],
        [[("key_conflict", "id", [0], ["ada"]), ("unique", "email", [0], ["a@x"])]],
    ),
    (
        "a value of a row that is in the way of another one",
        [change(PERSON, [person("cy", email="a@x"), person("ada")], INSERT)],
        [[("key_conflict", "id", [1], ["ada"]), ("unique", "email", [0], ["a@x"])]],
    ),
    ("and upserted with its old values", [change(PERSON, [person("ada", email="a@x")])], [[]]),
    (
        "a value of a row that stays",
        [change(PERSON, [person("ada", email="b@x")])],
        [[("unique", "email", [0], ["b@x"])]],
    ),
    ("two rows swap", [change(PERSON, [person("ada", email="b@x"), person("bob", email="a@x")])], [[]]),
    ("the holder is removed", [change(PERSON, [person("cy", email="b@x")], removed=["bob"])], [[]]),
    ("overwriting frees everything", [change(PERSON, [person("ada", email="b@x")], OVERWRITE)], [[]]),
    (
        "two new rows collide",
        [change(PERSON, [person("x", email="n@x"), person("y", email="n@x")])],
        [[("unique", "email", [1], ["n@x"])]],
    ),
    ("an edge between nodes of the graph", [change(FOLLOWS, [knows("f", "ada", "bob")])], [[]]),
    (
        "an edge to a new node, in either order",
        [change(FOLLOWS, [knows("f", "cy", "bob")]), change(PERSON, [person("cy")])],
        [[], []],
    ),
    (
        "an edge to nobody",
        [change(FOLLOWS, [knows("f", "zoe", "bob"), knows("g", "ada", "yan")])],
        [[("dangling_end", "from", [0], ["zoe"]), ("dangling_end", "to", [1], ["yan"])]],
    ),
    (
        "an edge to a node that goes",
        [change(FOLLOWS, [knows("f", "ada", "eve")]), change(PERSON, [], removed=["eve"])],
        [[("dangling_end", "to", [0], ["eve"])], []],
    ),
    (
        "an edge to a node that overwriting drops",
        [change(FOLLOWS, [knows("f", "ada", "bob")]), change(PERSON, [person("ada")], OVERWRITE)],
        [[("dangling_end", "to", [0], ["bob"])], []],
    ),
    (
        "one edge too many",
        [change(KNOWS, [knows("k9", "ada", "eve")])],
        [[("cardinality_max", "from", [0], ["ada"])]],
    ),
    ("an edge replaced", [change(KNOWS, [knows("k1", "ada", "eve")])], [[]]),
    (
        "an edge that moves to another source",
        [change(KNOWS, [knows("k3", "eve", "ada")])],
        [[("cardinality_min", "from", [NO_ROW], ["bob"])]],
    ),
    (
        "the last edge is removed",
        [change(KNOWS, [], removed=["k3"])],
        [[("cardinality_min", "from", [NO_ROW], ["bob"])]],
    ),
    (
        "with its source",
        [change(KNOWS, [], removed=["k3"]), change(PERSON, [], removed=["bob"])],
        [[], []],
    ),
    ("overwritten edges count from nothing", [change(KNOWS, [knows("n", "ada", "bob")], OVERWRITE)], [[]]),
]


@pytest.mark.parametrize(("changes", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_change_against_a_graph(changes: list[TypeChange], wanted: list[list[Any]]) -> None:
    assert [told(found) for found in check_change(CATALOG, changes, GRAPH)] == wanted


def test_nothing_is_asked_that_no_rule_needs() -> None:
    graph = MemoryGraph({})
    assert check_change(CATALOG, [change(NOTE, [{"id": "n"}])], graph) == [()]
    assert check_change(CATALOG, [change(KNOWS, [])], graph) == [()]
    assert graph.asked == []


def test_the_first_change_of_a_graph_needs_no_graph() -> None:
    changes = [change(PERSON, [person("ada")], INSERT), change(KNOWS, [knows("k", "ada", "ada")], INSERT)]
    assert check_change(CATALOG, changes, EmptyGraph()) == [(), ()]
