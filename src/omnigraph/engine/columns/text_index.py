"""An index of the words in a column of texts.

In: an array of texts. Out: the words in each text in order, as positions in a vocabulary; `storage/lance/words` defines
a word. The index is cached with the dictionary of a column, so a column is split once per published version and
options. It does not depend on what an index in storage covers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns.dictionary import Array, Codes, Mask, ValueDictionary
from omnigraph.query.plan import expressions as ex
from omnigraph.schema.property_types import TextOptions
from omnigraph.storage.lance.words import Positions, WordCounts, WordRules, group_texts

_PAD: Final = -1


class TextIndex:
    """The words in texts: `words` has all words in order, and `texts` the text of each.

    The positions of each word are stored together, so the cost of a search grows with the occurrences of its words.
    """

    def __init__(self, texts: Array, options: TextOptions) -> None:
        self.rules = WordRules(options)
        parents, words = self.rules.split_texts(texts)
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
        """The bytes of the index without the texts."""
        arrays = (self.words, self.texts, self.lengths, self.missing, self._order, self._starts)
        return self.vocabulary.nbytes + sum(int(array.nbytes) for array in arrays)

    def matching_mask(self, mode: ex.TextMode, query: str, edits: int) -> Mask:
        """Return which texts match a predicate."""
        words = self.rules.split_query(query)
        mask = np.zeros(len(self.lengths), dtype=np.bool_)
        if not len(words):
            return mask
        codes = self.vocabulary.find(words)
        match mode:
            case ex.TextMode.SEARCH:
                hits = [self._positions(word) for word in codes[codes >= 0]]
            case ex.TextMode.FUZZY:
                hits = [self._positions(word) for word in self._similar_words(words.to_pylist(), edits)]
            case ex.TextMode.MATCH_TEXT:
                hits = [self._phrase_positions(codes)]
        for positions in hits:
            mask[self.texts[positions]] = True
        return mask

    def count_words(self, words: Array) -> WordCounts:
        """Count some distinct words, as `words.count_words` does."""
        codes = self.vocabulary.find(words)
        no_positions = np.zeros(0, dtype=np.int32)
        positions = (
            self._positions(int(code)) if code >= 0 else no_positions for code in codes
        )  # sorted, so texts are
        return WordCounts(self.lengths, tuple(group_texts(self.texts[part]) for part in positions))

    def _positions(self, word: int) -> Positions:
        """Return the positions of a word, sorted."""
        return self._order[self._starts[word] : self._starts[word + 1]]

    def _phrase_positions(self, codes: Codes) -> Positions:
        """Return the positions where these words follow each other in one text."""
        if (codes < 0).any():
            return np.zeros(0, dtype=np.int32)
        positions = self._positions(int(codes[0]))
        positions = positions[positions <= len(self.words) - len(codes)]
        for offset, code in enumerate(codes):
            same_text = self.texts[positions + offset] == self.texts[positions]
            positions = positions[same_text & (self.words[positions + offset] == code)]
        return positions

    def _similar_words(self, words: list[Any], edits: int) -> Codes:
        """Return the vocabulary words within `edits` edits of one of these words."""
        mask = np.zeros(len(self.vocabulary), dtype=np.bool_)
        if not len(mask):
            return np.flatnonzero(mask)
        lengths: Any = pc.utf8_length(self.vocabulary.array)
        sizes = lengths.to_numpy(zero_copy_only=False)
        for word in words:
            similar = np.flatnonzero(np.abs(sizes - len(word)) <= edits)
            if len(similar):
                texts: Any = self.vocabulary.array.take(pa.array(similar))
                mask[similar[_distances(texts, sizes[similar], word) <= edits]] = True
        return np.flatnonzero(mask)


def _distances(texts: Array, sizes: npt.NDArray[Any], word: str) -> npt.NDArray[np.int64]:
    """Return the edit distance (inserted, deleted and replaced letters) of each text to the word."""
    letters = np.full((len(texts), int(sizes.max())), _PAD, dtype=np.int64)
    for row, text in enumerate(texts.to_pylist()):
        letters[row, : len(text or "")] = [ord(letter) for letter in text or ""]
    before = np.tile(np.arange(letters.shape[1] + 1), (len(letters), 1))
    for row, letter in enumerate(word, start=1):
        current = np.empty_like(before)
        current[:, 0] = row
        for column in range(letters.shape[1]):
            replaced = before[:, column] + (letters[:, column] != ord(letter))
            inserted = np.minimum(before[:, column + 1], current[:, column]) + 1
            current[:, column + 1] = np.minimum(inserted, replaced)
        before = current
    distances: npt.NDArray[np.int64] = before[np.arange(len(letters)), sizes]
    return distances
