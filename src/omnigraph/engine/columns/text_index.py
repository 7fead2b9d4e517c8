"""The words of a column of texts, and which texts have which.

Comes in: an array of texts. Goes out: for every text its words in order, as positions in a vocabulary. Words are runs
of letters and digits, without case, as Lance's index has them without stemming and stop words. Kept with the domain of
a cached column, so a column is split once per published version. Nothing depends on what an index in storage covers.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns.dictionary import Array, Codes, Mask, ValueDictionary
from omnigraph.query.plan import expressions as ex

_BETWEEN_WORDS: Final = r"[^\pL\pN]+"
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_PAD: Final = -1
Positions = npt.NDArray[np.int32]


class TextIndex:
    """The words of texts, in order: `words` one after another, and the text that each is in.

    The places of a word are kept together, so that what a search costs follows how often its words stand there.
    """

    def __init__(self, texts: Array) -> None:
        parents, words = _split(texts)
        encoded: Any = words.dictionary_encode()
        self.vocabulary = ValueDictionary(encoded.dictionary, is_unique=True)
        self.words: Positions = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        self.texts: Positions = parents
        self.lengths: Codes = np.bincount(parents, minlength=len(texts))
        missing: Any = texts.is_null()
        self.missing: Mask = missing.to_numpy(zero_copy_only=False)
        self.has_missing = texts.null_count > 0
        self._order: Positions = np.argsort(self.words, kind="stable").astype(np.int32)
        counts = np.bincount(self.words, minlength=len(self.vocabulary))
        self._starts: Codes = np.concatenate(([0], np.cumsum(counts)))

    @property
    def nbytes(self) -> int:
        """What is held beside the texts."""
        arrays = (self.words, self.texts, self.lengths, self.missing, self._order, self._starts)
        return self.vocabulary.nbytes + sum(int(found.nbytes) for found in arrays)

    def matching_mask(self, mode: ex.TextMode, query: str, edits: int) -> Mask:
        """Which texts a predicate finds."""
        wanted = query_words(query)
        found = np.zeros(len(self.lengths), dtype=np.bool_)
        if not len(wanted):
            return found
        codes = self.vocabulary.find(wanted)
        match mode:
            case ex.TextMode.SEARCH:
                hits = [self._positions(word) for word in codes[codes >= 0]]
            case ex.TextMode.FUZZY:
                hits = [self._positions(word) for word in self._similar_words(wanted.to_pylist(), edits)]
            case ex.TextMode.MATCH_TEXT:
                hits = [self._phrase_positions(codes)]
        for positions in hits:
            found[self.texts[positions]] = True
        return found

    def occurrences(self, word: int) -> tuple[Positions, Codes]:
        """The texts with a word, and how often each has it."""
        texts = self.texts[self._positions(word)]  # in order, as the places are
        first = np.flatnonzero(np.append(True, texts[1:] != texts[:-1]))
        return texts[first], np.diff(first, append=len(texts))

    def _positions(self, word: int) -> Positions:
        """Where a word stands, in order."""
        return self._order[self._starts[word] : self._starts[word + 1]]

    def _phrase_positions(self, codes: Codes) -> Positions:
        """The places where these words stand one after another in one text."""
        if (codes < 0).any():
            return np.zeros(0, dtype=np.int32)
        positions = self._positions(int(codes[0]))
        positions = positions[positions <= len(self.words) - len(codes)]
        for further, code in enumerate(codes):
            same_text = self.texts[positions + further] == self.texts[positions]
            positions = positions[same_text & (self.words[positions + further] == code)]
        return positions

    def _similar_words(self, wanted: list[Any], edits: int) -> Codes:
        """The words of the vocabulary within so many edits of one that is wanted."""
        near = np.zeros(len(self.vocabulary), dtype=np.bool_)
        if not len(near):
            return np.flatnonzero(near)
        lengths: Any = pc.utf8_length(self.vocabulary.array)
        sizes = lengths.to_numpy(zero_copy_only=False)
        for word in wanted:
            with_equal_types = np.flatnonzero(np.abs(sizes - len(word)) <= edits)
            if len(with_equal_types):
                texts: Any = self.vocabulary.array.take(pa.array(with_equal_types))
                near[with_equal_types[_distances(texts, sizes[with_equal_types], word) <= edits]] = True
        return np.flatnonzero(near)


def query_words(text: str) -> Array:
    """The words of a query, in order, as often as they stand there."""
    if text.isascii():
        # Making ready the pattern for all letters of the world takes longer than the rest of a search.
        return pa.array(_ASCII_WORD.findall(text.lower()), pa.utf8())
    return _split(pa.array([text], pa.utf8()))[1]


def _split(texts: Array) -> tuple[Positions, Array]:
    """The words of all texts, and for each the text it is from."""
    lists: Any = pc.split_pattern_regex(pc.utf8_lower(texts.fill_null("")), _BETWEEN_WORDS)
    words: Any = pc.list_flatten(lists)
    parents: Any = pc.list_parent_indices(lists)
    there: Any = pc.not_equal(words, "")
    kept = parents.filter(there).to_numpy(zero_copy_only=False).astype(np.int32)
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
