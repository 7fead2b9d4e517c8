"""Scores: distances of vectors (`nearest`), BM25 of texts, and the fusion of two rankings (`rrf`).

In: frames after all filters, so the ranking covers exactly the rows that match, whatever an index covers. Out: one
frame with a column per score. All rows are held in memory, within the budget of the query; the score of an entity is
computed once. `nearest` is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import array_with_nulls, bool_mask
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, compact_codes
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, concat_frames, distinct_sources
from omnigraph.engine.columns.text_index import TextIndex, query_words
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.limits import Budget
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of

_K1: Final = 1.2
_B: Final = 0.75
_VECTORS_PER_PART: Final = 8_192
Scores = npt.NDArray[np.float64]
"""One number per row; NaN without a score."""


def score_rows(operator: op.Search, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows with their scores, in one frame."""
    names = {score_column.name for score_column in operator.scores}
    refs = [ref for score_column in operator.scores for ref in columns_of(score_column.expression)]
    reads = {ref.name for ref in refs} | {f"{ref.entity}.id" for ref in refs}
    frames, size = [], 0
    for frame in context.with_limit(False).run_operator(operator.input, (needed - names) | reads):
        frames.append(frame.repeat_by_weight().compact())
        size += frames[-1].nbytes
        context.budget.reserve(frames[-1].nbytes)
    if not frames:
        return
    rows = concat_frames(frames)
    columns: dict[str, Column] = {}
    for score_column in operator.scores:
        scores = _scores(score_column.expression, rows, context.budget)
        columns[score_column.name] = array_with_nulls(scores, np.isnan(scores))
    yield rows.with_columns(columns)
    context.budget.release(size)


def _scores(score: ex.Score, rows: Frame, budget: Budget) -> Scores:
    match score:
        case ex.Nearest(column, query, embed):
            assert not embed, "texts were replaced by vectors before the run"
            return _distances(rows.columns[column.name], query, budget)
        case ex.Bm25(column, query):
            texts = _texts(rows.columns[column.name], budget)
            return _bm25(texts, rows.columns[f"{column.entity}.id"], query)
        case ex.Rrf(first, second, k):
            total = np.zeros(rows.length)
            ranked = np.zeros(rows.length, dtype=np.bool_)
            for ranking in (first, second):
                ranks = _ranks(ranking, rows, budget)
                has_rank = ranks > 0
                total[has_rank] += 1.0 / (k + ranks[has_rank])
                ranked |= has_rank
            total[~ranked] = np.nan
            return total


def _distances(column: Column, query: ex.Expr, budget: Budget) -> Scores:
    """Return the cosine distances to the vector of the query; the distance of a zero vector is 1."""
    assert isinstance(query, ex.Literal), "the plan is bound"
    vectors: Any = column
    if isinstance(column, DictionaryColumn):
        used, positions = compact_codes(column.codes, len(column.dictionary))
        vectors = column.dictionary.array
        if len(used) < len(vectors):
            budget.require_bytes(int(vectors.nbytes) * len(used) // len(vectors))
            vectors = vectors.take(pa.array(used))
    else:
        positions = np.arange(len(column))
    query_vector = np.asarray(query.value, dtype=np.float64)
    distances = np.full(len(vectors) + 1, np.nan)
    for start in range(0, len(vectors), _VECTORS_PER_PART):
        budget.require_time()
        part = vectors.slice(start, _VECTORS_PER_PART)
        present = bool_mask(part.is_valid())
        matrix = part.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, len(query_vector))
        distances[start : start + len(part)][present] = _cosine(matrix.astype(np.float64), query_vector)
    scores: Scores = distances[positions]
    return scores


def _cosine(matrix: Scores, query_vector: Scores) -> Scores:
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * np.sqrt(query_vector @ query_vector)
    cosines = np.ones(len(matrix))
    # Not `@`: its threads wait for each other on a busy machine.
    np.divide(np.einsum("ij,j->i", matrix, query_vector), lengths, out=cosines, where=lengths > 0)
    return np.where(lengths > 0, 1.0 - cosines, 1.0)


