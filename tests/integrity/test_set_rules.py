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
    changed_sources,
    check_cardinality,
    check_duplicate_ids,
    check_endpoints,
    check_existing_keys,
    check_new_ids,
    check_repeated_keys,
    repeated_rows,
    unique_keys,
)
from omnigraph.schema.catalog import Cardinality, EdgeType, NodeType
from omnigraph.schema.tables import arrow_schema
from tests.integrity.memory_graph import MemoryGraph, Row
from tests.integrity.reference import counts_after, repeated
from tests.integrity.samples import CATALOG, edge, node, summarize, texts

_keys = st.none() | st.sampled_from(["", "a", "b", "c", "é", "a\x00", "\x00"])


def test_later_row_with_the_same_id_is_the_duplicate() -> None:
    assert summarize(check_duplicate_ids(texts(["a", None, "b", "a", None, "a"]))) == [
        ("duplicate_id", "id", [3, 5], ["a", "a"])
    ]
    assert check_duplicate_ids(texts(["a", "b", None, None])) == ()
    assert check_duplicate_ids(texts([])) == ()


@given(st.lists(_keys, max_size=30), st.integers(0, 3))
@settings(max_examples=200)
def test_repeated_rows_agree_with_the_reference(keys: list[str | None], skipped: int) -> None:
    later, earlier = repeated_rows(texts(keys)[skipped:])
    assert later.tolist() == repeated(keys[skipped:])
    assert earlier.tolist() == [keys[skipped:].index(keys[skipped + row]) for row in later.tolist()]


@given(st.lists(_keys, max_size=30), st.integers(1, 4))
@settings(max_examples=200)
def test_buckets_give_the_result_of_the_whole_input(keys: list[str | None], buckets: int) -> None:
    column = texts(keys)
    bucket = bucket_of(column, buckets)
    repeated_in_buckets: list[int] = []
    for number in range(buckets):
        rows = np.flatnonzero(bucket == number)
        repeated_in_buckets.extend(rows[repeated_rows(column.take(pa.array(rows)))[0]].tolist())
    assert sorted(repeated_in_buckets) == repeated_rows(column)[0].tolist()


def test_id_of_the_graph_is_a_conflict() -> None:
    assert summarize(check_new_ids("node:P", texts(["a", "b"]), pa.array([False, True]))) == [
        ("key_conflict", "id", [1], ["b"])
    ]


def test_missing_endpoint_is_dangling_but_a_null_one_is_not() -> None:
    exists = pa.array([True, False, None, None], pa.bool_())
    violations = check_endpoints(texts(["a", "b", None, "c"]), exists, "to", "Person")
    assert summarize(violations) == [("dangling_end", "to", [1, 3], ["b", "c"])]


def test_unique_values_with_a_null_member_never_conflict() -> None:
    keys = unique_keys([texts(["a", "a", "a", "a"]), pa.array([1, None, None, 1], pa.int32())])
    assert summarize(check_repeated_keys(keys, ("x", "y"))) == [("unique", "x, y", [3], ['["a","1"]'])]


def test_zeros_of_both_signs_are_one_value() -> None:
    assert repeated_rows(unique_keys([pa.array([0.0, -0.0])]))[0].tolist() == [1]


def test_different_keys_have_different_composite_texts() -> None:
    keys = unique_keys([texts(['a","b', "a"]), texts(["c", 'b","c'])])
    assert check_repeated_keys(keys, ("x", "y")) == ()


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
def test_values_of_a_replaced_row_are_free(holder: str | None, replaced: list[str | None], collides: bool) -> None:
    violations = check_existing_keys(texts(["k"]), texts([holder]), texts(replaced), ("email",))
    assert summarize(violations) == ([("unique", "email", [0], ["k"])] if collides else [])


