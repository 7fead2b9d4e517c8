"""BM25 in parts and from cached words is the same; statistics of parts add up; distances of parts and of nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.columns.frame import DictionaryColumn
from omnigraph.engine.columns.scores import WordQuery, bm25_of_counts, bm25_of_texts, distances
from omnigraph.engine.columns.text_index import TextIndex
from omnigraph.schema.property_types import PLAIN_TEXT
from omnigraph.storage.lance.words import count_words

TEXTS = pa.array(["red fox", None, "red red hen", "blue fox", "", "green", "Red, blue", "--"])


def test_statistics_count_texts_with_a_word() -> None:
    query = WordQuery.of("red hen red zebra")
    statistics = query.statistics(count_words(TEXTS, query.array))
    assert (statistics.texts, statistics.words) == (5, 10)
    assert statistics.texts_by_word == {"red": 3, "hen": 1, "zebra": 0}
    parts = (query.statistics(count_words(part, query.array)) for part in (TEXTS.slice(0, 3), TEXTS.slice(3)))
    assert sum(parts, query.no_texts()) == statistics


@pytest.mark.parametrize("text", ["red", "red red", "hen fox", "zebra", "green blue"])
def test_bm25_is_the_same_in_parts_and_from_an_index(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = WordQuery.of(text)
    index = TextIndex(TEXTS, PLAIN_TEXT)
    counts = index.count_words(query.array)
    statistics = query.statistics(counts)
    expected = bm25_of_counts(counts, query, statistics)
    monkeypatch.setattr(limits, "ENGINE_FRAME_BYTES", 1)
    np.testing.assert_array_equal(bm25_of_texts(TEXTS, query, statistics), expected)
    codes = np.array([3, -1, 0, 0, 5])
    column = DictionaryColumn(codes, ValueDictionary(TEXTS, is_per_query=True))
    np.testing.assert_array_equal(bm25_of_texts(column, query, statistics), np.append(expected, np.nan)[codes])


def test_a_repeated_word_counts_twice() -> None:
    scores = []
    for text in ("red", "red red"):
        query = WordQuery.of(text)
        counts = count_words(TEXTS, query.array)
        scores.append(bm25_of_counts(counts, query, query.statistics(counts)))
    np.testing.assert_allclose(scores[1], 2 * scores[0])


def test_distances() -> None:
    vectors = pa.array([[1, 0], None, [0, 2], [0, 0], [-3, 0]], pa.list_(pa.float32(), 2))
    expected = np.array([0.0, np.nan, 1.0, 1.0, 2.0])
    np.testing.assert_allclose(distances(vectors, np.array([2.0, 0.0])), expected)
    codes = np.array([4, -1, 4, 0, 1])
    column = DictionaryColumn(codes, ValueDictionary(vectors))
    np.testing.assert_allclose(distances(column, np.array([2.0, 0.0])), np.append(expected, np.nan)[codes])
    np.testing.assert_array_equal(distances(vectors.slice(0, 1), np.zeros(2)), [1.0])
