"""A reference implementation of search: words, distances of vectors, and fused ranks.

Words are runs of letters and digits, case-insensitive; with options those of Lance's tokenizer. A phrase matches
consecutive words. BM25 has the usual constants and the statistics of all texts of the table, which the caller passes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import lance

from omnigraph.query.plan import expressions as ex
from omnigraph.schema.property_types import PLAIN_TEXT, TextOptions

Row = dict[str, Any]
Evaluate = Callable[[ex.Expr, Row], Any]
TextsOf = Callable[[ex.ColumnRef], Sequence[str | None]]
"""Returns the texts of a column in all rows of its table."""
_K1: Final = 1.2
_B: Final = 0.75


def words(text: str, options: TextOptions = PLAIN_TEXT) -> list[str]:
    """Return the words in a text."""
    if options == PLAIN_TEXT:
        return re.findall(r"[^\W_]+", text.lower())
    tokenize: Any = lance.tokenize
    settings = {"ascii_folding": options.ascii_folding, "stem": options.stem is not None}
    language = options.stem.title() if options.stem else None
    return [token.text for token in tokenize(text, remove_stop_words=False, language=language, **settings)]


def matches(mode: ex.TextMode, text: str, query: str, edits: int, options: TextOptions = PLAIN_TEXT) -> bool:
    """Return whether a text matches."""
    have, query_words = words(text, options), words(query, options)
    match mode:
        case ex.TextMode.SEARCH:
            return any(word in have for word in query_words)
        case ex.TextMode.MATCH_TEXT:
            size = len(query_words)
            return bool(size) and any(have[start : start + size] == query_words for start in range(len(have)))
        case ex.TextMode.FUZZY:
            return any(distance(word, query_word) <= edits for word in have for query_word in query_words)


def scored(score: ex.Score, rows: Sequence[Row], evaluate: Evaluate, texts_of: TextsOf) -> list[float | None]:
    """Return the score of every row."""
    match score:
        case ex.Nearest(column, query):
            return [_cosine(evaluate(column, row), evaluate(query, row)) for row in rows]
        case ex.Bm25(column, query):
            texts, table = (
                [words(text or "", column.text) for text in part]
                for part in ([evaluate(column, row) for row in rows], texts_of(column))
            )
            return _bm25(texts, table, words(evaluate(query, {}), column.text))
        case ex.Rrf(first, second, k):
            ranks = [_ranks(part, rows, evaluate, texts_of) for part in (first, second)]
            return [_fused([rank[index] for rank in ranks], k) for index in range(len(rows))]


def distance(first: str, second: str) -> int:
    """Return the number of letters to insert, delete or replace."""
    before = list(range(len(second) + 1))
    for row, letter in enumerate(first, start=1):
        now = [row]
        for rank, other_letter in enumerate(second, start=1):
            now.append(min(before[rank] + 1, now[-1] + 1, before[rank - 1] + (letter != other_letter)))
        before = now
    return before[-1]


def _cosine(left: Any, right: Any) -> float | None:
    if left is None:
        return None
    lengths = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return 1.0 - float(sum(a * b for a, b in zip(left, right, strict=True))) / lengths if lengths else 1.0


def _bm25(texts: list[list[str]], table: list[list[str]], query_words: list[str]) -> list[float | None]:
    split = [text_words for text_words in table if text_words]
    mean = sum(map(len, split)) / max(len(split), 1)
    holders = Counter(word for text_words in split for word in set(text_words))
    scores: list[float | None] = []
    for own_words in texts:
        counts, total = Counter(own_words), 0.0
        for word in query_words:
            if counts[word]:
                weight = math.log(1 + (len(split) - holders[word] + 0.5) / (holders[word] + 0.5))
                norm = _K1 * (1 - _B + _B * counts.total() / mean)
                total += weight * counts[word] * (_K1 + 1) / (counts[word] + norm)
        scores.append(total or None)
    return scores


def _ranks(score: ex.Nearest | ex.Bm25, rows: Sequence[Row], evaluate: Evaluate, texts_of: TextsOf) -> list[int | None]:
    """Return the rank of each row, from 1, best first; ties by id."""
    scores = scored(score, rows, evaluate, texts_of)
    sign = 1 if isinstance(score, ex.Nearest) else -1
    keyed = sorted(
        (sign * value, rows[index][f"{score.column.entity}.id"])
        for index, value in enumerate(scores)
        if value is not None
    )
    ranks = {name: rank for rank, (_, name) in enumerate(dict.fromkeys(keyed), start=1)}
    return [
        None if value is None else ranks[rows[index][f"{score.column.entity}.id"]] for index, value in enumerate(scores)
    ]


def _fused(ranks: list[int | None], k: int) -> float | None:
    present = [rank for rank in ranks if rank is not None]
    return sum(1 / (k + rank) for rank in present) if present else None