@pytest.mark.parametrize(
    ("added", "removed", "before", "expected"),
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
def test_cardinality(added: list[str | None], removed: list[str], before: dict[str, int], expected: Any) -> None:
    violations = _cardinality(Cardinality(1, 2), added, removed, before)
    assert summarize(violations) == expected
    texts_by_rule = {Rule.CARDINALITY_MAX: "more than 2 edges", Rule.CARDINALITY_MIN: "fewer than 1 edge"}
    assert all(group.message == f"has {texts_by_rule[group.rule]} of this type" for group in violations)


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
    violations = _cardinality(Cardinality(low, high), added, removed, before)
    actual = {(group.rule.word, source) for group in violations for source in group.shown_values()}
    assert actual == {
        *(("cardinality_min", source) for source, count in after.items() if count < low),
        *(("cardinality_max", source) for source, count in after.items() if high is not None and count > high),
    }
    for group in violations:
        for row, source in zip(group.rows.tolist(), group.shown_values(), strict=True):
            last = max((row_number for row_number, name in enumerate(added) if name == source), default=NO_ROW)
            assert row == last


def _cardinality(cardinality: Cardinality, added: list[str | None], removed: list[str], before: dict[str, int]) -> Any:
    sources = changed_sources(texts(added), texts(removed))
    counts = pa.array([before.get(source or "", 0) for source in sources.to_pylist()], pa.int64())
    return check_cardinality(cardinality, texts(added), texts(removed), SourceCounts(sources, counts))


PERSON, NOTE, KNOWS, FOLLOWS = node("Person"), node("Note"), edge("Knows"), edge("Follows")


def change(
    entity: NodeType | EdgeType, rows: Sequence[Row], mode: ChangeMode = ChangeMode.UPSERT, removed: Sequence[str] = ()
) -> TypeChange:
    build: Any = pa.Table.from_pylist
    return TypeChange(entity, build(list(rows), schema=arrow_schema(entity)), mode, texts(removed))


def person(identity: str, **values: object) -> dict[str, object]:
    return {"id": identity, "slug": identity, "status": "active", "level": 1, **values}


GRAPH = MemoryGraph(
    {
        PERSON.id: {"ada": person("ada", email="a@x"), "bob": person("bob", email="b@x"), "eve": person("eve")},
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
        "a value of a row that conflicts with another one",
        [change(PERSON, [person("cy", email="a@x"), person("ada")], INSERT)],
        [[("key_conflict", "id", [1], ["ada"]), ("unique", "email", [0], ["a@x"])]],
    ),
    ("and upserted with its old values", [change(PERSON, [person("ada", email="a@x")])], [[]]),
    (
        "a value of an unchanged row",
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
        "an edge to a missing node",
        [change(FOLLOWS, [knows("f", "zoe", "bob"), knows("g", "ada", "yan")])],
        [[("dangling_end", "from", [0], ["zoe"]), ("dangling_end", "to", [1], ["yan"])]],
    ),
    (
        "an edge to a removed node",
        [change(FOLLOWS, [knows("f", "ada", "eve")]), change(PERSON, [], removed=["eve"])],
        [[("dangling_end", "to", [0], ["eve"])], []],
    ),
    (
        "an edge to a node that overwriting drops",
        [change(FOLLOWS, [knows("f", "ada", "bob")]), change(PERSON, [person("ada")], OVERWRITE)],
        [[("dangling_end", "to", [0], ["bob"])], []],
    ),
    ("one edge too many", [change(KNOWS, [knows("k9", "ada", "eve")])], [[("cardinality_max", "from", [0], ["ada"])]]),
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
    ("with its source", [change(KNOWS, [], removed=["k3"]), change(PERSON, [], removed=["bob"])], [[], []]),
    ("overwritten edges count from nothing", [change(KNOWS, [knows("n", "ada", "bob")], OVERWRITE)], [[]]),
]


@pytest.mark.parametrize(("changes", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_change_against_a_graph(changes: list[TypeChange], expected: list[list[Any]]) -> None:
    assert [summarize(violations) for violations in check_change(CATALOG, changes, GRAPH)] == expected


def test_only_needed_lookups_are_made() -> None:
    graph = MemoryGraph({})
    assert check_change(CATALOG, [change(NOTE, [{"id": "n"}])], graph) == [()]
    assert check_change(CATALOG, [change(KNOWS, [])], graph) == [()]
    assert graph.asked == []


def test_the_first_change_of_a_graph_needs_no_graph() -> None:
    changes = [change(PERSON, [person("ada")], INSERT), change(KNOWS, [knows("k", "ada", "ada")], INSERT)]
    assert check_change(CATALOG, changes, EmptyGraph()) == [(), ()]
