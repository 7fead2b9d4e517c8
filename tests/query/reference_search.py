"""Search, literally: words of texts, the distance of vectors, and the ranks of two rankings joined.

Words are runs of letters and digits, without case. A phrase is its words one after another. BM25 is computed over the
given rows with the usual constants: only its order means something.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from omnigraph.query.plan.expressions import Bm25, Expr, Nearest, Rrf, Score, TextMode

Row = dict[str, Any]
Evaluate = Callable[[Expr, Row], Any]
_K1: Final = 1.2
_B: Final = 0.75


def words(text: str) -> list[str]:
    """The words of a text."""
    return re.findall(r"[^\W_]+", text.lower())


def matches(mode: TextMode, text: str, query: str, edits: int) -> bool:
    """Whether a text is found."""
    have, wanted = words(text), words(query)
    match mode:
        case TextMode.SEARCH:
            return any(word in have for word in wanted)
        case TextMode.MATCH_TEXT:
            size = len(wanted)
            return bool(size) and any(have[at : at + size] == wanted for at in range(len(have)))
        case TextMode.FUZZY:
            return any(distance(one, other) <= edits for one in have for other in wanted)


def scored(score: Score, rows: Sequence[Row], evaluate: Evaluate) -> list[float | None]:
    """The score of every row."""
    match score:
        case Nearest(column, query):
            return [_cosine(evaluate(column, row), evaluate(query, row)) for row in rows]
        case Bm25(column, query):
            return _bm25(
                [(row[f"{column.entity}.id"], evaluate(column, row)) for row in rows], query, evaluate
            )
        case Rrf(first, second, k):
            ranks = [_ranks(one, rows, evaluate) for one in (first, second)]
            return [_fused([found[at] for found in ranks], k) for at in range(len(rows))]


def distance(one: str, other: str) -> int:
    """How many letters must be put in, left out or replaced."""
    before = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        now = [at]
        for place, found in enumerate(other, start=1):
            now.append(min(before[place] + 1, now[-1] + 1, before[place - 1] + (letter != found)))
        before = now
    return before[-1]


def _cosine(one: Any, other: Any) -> float | None:
    if one is None:
        return None
    lengths = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    return 1.0 - float(sum(a * b for a, b in zip(one, other, strict=True))) / lengths if lengths else 1.0


def _bm25(found: Sequence[tuple[Any, str | None]], query: Expr, evaluate: Evaluate) -> list[float | None]:
    texts = {name: words(text) for name, text in found if text is not None}
    mean = sum(map(len, texts.values())) / max(len(texts), 1)
    wanted = words(evaluate(query, {}))
    holders = Counter(word for text in texts.values() for word in set(text))
    scores: list[float | None] = []
    for name, text in found:
        if text is None or not set(texts[name]) & set(wanted):
            scores.append(None)
            continue
        counts, total = Counter(texts[name]), 0.0
        for word in wanted:
            weight = math.log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
            length = _K1 * (1 - _B + _B * len(texts[name]) / mean)
            total += weight * counts[word] * (_K1 + 1) / (counts[word] + length)
        scores.append(total)
    return scores


def _ranks(score: Nearest | Bm25, rows: Sequence[Row], evaluate: Evaluate) -> list[int | None]:
    """The place of each row, from 1, best first; ties by id."""
    scores = scored(score, rows, evaluate)
    sign = 1 if isinstance(score, Nearest) else -1
    keyed = sorted(
        (sign * found, rows[at][f"{score.column.entity}.id"])
        for at, found in enumerate(scores)
        if found is not None
    )
    places = {name: place for place, (_, name) in enumerate(dict.fromkeys(keyed), start=1)}
    return [
        None if found is None else places[rows[at][f"{score.column.entity}.id"]]
        for at, found in enumerate(scores)
    ]


def _fused(ranks: list[int | None], k: int) -> float | None:
    present = [rank for rank in ranks if rank is not None]
    return sum(1 / (k + rank) for rank in present) if present else None
