"""Scores on Spark, computed exactly by the functions of the engine.

In: rows and the scores of a bound plan. Out: columns that executors compute over Arrow batches. BM25 first runs a job
that counts words over the whole table; `rrf` first runs a job for each list, and each partition sends its best rows.
No index is used. Texts of `nearest` were replaced by vectors before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.arrow.columns import Column as ArrowColumn
from omnigraph.arrow.columns import array_with_nulls, plain_array
from omnigraph.base import limits
from omnigraph.engine.columns.scores import Scores, TextStatistics, WordQuery, bm25_of_texts, distances
from omnigraph.engine.operators.rank import BestEntities, fuse_ranks
from omnigraph.pipeline.query.columns import call_arrow, plan_column, spark_name
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op

_COUNTS: Final = "texts bigint, words bigint, texts_by_word array<bigint>"
_SCORE: Final = "score"
_ID: Final = "id"


def score_rows(rows: DataFrame, search: op.Search, tables: dict[str, DataFrame]) -> DataFrame:
    """Return the rows with their scores; `tables` has all texts of each column with a BM25 score, by its name."""
    columns = {column.name: _score_column(column.expression, rows, tables) for column in search.scores}
    return rows.select("*", *(column.alias(spark_name(name)) for name, column in columns.items()))


def _score_column(score: ex.Score, rows: DataFrame, tables: dict[str, DataFrame]) -> Column:
    match score:
        case ex.Nearest(column, query):
            assert isinstance(query, ex.Literal), "the plan is bound"
            vector = np.asarray(query.value, dtype=np.float64)

            def measure(vectors: pa.Array) -> pa.Array:  # type: ignore[type-arg]
                return _score_array(distances(vectors, vector))

            return call_arrow(measure, "double", column.name)
        case ex.Bm25(column, query):
            assert isinstance(query, ex.Literal), "the plan is bound"
            words = WordQuery.of(str(query.value), column.text)
            statistics = _count_table(tables[column.name], words)

            def weigh(texts: pa.Array) -> pa.Array:  # type: ignore[type-arg]
                return _score_array(bm25_of_texts(plain_array(texts), words, statistics))

            return call_arrow(weigh, "double", column.name)
        case ex.Rrf(first, second, k):
            best = [_best_entities(ranking, rows, tables) for ranking in (first, second)]

            def fuse(first_ids: pa.Array, second_ids: pa.Array) -> pa.Array:  # type: ignore[type-arg]
                ids = (plain_array(first_ids), plain_array(second_ids))
                return _score_array(fuse_ranks([part.ranks(array) for part, array in zip(best, ids, strict=True)], k))

            return call_arrow(fuse, "double", *(f"{ranking.column.entity}.id" for ranking in (first, second)))


def _count_table(texts: DataFrame, query: WordQuery) -> TextStatistics:
    """Run a job that counts the words in a query in all texts."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = query.no_texts()
        for batch in batches:
            total += query.statistics(query.count(plain_array(batch.column(0))))
        texts_by_word = [total.texts_by_word[word] for word in query.words]
        row = {"texts": total.texts, "words": total.words, "texts_by_word": texts_by_word}
        yield pa.RecordBatch.from_pylist([row])

    total = query.no_texts()
    for row in texts.mapInArrow(count, _COUNTS).collect():
        total += TextStatistics(row["texts"], row["words"], dict(zip(query.words, row["texts_by_word"], strict=True)))
    return total


def _best_entities(score: ex.Nearest | ex.Bm25, rows: DataFrame, tables: dict[str, DataFrame]) -> BestEntities:
    """Run a job that returns the best entities of the rows."""
    key, value = plan_column(f"{score.column.entity}.id").alias(_ID), _score_column(score, rows, tables).alias(_SCORE)
    descending = isinstance(score, ex.Bm25)
    scored = rows.select(key, value).where(F.col(_SCORE).isNotNull()).distinct()
    order = F.col(_SCORE).desc() if descending else F.col(_SCORE).asc()
    table = scored.orderBy(order, F.col(_ID)).limit(limits.SEARCH_RRF_RANKS).toArrow()
    best = BestEntities(limits.SEARCH_RRF_RANKS, descending=descending)
    best.add(plain_array(table.column(_ID)), table.column(_SCORE).to_numpy())
    return best


def _score_array(scores: Scores) -> ArrowColumn:
    return array_with_nulls(scores, np.isnan(scores))
