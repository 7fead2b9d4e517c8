"""Scores: the distance of vectors, BM25 of texts, and two rankings joined, over exactly the rows that matched.

Filters have been applied when rows come here, so what is ranked is what matches, whatever an index covers. All rows are
held, within the budget of the query; scores are worked out once per entity. `nearest` is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import array_without, mask_of
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, ValueDictionary, compact_codes
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, concat_frames, distinct_sources
from omnigraph.engine.columns.text_index import TextIndex, query_words
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.limits import Budget
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of

_K1: Final = 1.2
_B: Final = 0.75
_VECTORS: Final = 8_192
Scores = npt.NDArray[np.float64]
"""One number per row; NaN where there is none."""


def score_rows(step: op.Search, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """The rows with their scores, in one frame."""
    names = {found.name for found in step.scores}
    reads = {column.name for found in step.scores for column in columns_of(found.score)}
    ids = {f"{column.entity}.id" for found in step.scores for column in columns_of(found.score)}
    frames, size = [], 0
    for given in context.limited(False).rows(step.input, (needed - names) | reads | ids):
        frames.append(given.repeat_by_weight().compact())
        size += frames[-1].nbytes
        context.budget.reserve(frames[-1].nbytes)
    if not frames:
        return
    rows = concat_frames(frames)
    columns: dict[str, Column] = {}
    for found in step.scores:
        scores = _scores(found.score, rows, context.budget)
        columns[found.name] = array_without(scores, np.isnan(scores))
    yield rows.with_columns(columns)
    context.budget.release(size)


def _scores(score: ex.Score, rows: Frame, budget: Budget) -> Scores:
    match score:
        case ex.Nearest(column, query, embed):
            assert not embed, "texts have become vectors before a plan is run"
            return _distances(rows.columns[column.name], query, budget)
        case ex.Bm25(column, query):
            texts = _texts(rows.columns[column.name], budget)
            return _bm25(texts, rows.columns[f"{column.entity}.id"], query)
        case ex.Rrf(first, second, k):
            total = np.zeros(rows.length)
            ranked = np.zeros(rows.length, dtype=np.bool_)
            for one in (first, second):
                ranks = _ranks(one, rows, budget)
                there = ranks > 0
                total[there] += 1.0 / (k + ranks[there])
                ranked |= there
            total[~ranked] = np.nan
            return total


def _distances(column: Column, query: ex.Expr, budget: Budget) -> Scores:
    """Cosine distances to the vector of the query; a vector without a length is at distance 1."""
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
    wanted = np.asarray(query.value, dtype=np.float64)
    found = np.full(len(vectors) + 1, np.nan)
    for start in range(0, len(vectors), _VECTORS):
        budget.require_time()
        part = vectors.slice(start, _VECTORS)
        present = mask_of(part.is_valid())
        matrix = part.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, len(wanted))
        found[start : start + len(part)][present] = _cosine(matrix.astype(np.float64), wanted)
    scores: Scores = found[positions]
    return scores


def _cosine(matrix: Scores, wanted: Scores) -> Scores:
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * np.sqrt(wanted @ wanted)
    found = np.ones(len(matrix))
    # Not `@`, whose threads wait for each other where processors are busy.
    np.divide(np.einsum("ij,j->i", matrix, wanted), lengths, out=found, where=lengths > 0)
    return np.where(lengths > 0, 1.0 - found, 1.0)


def _texts(column: Column, budget: Budget) -> DictionaryColumn:
    """The texts with their words, if the memory for splitting them is there."""
    if not isinstance(column, DictionaryColumn):
        column = DictionaryColumn(np.arange(len(column)), ValueDictionary(column, is_own=True))
    if not column.dictionary.has_words:
        budget.require_bytes(limits.ENGINE_WORDS_FACTOR * int(column.dictionary.array.nbytes))
    return column


def _bm25(column: DictionaryColumn, ids: Column, query: ex.Expr) -> Scores:
    """Over the entities that are there, each once."""
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
    found: Scores = scores[:-1] if present is None else scores[column.codes]
    found[found == 0] = np.nan  # what a word adds is never nothing
    return found


def _present_texts(column: DictionaryColumn, ids: Column, index: TextIndex) -> tuple[Codes | None, int, int]:
    """How many entities have each text, None where each text is there once and in order; texts and words together."""
    is_whole = len(column.codes) == len(index.lengths) and _is_rising(column.codes)
    if is_whole and not index.has_missing and isinstance(ids, DictionaryColumn) and _is_rising(ids.codes):
        return None, len(index.lengths), len(index.texts)
    positions = _texts_of_entities(column, ids)
    known = positions[positions >= 0]
    if index.has_missing:
        known = known[~index.missing[known]]
    return np.bincount(known, minlength=len(index.lengths)), len(known), int(index.lengths[known].sum())


def _texts_of_entities(column: DictionaryColumn, ids: Column) -> Codes:
    """The text of each entity, once."""
    if isinstance(ids, DictionaryColumn) and ids.dictionary.is_unique and _is_rising(ids.codes):
        return column.codes
    _, numbers = distinct_sources(ids)
    return column.codes[_first_rows(numbers)]


def _is_rising(codes: Codes) -> bool:
    """Whether every row is another entity, as right after a scan, which is quickly seen."""
    return not len(codes) or bool(codes[0] >= 0 and (codes[1:] > codes[:-1]).all())


def _ranks(score: ex.Nearest | ex.Bm25, rows: Frame, budget: Budget) -> Codes:
    """The place of each row's entity, from 1, best first, ties by id; 0 where it has no score."""
    scores = _scores(score, rows, budget) * (1 if isinstance(score, ex.Nearest) else -1)
    ids = rows.columns[f"{score.column.entity}.id"]
    sources, numbers = distinct_sources(ids)
    first = _first_rows(numbers)
    values = scores[first]
    table = pa.table(
        {"score": pa.array(values), "id": DictionaryColumn(sources.codes, sources.dictionary).array()}
    )
    order: Any = pc.sort_indices(table, sort_keys=[("score", "ascending"), ("id", "ascending")])
    positions = np.zeros(len(first) + 1, dtype=np.int64)
    positions[order.to_numpy()] = np.arange(1, len(first) + 1)
    positions[:-1][np.isnan(values)] = 0
    return positions[numbers]


def _first_rows(numbers: Codes) -> Codes:
    """A row of each number; -1 has none."""
    found = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    there = numbers >= 0
    found[numbers[there]] = np.flatnonzero(there)
    return found
