"""Adds scores to rows: distances of vectors (`nearest`), BM25 of texts, and the fusion of two rankings (`rrf`).

In: frames after all filters. Out: the same frames with a column per score, one after another, so that a ranked search
holds only its best rows. BM25 needs statistics of the whole table: from the cached words in a column, or else from one
pass over the column, cached for the version. `rrf` reads its rows twice: the first pass ranks them. `nearest` is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from omnigraph.arrow.columns import array_with_nulls
from omnigraph.arrow.words import count_words
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame
from omnigraph.engine.columns.scores import Scores, TextStatistics, WordQuery, bm25_of_counts, bm25_of_texts, distances
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.rank import BestEntities, fuse_ranks
from omnigraph.engine.tables import TableReader
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.walk import entities_of

Scorer = Callable[[Frame], Scores]


def score_rows(operator: op.Search, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows with their scores, frame by frame."""
    names = {score_column.name for score_column in operator.scores}
    refs = [ref for score_column in operator.scores for ref in columns_of(score_column.expression)]
    reads = {ref.name for ref in refs} | {f"{ref.entity}.id" for ref in refs}
    scorers = {column.name: make_scorer(column.expression, operator, context) for column in operator.scores}
    for frame in context.with_limit(False).run_operator(operator.input, (needed - names) | reads):
        columns: dict[str, Column] = {}
        for name, scorer in scorers.items():
            scores = scorer(frame)
            columns[name] = array_with_nulls(scores, np.isnan(scores))
        yield frame.with_columns(columns)


def make_scorer(score: ex.Score, operator: op.Search, context: ExecutionContext) -> Scorer:
    """Return the function that scores the rows of a frame of the search."""
    match score:
        case ex.Nearest(column, query, embed):
            assert not embed, "texts were replaced by vectors before the run"
            assert isinstance(query, ex.Literal), "the plan is bound"
            vector = np.asarray(query.value, dtype=np.float64)
            return lambda frame: distances(frame.columns[column.name], vector)
        case ex.Bm25():
            return _TextScorer(score, operator, context)
        case ex.Rrf(first, second, k):
            best = [_best_entities(ranking, operator, context) for ranking in (first, second)]
            keys = [f"{ranking.column.entity}.id" for ranking in (first, second)]
            return lambda frame: fuse_ranks(
                [ranked.ranks(frame.columns[key]) for ranked, key in zip(best, keys, strict=True)], k
            )


def _best_entities(score: ex.Nearest | ex.Bm25, operator: op.Search, context: ExecutionContext) -> BestEntities:
    """Read all rows of a search and rank their entities by a score."""
    key = f"{score.column.entity}.id"
    best = BestEntities(limits.SEARCH_RRF_RANKS, descending=isinstance(score, ex.Bm25))
    scorer = make_scorer(score, operator, context)
    first_pass = replace(context.with_limit(False), trace=None)
    for frame in first_pass.run_operator(operator.input, frozenset({score.column.name, key})):
        best.add(frame.columns[key], scorer(frame))
    return best


class _TextScorer:
    """Scores frames by BM25. The statistics are read with the first frame, cached words are scored once."""

    def __init__(self, score: ex.Bm25, operator: op.Search, context: ExecutionContext) -> None:
        assert isinstance(score.query, ex.Literal), "the plan is bound"
        self._column = score.column
        self._query = WordQuery.of(str(score.query.value))
        self._budget = context.budget
        entities = {entity.name: entity for entity in entities_of(operator.input)}
        self._reader = context.reader(entities[score.column.entity].table)
        self._statistics: TextStatistics | None = None
        self._dictionary: ValueDictionary | None = None
        self._scores: Scores = np.zeros(0)

    def __call__(self, frame: Frame) -> Scores:
        if not self._query.words:
            return np.full(frame.length, np.nan)
        if self._statistics is None:
            self._statistics = text_statistics(self._reader, self._column.column, self._query, self._budget)
        column = frame.columns[self._column.name]
        if not isinstance(column, DictionaryColumn) or not has_cached_words(column.dictionary, self._budget):
            return bm25_of_texts(column, self._query, self._statistics)
        if column.dictionary is not self._dictionary:
            self._dictionary = column.dictionary
            counts = column.dictionary.text_index().count_words(self._query.array)
            self._scores = np.append(bm25_of_counts(counts, self._query, self._statistics), np.nan)
        scores: Scores = self._scores[column.codes]
        return scores


def text_statistics(reader: TableReader, column: str, query: WordQuery, budget: Budget) -> TextStatistics:
    """Return the statistics of all rows of a table for the words in a query."""
    cached = reader.cached_columns((column,), whole=True)
    if cached is not None and has_cached_words(cached[column], budget):
        return query.statistics(cached[column].text_index().count_words(query.array))
    return reader.cached_statistics(
        column, query.words, lambda words: _count_column(reader, column, WordQuery(words, (1,) * len(words)))
    )


def _count_column(reader: TableReader, column: str, query: WordQuery) -> TextStatistics:
    statistics = query.no_texts()
    for batch in reader.read_batches((column,), None):
        statistics += query.statistics(count_words(batch.column(column), query.array))
    return statistics


def has_cached_words(dictionary: ValueDictionary, budget: Budget) -> bool:
    """Return whether the words in a dictionary are cached, or may be: it belongs to the cache and is small."""
    if dictionary.has_words:
        return True
    size = int(dictionary.array.nbytes)
    is_small = size <= limits.ENGINE_WORDS_BYTES_MAX and budget.has_bytes(limits.ENGINE_WORDS_FACTOR * size)
    return is_small and not dictionary.is_own
