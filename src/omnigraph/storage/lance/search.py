"""Searches a dataset through its indexes: the nearest vectors, and texts by their words.

In: a handle, a query and an SQL filter, which is applied first. Out: batches of the matching rows with their scores.
Lance searches the rows that an index does not cover by itself, and skips deleted and replaced rows; it uses the index
of the handle's own version. The caller decides whether an index may be used. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.query import MatchQuery, PhraseQuery

from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset

DISTANCE: Final = "_distance"
"""The column with the distance of a vector, as the index computes it."""
SCORE: Final = "_score"
"""The column with the BM25 score of a text, as the index computes it."""
_EXPANSIONS_MAX: Final = 1_000_000  # the default of Lance, 50 similar words, loses rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorQuery:
    """The nearest `count` vectors. `candidates` are compared exactly, from `probes` partitions of each segment."""

    column: str
    vector: npt.NDArray[np.float32]
    count: int
    candidates: int
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsQuery:
    """Texts with any word of `text`, or with `is_phrase` all in a row, or with a word within `edits` edits.

    With `edits`, `text` has the result of `fuzzy_words`; otherwise Lance applies the options of the index to it.
    With `count` only the best texts are returned, best first, with their `SCORE`.
    """

    column: str
    text: str
    is_phrase: bool = False
    edits: int = 0
    count: int | None = None


def search_batches(
    dataset: Dataset, columns: Sequence[str], query: VectorQuery | WordsQuery, where: str | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows that pass the filter and match the query, in no order."""
    options: dict[str, Any] = {}
    if isinstance(query, VectorQuery):
        options["nearest"] = {
            "column": query.column,
            "q": query.vector,
            "k": query.count,
            "metric": "cosine",
            "refine_factor": -(-query.candidates // query.count),
            "nprobes": query.probes,
        }
        columns = [*columns, DISTANCE]
    else:
        options["full_text_query"] = _full_text_query(query)
        options["limit"] = query.count
        columns = [*columns, SCORE] if query.count is not None else columns
    with translate_errors("search the dataset", dataset.uri):
        yield from dataset.native.scanner(
            columns=list(columns),
            filter=where,
            prefilter=True,
            batch_size=batch_rows,
            disable_scoring_autoprojection=True,
            **options,
        ).to_batches()


def _full_text_query(query: WordsQuery) -> MatchQuery | PhraseQuery:
    if query.is_phrase:
        return PhraseQuery(query.text, query.column)
    return MatchQuery(query.text, query.column, fuzziness=query.edits, max_expansions=_EXPANSIONS_MAX, prefix_length=0)
