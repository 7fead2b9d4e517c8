"""Which way a search takes: through an index of Lance, or exactly over all matching rows. Pure.

In: what is asked, the facts of the index and of the matching rows. Out: a path and its reason, which `explain` shows.
The path never changes which rows match. A run may only change from the index to the exact path.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from omnigraph.base import limits
from omnigraph.base.display import format_count
from omnigraph.query.plan.types import IndexFact
from omnigraph.schema.property_types import PLAIN_TEXT, IndexKind, TextOptions


class SearchPath(Enum):
    """The ways to search. All of them return the same rows."""

    INDEX = "index"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class SearchChoice:
    """A path, and why it was chosen or, for an index, which one it is."""

    path: SearchPath
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRequest:
    """A ranked search on one column. `matching_bytes` is the size of the column in the rows that match."""

    kind: IndexKind
    index: IndexFact | None
    matching_bytes: int
    count: int
    """The rows of the limit and its offset."""
    vector_size: int = 8
    is_zero: bool = False
    """Whether the vector of the query is zero."""
    is_filtered: bool = False
    """Whether a filter excludes rows: to read the vectors of the rest from all parts of a table costs more than to read
    it whole."""
    is_filter_sql: bool = True
    """Whether storage can evaluate all conditions on the rows."""
    has_table_scores: bool = False
    """Whether the text index scores as the exact path does: it covers all rows, and no row was deleted."""
    is_exact: bool = False
    """Whether the query requests the exact path."""
    text: TextOptions = PLAIN_TEXT
    """The options of the column."""
    forced: SearchPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateRequest:
    """A text predicate that is a condition of a scan. `is_fuzzy` predicates are not found in uncovered rows."""

    index: IndexFact | None
    is_fuzzy: bool
    has_words: bool
    """Whether the words in the column are cached, or soon will be because the table is small."""
    text: TextOptions = PLAIN_TEXT
    """The options of the column."""
    can_split: bool = True
    """Whether the index splits the words in a fuzzy query as an exact search does."""
    forced: SearchPath | None = None


def choose_ranked(request: RankedRequest) -> SearchChoice:
    """Return the path of a ranked `nearest` or `bm25`."""
    is_vector = request.kind is IndexKind.VECTOR
    bound = limits.SEARCH_FILTERED_BYTES if request.is_filtered else limits.SEARCH_EXACT_BYTES
    is_small = (
        request.matching_bytes <= bound and request.forced is not SearchPath.INDEX and not request.has_table_scores
    )
    if request.is_exact or request.forced is SearchPath.EXACT:
        return _exactly("requested")
    if is_small:
        return _exactly("matching rows below 4 MiB" if request.is_filtered else "below 64 MiB")
    if request.index is None:
        is_possible = not is_vector or request.vector_size % 8 == 0
        return _exactly("no index" if is_possible else "length is not a multiple of 8")
    if not request.index.is_usable(request.text):
        return _exactly("parameters differ")
    if is_vector and request.is_zero:
        return _exactly("zero vector")
    if request.count > limits.SEARCH_INDEX_ROWS_MAX:
        return _exactly(f"limit above {limits.SEARCH_INDEX_ROWS_MAX:,}")
    if not request.is_filter_sql:
        return _exactly("filter is not SQL")
    details = _describe(request.index)
    if is_vector:
        details += f", {candidate_count(request.count):,} candidates"
    return SearchChoice(SearchPath.INDEX, details)


def choose_predicate(request: PredicateRequest) -> SearchChoice:
    """Return the path of a text predicate."""
    if request.forced is SearchPath.EXACT:
        return _exactly("requested")
    if request.index is None:
        return _exactly("no index")
    if not request.index.is_usable(request.text):
        return _exactly("parameters differ")
    if request.is_fuzzy and request.index.uncovered_fragments:
        return _exactly("rows uncovered")
    if request.is_fuzzy and not request.can_split:
        return _exactly("words differ in the index")
    if request.has_words and request.forced is not SearchPath.INDEX:
        return _exactly("words are cached")
    return SearchChoice(SearchPath.INDEX, _describe(request.index))


def candidate_count(count: int) -> int:
    """Return how many vectors of an index are compared exactly for a number of rows."""
    return min(limits.SEARCH_CANDIDATES_MAX, max(limits.SEARCH_CANDIDATES_MIN, limits.SEARCH_CANDIDATES_FACTOR * count))


def probe_count(rows: int, matching_rows: int) -> int:
    """Return how many partitions of each segment to read at most; a filter that few rows pass requires more.

    An index has the partitions of the rows that it was built over, so rows that were deleted since do not matter.
    """
    return min(limits.INDEX_PARTITIONS_MAX, -(-limits.SEARCH_PROBES * max(rows, 1) // max(matching_rows, 1)))


def _exactly(reason: str) -> SearchChoice:
    return SearchChoice(SearchPath.EXACT, reason)


def _describe(index: IndexFact) -> str:
    uncovered = (
        f"{format_count(index.uncovered_rows, 'row')} uncovered" if index.uncovered_fragments else "all rows covered"
    )
    segments = format_count(index.segments, "segment")
    options = f" ({index.text.text})" if index.text.text else ""
    return f"{index.lance_type or index.kind.value} on {index.column}{options}, {segments}, {uncovered}"
