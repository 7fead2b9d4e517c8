"""Scores of rows: cosine distances of vectors, and BM25 of texts with the statistics of their table.

In: columns of frames or arrays of tasks, a query, and for BM25 what `TextStatistics` counted over all rows of a table.
Out: one number per row, NaN without a score. The score of a row depends on the row and its table alone, never on the
other rows of a query, so rows can be scored in parts. Pure; the memory of a call is bounded by its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.arrow.columns import bool_mask
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Array, Codes, compact_codes
from omnigraph.engine.columns.frame import Column, DictionaryColumn
from omnigraph.schema.property_types import PLAIN_TEXT, TextOptions
from omnigraph.storage.lance.words import PLAIN_WORDS, WordCounts, WordRules, count_words

_K1: Final = 1.2
_B: Final = 0.75
_MATRIX_BYTES: Final = 4 * 1024**2
Scores = npt.NDArray[np.float64]
"""One number per row; NaN without a score."""


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """What BM25 needs to know about a text column: `texts_by_word` is the number of texts with each word of a query."""

    texts: int
    """The texts with at least one word."""
    words: int
    """The words in all texts."""
    texts_by_word: Mapping[str, int]

    def __add__(self, other: TextStatistics) -> TextStatistics:
        texts_by_word = {word: count + other.texts_by_word[word] for word, count in self.texts_by_word.items()}
        return TextStatistics(self.texts + other.texts, self.words + other.words, texts_by_word)


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The distinct words in a query, in order, how often the query repeats each, and the rules of the texts."""

    words: tuple[str, ...]
    repetitions: tuple[int, ...]
    rules: WordRules = PLAIN_WORDS

    @classmethod
    def of(cls, text: str, options: TextOptions = PLAIN_TEXT) -> WordQuery:
        rules = WordRules(options)
        counts = Counter(rules.split_query(text).to_pylist())
        return cls(tuple(str(word) for word in counts), tuple(counts.values()), rules)

    @property
    def array(self) -> Array:
        return pa.array(self.words, pa.utf8())

    def count(self, texts: Array) -> WordCounts:
        """Count the words in the query in texts."""
        return count_words(texts, self.array, self.rules)

    def no_texts(self) -> TextStatistics:
        """Return the statistics of an empty column."""
        return TextStatistics(0, 0, dict.fromkeys(self.words, 0))

    def statistics(self, counts: WordCounts) -> TextStatistics:
        """Return the statistics of counted texts."""
        texts_by_word = {word: len(texts) for word, (texts, _) in zip(self.words, counts.occurrences, strict=True)}
        return TextStatistics(int(np.count_nonzero(counts.lengths)), int(counts.lengths.sum()), texts_by_word)


def bm25_of_counts(counts: WordCounts, query: WordQuery, statistics: TextStatistics) -> Scores:
    """Return the BM25 score of each counted text; NaN if it contains no word of the query."""
    scores = np.zeros(len(counts.lengths))
    mean = statistics.words / max(statistics.texts, 1)
    for word, repetitions, (texts, frequency) in zip(query.words, query.repetitions, counts.occurrences, strict=True):
        with_word = statistics.texts_by_word[word]
        weight = repetitions * np.log(1 + (statistics.texts - with_word + 0.5) / (with_word + 0.5))
        norm = _K1 * (1 - _B + _B * counts.lengths[texts] / mean)
        scores[texts] += weight * frequency * (_K1 + 1) / (frequency + norm)
    scores[scores == 0] = np.nan  # a matching word always adds more than 0
    return scores


def bm25_of_texts(column: Column, query: WordQuery, statistics: TextStatistics) -> Scores:
    """Return the BM25 scores of a column; a text that occurs in several rows is split once."""

    def score(texts: Array) -> Scores:
        return bm25_of_counts(query.count(texts), query, statistics)

    return _score_values(column, score, limits.ENGINE_FRAME_BYTES)


def distances(column: Column, vector: Scores) -> Scores:
    """Return the cosine distances of a column of vectors to a vector; the distance of a zero vector is 1."""

    def score(vectors: Array) -> Scores:
        result = np.full(len(vectors), np.nan)
        present: Any = vectors.drop_null() if vectors.null_count else vectors
        matrix = present.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(vector)).astype(np.float64)
        values = _cosine_distances(matrix, vector)
        if not vectors.null_count:
            return values
        result[bool_mask(vectors.is_valid())] = values
        return result

    return _score_values(column, score, _MATRIX_BYTES)


def _score_values(column: Column, score: Any, part_bytes: int) -> Scores:
    """Score the distinct values of a column in parts of about this size."""
    if isinstance(column, DictionaryColumn):
        used, positions = compact_codes(column.codes, len(column.dictionary))
        values = column.dictionary.array
    else:
        used, positions, values = np.arange(len(column)), None, column
    scores = np.full(len(used) + 1, np.nan)
    start = 0
    for part in _parts(values, used, part_bytes):
        scores[start : start + len(part)] = score(part)
        start += len(part)
    return scores[:-1] if positions is None else scores[positions]


def _parts(values: Array, rows: Codes, part_bytes: int) -> Iterator[Array]:
    """Yield the values of these ascending rows; adjacent rows are not copied."""
    step = max(1, part_bytes * len(values) // max(int(values.nbytes), 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        is_adjacent = int(part[-1] - part[0]) == len(part) - 1
        yield values.slice(int(part[0]), len(part)) if is_adjacent else values.take(pa.array(part))


def _cosine_distances(matrix: Scores, vector: Scores) -> Scores:
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * np.sqrt(vector @ vector)
    cosines = np.ones(len(matrix))
    # Not `@`: its threads wait for each other on a busy machine.
    np.divide(np.einsum("ij,j->i", matrix, vector), lengths, out=cosines, where=lengths > 0)
    return np.where(lengths > 0, 1.0 - cosines, 1.0)
