"""The words of a column of texts, and which texts have which.

Comes in: an array of texts. Goes out: for every text its words in order, as positions in a vocabulary. Words are runs
of letters and digits, without case, as Lance's index has them without stemming and stop words. Kept with the domain of
a cached column, so a column is split once per published version. Nothing depends on what an index in storage covers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.domain import Array, Codes, Domain, Mask
from omnigraph.query.expressions import TextMode

_BETWEEN_WORDS: Final = r"[^\pL\pN]+"
_PAD: Final = -1


class TextIndex:
    """The words of texts: `words[starts[n] : starts[n + 1]]` are those of text `n`, in order."""

    def __init__(self, texts: Array) -> None:
        parents, words = _split(texts)
        encoded: Any = words.dictionary_encode()
        self.vocabulary = Domain(encoded.dictionary, is_unique=True)
        self.words: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.texts: Codes = parents
        self.lengths: Codes = np.bincount(parents, minlength=len(texts))
        missing: Any = texts.is_null()
        self.missing: Mask = missing.to_numpy(zero_copy_only=False)

    def matching(self, mode: TextMode, query: str, edits: int) -> Mask:
        """Which texts a predicate finds."""
        wanted = query_words(query)
        found = np.zeros(len(self.lengths), dtype=np.bool_)
        if not len(wanted):
            return found
        codes = self.vocabulary.find(wanted)
        match mode:
            case TextMode.SEARCH:
                hits = self._is_one_of(codes[codes >= 0])
            case TextMode.FUZZY:
                hits = self._is_one_of(self._near(wanted.to_pylist(), edits))
            case TextMode.MATCH_TEXT:
                hits = self._begins(codes)
        found[self.texts[hits]] = True
        return found

    def occurrences(self, word: int) -> tuple[Codes, Codes]:
        """The texts with a word, and how often each has it."""
        texts, counts = np.unique(self.texts[self.words == word], return_counts=True)
        return texts, counts

    def _is_one_of(self, codes: Codes) -> Mask:
        chosen = np.zeros(len(self.vocabulary) + 1, dtype=np.bool_)
        chosen[codes] = True
        return chosen[self.words]

    def _begins(self, codes: Codes) -> Mask:
        """The places where these words stand one after another in one text."""
        if (codes < 0).any() or len(codes) > len(self.words):
            return np.zeros(len(self.words), dtype=np.bool_)
        last = len(self.words) - len(codes) + 1
        hits = np.zeros(len(self.words), dtype=np.bool_)
        hits[:last] = self.texts[:last] == self.texts[len(codes) - 1 :]
        for place, code in enumerate(codes):
            hits[:last] &= self.words[place : place + last] == code
        return hits

    def _near(self, wanted: list[Any], edits: int) -> Codes:
        """The words of the vocabulary within so many edits of one that is wanted."""
        near = np.zeros(len(self.vocabulary), dtype=np.bool_)
        if not len(near):
            return np.flatnonzero(near)
        lengths: Any = pc.utf8_length(self.vocabulary.array)
        sizes = lengths.to_numpy(zero_copy_only=False)
        for word in wanted:
            alike = np.flatnonzero(np.abs(sizes - len(word)) <= edits)
            if len(alike):
                texts: Any = self.vocabulary.array.take(pa.array(alike))
                near[alike[_distances(texts, sizes[alike], word) <= edits]] = True
        return np.flatnonzero(near)


def query_words(text: str) -> Array:
    """The words of a query, in order, as often as they stand there."""
    return _split(pa.array([text], pa.utf8()))[1]


def _split(texts: Array) -> tuple[Codes, Array]:
    """The words of all texts, and for each the text it is from."""
    lists: Any = pc.split_pattern_regex(pc.utf8_lower(texts.fill_null("")), _BETWEEN_WORDS)
    words: Any = pc.list_flatten(lists)
    parents: Any = pc.list_parent_indices(lists)
    there: Any = pc.not_equal(words, "")
    kept = parents.filter(there).to_numpy(zero_copy_only=False).astype(np.int64)
    return kept, words.filter(there)


def _distances(texts: Array, sizes: npt.NDArray[Any], word: str) -> npt.NDArray[np.int64]:
    """How many letters must be put in, left out or replaced, for every text at once."""
    letters = np.full((len(texts), int(sizes.max())), _PAD, dtype=np.int64)
    for row, text in enumerate(texts.to_pylist()):
        letters[row, : len(text or "")] = [ord(letter) for letter in text or ""]
    before = np.tile(np.arange(letters.shape[1] + 1), (len(letters), 1))
    for at, letter in enumerate(word, start=1):
        now = np.empty_like(before)
        now[:, 0] = at
        for place in range(letters.shape[1]):
            replaced = before[:, place] + (letters[:, place] != ord(letter))
            now[:, place + 1] = np.minimum(np.minimum(before[:, place + 1], now[:, place]) + 1, replaced)
        before = now
    found: npt.NDArray[np.int64] = before[np.arange(len(letters)), sizes]
    return found
