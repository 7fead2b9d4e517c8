"""Adds scores to rows: distances of vectors (`nearest`), BM25 of texts, and the fusion of two rankings (`rrf`).

In: frames after all filters. Out: the same frames with a column per score, one after another, so that a ranked search
holds only its best rows. BM25 needs statistics of the whole table: from the cached words in a column, or else from one
pass over the column, cached for the version. `rrf` reads its rows twice: the first pass ranks them. A ranked search of
one table can read only its best rows, through an index (`search_index`): the path is chosen by `search_choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.arrow.columns import array_with_nulls
from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import ValueDictionary
from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame, concat_frames
from omnigraph.engine.columns.scores import Scores, TextStatistics, WordQuery, bm25_of_counts, bm25_of_texts, distances
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.limits import Budget
from omnigraph.engine.operators.rank import BestEntities, fuse_ranks
from omnigraph.engine.operators.scan import output_columns, search_table, storage_filter
from omnigraph.engine.tables import TableReader
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.ranked import RankedSearch
from omnigraph.query.plan.types import Entity
from omnigraph.query.plan.walk import entities_of
from omnigraph.query.rules.search_choice import (
    RankedRequest,
    SearchChoice,
    SearchPath,
    candidate_count,
    choose_ranked,
    probe_count,
)
from omnigraph.schema.property_types import IndexKind, TextOptions, VectorType
from omnigraph.storage.lance.search import SCORE, VectorQuery, WordsQuery

_FLOAT_BYTES: Final = 4
_ZERO_DISTANCE: Final = 1.0
_MARGINS: Final = (16, 256, 4_096)
"""How many more rows an index is asked for, one after another until the last score is worse than the requested ones."""
_RESCORED_MIN: Final = 64
"""How many candidates more than twice the rows an index is asked for if its scores are not those of the table."""

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
        self._query = WordQuery.of(str(score.query.value), score.column.text)
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
        if not isinstance(column, DictionaryColumn) or not has_cached_words(
            column.dictionary, self._column.text, self._budget
        ):
            return bm25_of_texts(column, self._query, self._statistics)
        if column.dictionary is not self._dictionary:
            self._dictionary = column.dictionary
            counts = column.dictionary.text_index(self._column.text).count_words(self._query.array)
            self._scores = np.append(bm25_of_counts(counts, self._query, self._statistics), np.nan)
        scores: Scores = self._scores[column.codes]
        return scores


def text_statistics(reader: TableReader, column: str, query: WordQuery, budget: Budget) -> TextStatistics:
    """Return the statistics of all rows of a table for the words in a query."""
    cached = reader.cached_columns((column,), whole=True)
    options = query.rules.options
    if cached is not None and has_cached_words(cached[column], options, budget):
        return query.statistics(cached[column].text_index(options).count_words(query.array))
    return reader.cached_statistics(column, query, lambda counted: _count_column(reader, column, counted))


def _count_column(reader: TableReader, column: str, query: WordQuery) -> TextStatistics:
    statistics = query.no_texts()
    for batch in reader.read_batches((column,), None):
        statistics += query.statistics(query.count(batch.column(column)))
    return statistics


def has_cached_words(dictionary: ValueDictionary, options: TextOptions, budget: Budget) -> bool:
    """Return whether the words in a dictionary are cached, or may be: it belongs to the cache and is small."""
    if dictionary.has_words(options):
        return True
    size = int(dictionary.array.nbytes)
    is_small = size <= limits.ENGINE_WORDS_BYTES_MAX and budget.has_bytes(limits.ENGINE_WORDS_FACTOR * size)
    return is_small and not dictionary.is_per_query


def search_index(ranked: RankedSearch, count: int, needed: RequiredColumns, context: ExecutionContext) -> Frame | None:
    """Return the best rows of a ranked search through an index, with all scores; None if it must run exactly."""
    plan = plan_ranked(ranked, count, context)
    choice, rows = plan.choice, None
    if choice.path is SearchPath.INDEX and plan.indexed is not None:
        rows = _read_best(ranked, plan.indexed, count, needed, context)
        if rows is None:
            choice = SearchChoice(SearchPath.EXACT, "too few candidates")
    context.record_mode(ranked.search, search_mode(ranked.score.expression, choice), choice.reason)
    return rows


def search_mode(score: ex.Score, choice: SearchChoice) -> str:
    """Return the path of a ranked search as `explain` shows it."""
    if choice.path is SearchPath.EXACT:
        return "exactly"
    return "by vector index" if isinstance(score, ex.Nearest) else "by text index"


@dataclass(frozen=True, slots=True)
class IndexedSearch:
    """A search through an index: the scan that it replaces, the query, and the filter that storage applies first."""

    scan: op.Scan
    query: VectorQuery | WordsQuery
    where: str | None


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """The path of a ranked search; `indexed` is None if no index can serve it."""

    choice: SearchChoice
    indexed: IndexedSearch | None = None


def plan_ranked(
    ranked: RankedSearch, count: int, context: ExecutionContext, estimated_rows: int | None = None
) -> RankedPlan:
    """Choose the path of a ranked search; count the rows that match its filter, unless there is an estimate."""
    score, scan = ranked.score.expression, ranked.search.input
    if isinstance(score, ex.Rrf):
        return RankedPlan(SearchChoice(SearchPath.EXACT, "fused ranks"))
    if not isinstance(scan, op.Scan):
        return RankedPlan(SearchChoice(SearchPath.EXACT, "after a traversal"))
    reader, column = context.reader(scan.entity.table), score.column
    # An index contains no nulls, and to test for them means to read the column.
    pushed = tuple(part for part in scan.filter.pushed if part != ex.IsNull(column, negated=True))
    where, rest = storage_filter(pushed)
    is_filter_sql = not scan.filter.residual and (not rest or estimated_rows is not None)
    value = score.query.value if isinstance(score.query, ex.Literal) else None
    kind = IndexKind.VECTOR if isinstance(score, ex.Nearest) else IndexKind.INVERTED
    request = RankedRequest(
        kind=kind,
        index=reader.facts().index(column.column, kind),
        matching_bytes=0,
        count=count,
        is_filter_sql=is_filter_sql,
        is_exact=score.exact,
        text=column.text,
        forced=context.options.search,
    )
    if isinstance(score, ex.Bm25):
        size, index = reader.text_bytes(column.column), request.index
        has_table_scores = (
            index is not None
            and index.is_usable(column.text)
            and size <= limits.SEARCH_EXACT_BYTES  # above, the index is used whatever it scores
            and reader.row_count > limits.ENGINE_EAGER_ROWS_MAX
            and not index.uncovered_fragments
            and not reader.facts().has_deleted_rows
            and reader.indexed_texts(column.column).has_table_scores
        )
        choice = choose_ranked(replace(request, matching_bytes=size, has_table_scores=has_table_scores))
        words = WordsQuery(column=column.column, text=str(value), count=count)
        return RankedPlan(choice, IndexedSearch(scan, words, where))
    assert isinstance(column.type, VectorType)
    row_bytes = column.type.size * _FLOAT_BYTES
    # `explain` asks no provider, so a text has no vector.
    vector: npt.NDArray[np.float32] = np.asarray(() if isinstance(value, str) else value or (), dtype=np.float32)
    request = replace(request, vector_size=column.type.size, is_zero=len(vector) > 0 and not vector.any())
    matching = reader.row_count
    choice = choose_ranked(replace(request, matching_bytes=matching * row_bytes))
    if choice.path is SearchPath.INDEX and scan.filter.pushed:
        # Only an index on the table makes it worth to count the rows of the filter.
        matching = reader.count_matching(where) if estimated_rows is None else estimated_rows
        choice = choose_ranked(replace(request, matching_bytes=matching * row_bytes, is_filtered=where is not None))
    query = VectorQuery(
        column=column.column,
        vector=vector,
        count=count,
        candidates=candidate_count(count),
        probes=probe_count(reader.row_count, matching),
    )
    return RankedPlan(choice, IndexedSearch(scan, query, where))


def _read_best(
    ranked: RankedSearch, indexed: IndexedSearch, count: int, needed: RequiredColumns, context: ExecutionContext
) -> Frame | None:
    """Read at least the best `count` rows through an index, with all scores; None if it does not return them.

    Equal scores are ordered by id, so all rows with the last requested score are needed.
    """
    reader, entity = context.reader(indexed.scan.entity.table), indexed.scan.entity
    is_vector = isinstance(indexed.query, VectorQuery)
    has_scores = isinstance(indexed.query, WordsQuery) and reader.indexed_texts(indexed.query.column).has_table_scores
    order = ranked.score.name if is_vector else f"{entity.name}.{SCORE}"
    has_score = ex.IsNull(ranked.order.keys[0].expression, negated=True)  # true for all rows of an index
    conditions = tuple(part for part in ranked.conditions if part != has_score)
    scorers = {
        part.name: (part.expression, _make_index_scorer(part.expression, ranked, context))
        for part in ranked.search.scores
        if part != ranked.score or not has_scores
    }
    reads = {ref.name for score, _ in scorers.values() for ref in columns_of(score)}
    names = output_columns(entity, indexed.scan.columns, needed | reads)
    for margin in _MARGINS:
        requested = count + (margin if is_vector or has_scores else max(margin, count + _RESCORED_MIN))
        rows = _read_rows(replace(indexed, query=replace(indexed.query, count=requested)), names, context)
        columns: dict[str, Column] = {}
        if has_scores:
            columns[ranked.score.name] = rows.array(order).cast(pa.float64())
        for name, (_, scorer) in scorers.items():
            scores = scorer(rows)
            columns[name] = array_with_nulls(scores, np.isnan(scores))
        rows = rows.with_columns(columns)
        matching = rows.filter(condition_mask(conditions, rows)) if conditions else rows
        last, own = (part.array(order).to_numpy() for part in (rows, matching))
        if is_vector:
            # An index returns no zero vector, whose distance is 1.
            worst = last.max(initial=0.0) if rows.length == requested else np.inf
            is_better = own < min(worst, _ZERO_DISTANCE)
        else:
            is_better = own > last.min(initial=np.inf)
        if np.count_nonzero(is_better) >= count:
            return matching
        # A limited search also counts deleted rows, so fewer rows than requested may not be all.
        if (
            isinstance(indexed.query, WordsQuery)
            and rows.length < requested
            and rows.length == reader.count_found(replace(indexed.query, count=None), indexed.where)
        ):
            return matching
    return None


def _make_index_scorer(score: ex.Score, ranked: RankedSearch, context: ExecutionContext) -> Scorer:
    """Return the function that scores the rows of an index search; BM25 of the same column reads no other rows."""
    column = ranked.score.expression.column if isinstance(ranked.score.expression, ex.Bm25) else None
    if not isinstance(score, ex.Bm25) or score.column != column:
        return make_scorer(score, ranked.search, context)
    assert isinstance(ranked.search.input, op.Scan), "an index search reads one table"
    assert isinstance(score.query, ex.Literal), "the plan is bound"
    reader, text = context.reader(ranked.search.input.entity.table), str(score.query.value)
    query = WordQuery.of(text, score.column.text)
    if not query.words:
        return lambda frame: np.full(frame.length, np.nan)
    statistics = reader.indexed_statistics(score.column.column, query, text)
    return lambda frame: bm25_of_texts(frame.columns[score.column.name], query, statistics)


def _read_rows(indexed: IndexedSearch, names: tuple[str, ...], context: ExecutionContext) -> Frame:
    entity = indexed.scan.entity
    frames = list(search_table(entity, names, indexed.query, indexed.where, context))
    context.budget.require_bytes(sum(frame.nbytes for frame in frames))
    return concat_frames(frames or [_no_rows(context.reader(entity.table), entity, names)])


def _no_rows(reader: TableReader, entity: Entity, names: Sequence[str]) -> Frame:
    schema = reader.dataset().schema
    columns: dict[str, Column] = {f"{entity.name}.{name}": pa.array([], schema.field(name).type) for name in names}
    return Frame(0, columns | {f"{entity.name}.{SCORE}": pa.array([], pa.float32())})
