"""Searches a dataset through its indexes: the nearest vectors, and texts by their words.

In: a handle, a query and an SQL filter, which is applied first. Out: batches of the matching rows with their scores.
Lance searches the rows that an index does not cover by itself, and skips deleted and replaced rows; it uses the index
of the handle's own version. The caller decides whether an index may be used. `read_indexed_texts` counts the live texts
and words in a text index, which the statistics of Lance do not have. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.file import LanceFileSession
from lance.query import MatchQuery, PhraseQuery

from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import IDENTITY, Dataset
from omnigraph.storage.lance.references import base_directories
from omnigraph.storage.location import Scheme

DISTANCE: Final = "_distance"
"""The column with the distance of a vector, as the index computes it."""
SCORE: Final = "_score"
"""The column with the BM25 score of a text, as the index computes it."""
_TEXT_TYPE: Final = "Inverted"
_TEXTS_FILE: Final = "_docs.lance"  # of each part of a segment: the row id and the number of words of each text
_WORDS: Final = "_num_tokens"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTexts:
    """The texts in the index of a column. Lance keeps those of deleted rows and counts them in its scores."""

    entries: int
    """The texts in the index, with those of deleted and updated rows."""
    texts: int
    """The texts of live rows; each has a word."""
    words: int
    """The words in them."""
    uncovered: tuple[int, ...]
    """The ids of the fragments that the index does not cover."""

    @property
    def has_table_scores(self) -> bool:
        """Whether Lance scores as BM25 with the statistics of the table: all rows are covered, and only live ones."""
        return self.entries == self.texts and not self.uncovered


def search_batches(
    dataset: Dataset, columns: Sequence[str], query: VectorQuery | WordsQuery, where: str | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows that pass the filter and match the query, in no order; without columns their addresses."""
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
            with_row_address=not columns,  # identities would include deleted rows that were compacted
            batch_size=batch_rows,
            disable_scoring_autoprojection=True,
            **options,
        ).to_batches()


def read_indexed_texts(dataset: Dataset, column: str) -> IndexedTexts:
    """Count the texts in the text index of a column from its files, which have the row id and length of each."""
    fragments, covered = set(dataset.fragment_rows()), set[int]()
    entries = texts = words = 0
    with translate_errors("read the texts of an index", dataset.uri):
        for segment_fragments, parts in _text_segments(dataset, column):
            # Another tool may have created a second index of the column: its texts are the same.
            existing = dataset.fragments(sorted((segment_fragments & fragments) - covered))
            covered |= segment_fragments
            live_rows = dataset.native.scanner(columns=[], fragments=existing, with_row_id=True).to_table()
            for part in parts:
                # An updated row keeps its id, but is in another fragment.
                is_live = np.isin(part.column(IDENTITY).to_numpy(), live_rows.column(IDENTITY).to_numpy())
                entries += part.num_rows
                texts += int(np.count_nonzero(is_live))
                words += int(part.column(_WORDS).to_numpy()[is_live].sum(dtype=np.int64))
    return IndexedTexts(entries=entries, texts=texts, words=words, uncovered=tuple(sorted(fragments - covered)))


def _text_segments(dataset: Dataset, column: str) -> Iterator[tuple[set[int], Iterator[pa.Table]]]:
    """Yield the fragments of each segment of the text index of a column, and the entries of its parts."""
    if dataset.location.scheme is Scheme.MEMORY:
        return  # Lance opens its files through a session that does not have the graphs in memory
    files = LanceFileSession(dataset.location.lance_uri, storage_options=dataset.location.storage_options)
    directory_of = base_directories(dataset)
    for index in dataset.native.describe_indices():
        is_requested = index.index_type == _TEXT_TYPE and index.field_names == [column]
        for segment in index.segments if is_requested else ():
            paths = files.list(f"{directory_of(segment.base_id)}_indices/{segment.uuid}")
            yield (
                set(segment.fragment_ids),
                (files.open_reader(path).read_all().to_table() for path in paths if path.endswith(_TEXTS_FILE)),
            )


def _full_text_query(query: WordsQuery) -> MatchQuery | PhraseQuery:
    if query.is_phrase:
        return PhraseQuery(query.text, query.column)
    return MatchQuery(query.text, query.column, fuzziness=query.edits, max_expansions=_EXPANSIONS_MAX, prefix_length=0)