def _texts(column: Column, budget: Budget) -> DictionaryColumn:
    """Return a column of texts; raise if the index of its words would need too much memory."""
    texts = DictionaryColumn.of(column)
    if not texts.dictionary.has_words:
        budget.require_bytes(limits.ENGINE_WORDS_FACTOR * int(texts.dictionary.array.nbytes))
    return texts


def _bm25(column: DictionaryColumn, ids: Column, query: ex.Expr) -> Scores:
    """Return the BM25 scores; the corpus is the distinct entities of the rows."""
    assert isinstance(query, ex.Literal), "the plan is bound"
    index = column.dictionary.text_index()
    present, count, length = _present_texts(column, ids, index)
    mean = length / count if count else 0.0
    scores = np.zeros(len(index.lengths) + 1)
    for word in index.vocabulary.find(query_words(str(query.value))):
        if word < 0:
            continue
        texts, counts = index.occurrences(int(word))
        holders = len(texts) if present is None else int(present[texts].sum())
        weight = np.log(1 + (count - holders + 0.5) / (holders + 0.5))
        norm = _K1 * (1 - _B + _B * index.lengths[texts] / mean) if mean else _K1
        scores[texts] += weight * counts * (_K1 + 1) / (counts + norm)
    row_scores: Scores = scores[:-1] if present is None else scores[column.codes]
    row_scores[row_scores == 0] = np.nan  # a matching word always adds more than 0
    return row_scores


def _present_texts(column: DictionaryColumn, ids: Column, index: TextIndex) -> tuple[Codes | None, int, int]:
    """Return the number of entities of each text, the number of texts, and the number of words.

    The first is None if each text of the dictionary occurs once and in order.
    """
    is_complete = len(column.codes) == len(index.lengths) and _is_ascending(column.codes)
    if is_complete and not index.has_missing and isinstance(ids, DictionaryColumn) and _is_ascending(ids.codes):
        return None, len(index.lengths), len(index.texts)
    positions = _texts_of_entities(column, ids)
    texts = positions[positions >= 0]
    if index.has_missing:
        texts = texts[~index.missing[texts]]
    return np.bincount(texts, minlength=len(index.lengths)), len(texts), int(index.lengths[texts].sum())


def _texts_of_entities(column: DictionaryColumn, ids: Column) -> Codes:
    """Return the code of the text of each distinct entity."""
    if isinstance(ids, DictionaryColumn) and ids.dictionary.is_unique and _is_ascending(ids.codes):
        return column.codes
    _, numbers = distinct_sources(ids)
    return column.codes[_first_rows(numbers)]


def _is_ascending(codes: Codes) -> bool:
    """Return whether the codes ascend without nulls, as after a scan: each row is then another entity."""
    return not len(codes) or bool(codes[0] >= 0 and (codes[1:] > codes[:-1]).all())


def _ranks(score: ex.Nearest | ex.Bm25, rows: Frame, budget: Budget) -> Codes:
    """Return the rank of the entity of each row, from 1, best first, ties by id; 0 without a score."""
    scores = _scores(score, rows, budget) * (1 if isinstance(score, ex.Nearest) else -1)
    ids = rows.columns[f"{score.column.entity}.id"]
    sources, numbers = distinct_sources(ids)
    first = _first_rows(numbers)
    values = scores[first]
    table = pa.table({"score": pa.array(values), "id": sources.array()})
    order: Any = pc.sort_indices(table, sort_keys=[("score", "ascending"), ("id", "ascending")])
    ranks = np.zeros(len(first) + 1, dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(1, len(first) + 1)
    ranks[:-1][np.isnan(values)] = 0
    return ranks[numbers]


def _first_rows(numbers: Codes) -> Codes:
    """Return one row of each number, without -1."""
    rows = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    is_valid = numbers >= 0
    rows[numbers[is_valid]] = np.flatnonzero(is_valid)
    return rows
