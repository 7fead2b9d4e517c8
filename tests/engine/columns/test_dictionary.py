"""Positions of texts in a dictionary, and the neighbours of an adjacency, compared with plain Python."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.traversal.adjacency import build_adjacency
from omnigraph.query.plan.operators import Direction

_texts = st.text("abé\x00", max_size=3)
_unique_texts = st.lists(_texts, unique=True, max_size=60)


def _dictionary(values: list[str]) -> ValueDictionary:
    return ValueDictionary(pa.array(values, pa.utf8()), is_unique=True)


@given(_unique_texts, st.lists(st.none() | _texts, max_size=60))
def test_find_returns_the_position_of_each_text(values: list[str], texts: list[str | None]) -> None:
    positions = {value: position for position, value in enumerate(values)}
    expected = [-1 if text is None else positions.get(text, -1) for text in texts]
    dictionary = _dictionary(values)
    assert dictionary.find(pa.array(texts, pa.utf8())).tolist() == expected
    # A few texts are found in another way than many.
    one_by_one = [int(dictionary.find(pa.array([text], pa.utf8()))[0]) for text in texts]
    assert one_by_one == expected


@given(_unique_texts, _unique_texts)
def test_translation_back_is_the_inverse(left: list[str], right: list[str]) -> None:
    first, second = _dictionary(left), _dictionary(right)
    assert first.translate(second).tolist() == second.find(first.array).tolist()
    assert second.translate(first).tolist() == _dictionary(left).find(second.array).tolist()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=30))
def test_degrees_count_distinct_neighbours(edges: list[tuple[str, str]]) -> None:
    sources, targets = (pa.array([edge[end] for edge in edges], pa.utf8()) for end in (0, 1))
    adjacency = build_adjacency(sources, targets, same_type=True)
    names = adjacency.sources.array.to_pylist()
    for direction in Direction:
        pairs = set(edges) if direction is not Direction.IN else {(target, source) for source, target in edges}
        if direction is Direction.BOTH:
            pairs |= {(target, source) for source, target in edges}
        degrees = [sum(near == name for near, _ in pairs) for name in names]
        assert adjacency.degrees(direction).tolist() == degrees
        neighbours = adjacency.neighbours(direction)
        assert neighbours.degrees.tolist() == degrees
        far = [names[code] for code in neighbours.far.tolist()]
        assert sorted(zip([name for name in names for _ in range(degrees[names.index(name)])], far, strict=True)) == (
            sorted(pairs)
        )
