"""An immutable array of values that columns refer to by position (their codes), and the lookup of positions by value.

The ids of a table version are a dictionary, and so are the endpoint ids of an edge table; a position is the dense id of
a node. Lookups use sorted 64-bit hashes (16 bytes per value) and compare the texts at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from omnigraph.engine.columns.text_index import TextIndex
    from omnigraph.schema.property_types import TextOptions

    Array = pa.Array[Any]
    Scalar = pa.Scalar[Any]
else:
    Array = pa.Array
    Scalar = pa.Scalar
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_FEW_TEXTS_MAX: Final = 16
_HASH_TABLE_FACTOR: Final = 2
"""A hash table is built for each call, so it is used if the texts are at least this part of the values."""


class ValueDictionary:
    """Values by position.

    `is_unique`: no duplicates and no nulls, as for ids. `is_per_query`: the values belong to one query, not to the
    cache. `on_growth` is called whenever the dictionary has grown, so that the cache can count its bytes.
    """

    __slots__ = (
        "__weakref__",
        "_factors",
        "_hashes",
        "_order",
        "_text_indexes",
        "_translations",
        "array",
        "is_per_query",
        "is_unique",
        "on_growth",
    )

    def __init__(self, array: Array, *, is_unique: bool = False, is_per_query: bool = False) -> None:
        self.array = array
        self.is_unique = is_unique
        self.is_per_query = is_per_query
        self._hashes: npt.NDArray[np.uint64] | None = None
        self._order: Codes | None = None
        self._factors: tuple[Codes, ValueDictionary] | None = None
        self._text_indexes: dict[TextOptions, TextIndex] = {}
        self._translations: WeakKeyDictionary[ValueDictionary, Codes] | None = None
        self.on_growth: Callable[[ValueDictionary], None] | None = None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def nbytes(self) -> int:
        """The bytes of the values, of a possible lookup, of the words and of the translations."""
        words = sum(index.nbytes for index in tuple(self._text_indexes.values()))
        translations = 0 if self._translations is None else 8 * len(self.array) * len(self._translations)
        return int(self.array.nbytes) + (16 if self.is_unique else 8) * len(self.array) + words + translations

    def find(self, texts: Array) -> Codes:
        """Return the position of each text, -1 for null and for missing texts. The values must be unique texts."""
        assert self.is_unique, "only unique values have one position"
        positions = np.full(len(texts), -1, dtype=np.int64)
        if not len(texts) or not len(self.array):
            return positions
        if len(texts) > _FEW_TEXTS_MAX and len(texts) * _HASH_TABLE_FACTOR >= len(self.array):
            return self._find_by_hash_table(texts)
        hashes, order = self._lookup()
        text_hashes = _hash_texts(texts)
        if len(texts) <= _FEW_TEXTS_MAX:
            return self._find_few(texts, text_hashes)
        open_rows = np.arange(len(texts))
        if texts.null_count:
            open_rows = open_rows[texts.is_valid().to_numpy(zero_copy_only=False)]
        slots = np.searchsorted(hashes, text_hashes[open_rows])
        while len(open_rows):
            inside = slots < len(hashes)
            inside[inside] = hashes[slots[inside]] == text_hashes[open_rows[inside]]
            open_rows, slots = open_rows[inside], slots[inside]
            candidates = order[slots]
            equal = _equal_texts(self.array, candidates, texts, open_rows)
            positions[open_rows[equal]] = candidates[equal]
            # Two texts with one hash: compare with the next slot.
            open_rows, slots = open_rows[~equal], slots[~equal] + 1
        return positions

    def _find_by_hash_table(self, texts: Array) -> Codes:
        """Find many texts with a hash table of Arrow, which is built for this call."""
        positions: Any = pc.index_in(texts, value_set=self.array, skip_nulls=True).fill_null(-1)
        codes: Codes = positions.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def _find_few(self, texts: Array, text_hashes: npt.NDArray[np.uint64]) -> Codes:
        """Find a few texts one by one, which is faster than operations over arrays."""
        hashes, order = self._lookup()
        positions = np.full(len(texts), -1, dtype=np.int64)
        for row, text in enumerate(texts.to_pylist()):
            slot = int(hashes.searchsorted(text_hashes[row]))
            while text is not None and slot < len(hashes) and hashes[slot] == text_hashes[row]:
                if self.array[int(order[slot])].as_py() == text:
                    positions[row] = order[slot]
                    break
                slot += 1
        return positions

    def factors(self) -> tuple[Codes, ValueDictionary]:
        """Return for each position the code of its value among the distinct values (-1 for null), and these values."""
        if self._factors is None:
            self._factors = encode_values(self.array)
        return self._factors

    def text_index(self, options: TextOptions) -> TextIndex:
        """Return the index of the words, built at the first call with these options."""
        if options not in self._text_indexes:
            from omnigraph.engine.columns.text_index import TextIndex

            self._text_indexes[options] = TextIndex(self.array, options)
            if self.on_growth is not None:
                self.on_growth(self)
        return self._text_indexes[options]

    def translation(self, other: ValueDictionary) -> Codes | None:
        """Return for each position the one in `other` (-1 if missing), or None if `translate` was not called."""
        return None if self._translations is None else self._translations.get(other)

    def translate(self, other: ValueDictionary) -> Codes:
        """Compute the translation and store it for as long as both dictionaries are in use."""
        inverse = other.translation(self) if self.is_unique else None
        if inverse is None:
            codes = other.find(self.array)
        else:
            codes = np.full(len(self.array), -1, dtype=np.int64)
            present = np.flatnonzero(inverse >= 0)
            codes[inverse[present]] = present
        if self._translations is None:
            self._translations = WeakKeyDictionary()
        self._translations[other] = codes
        if self.on_growth is not None:
            self.on_growth(self)
        return codes

    def has_words(self, options: TextOptions) -> bool:
        """Return whether the index of the words with these options is built."""
        return options in self._text_indexes

    def _lookup(self) -> tuple[npt.NDArray[np.uint64], Codes]:
        if self._hashes is None or self._order is None:
            hashes = _hash_texts(self.array)
            order = np.argsort(hashes)
            self._order = order
            self._hashes = hashes[order]
        return self._hashes, self._order


def _hash_texts(texts: Array) -> npt.NDArray[np.uint64]:
    # Imported late: most short commands look up nothing, and the import takes time.
    from omnigraph.arrow.hashing import hash_texts

    return hash_texts(texts)


def encode_values(values: Any, *, is_per_query: bool = False) -> tuple[Codes, ValueDictionary]:
    """Return the code of each value of a (chunked) array among its distinct values, -1 for null, and these values."""
    encoded: Any = without_negative_zero(values).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, ValueDictionary(encoded.dictionary, is_unique=True, is_per_query=is_per_query)


def distinct_numbers(numbers: Codes) -> Codes:
    """Return the distinct numbers, sorted. `np.unique` hashes them, which takes many times as long as sorting."""
    if len(numbers) < 2:
        return numbers
    ordered = np.sort(numbers)
    is_first = np.empty(len(ordered), dtype=np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered if is_first.all() else ordered[is_first]


def in_sorted(numbers: Codes, ordered: Codes) -> Mask:
    """Return which numbers occur in a sorted array."""
    if not len(ordered):
        return np.zeros(len(numbers), dtype=np.bool_)
    slots = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    mask: Mask = ordered[slots] == numbers
    return mask


def compact_codes(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """Return the distinct codes, all below `size`, sorted, and for each code its rank among them; -1 remains -1."""
    if size > 8 * len(codes) + 1024:
        used, inverse = np.unique(codes, return_inverse=True)
        ranks: Codes = inverse.reshape(-1)
        return (used[1:], ranks - 1) if len(used) and used[0] < 0 else (used, ranks)
    is_used = np.zeros(size + 1, dtype=np.bool_)
    is_used[codes] = True
    is_used[size] = False
    used = np.flatnonzero(is_used)
    rank = np.full(size + 1, -1, dtype=np.int64)
    rank[used] = np.arange(len(used))
    return used, rank[codes]


def without_negative_zero(array: Array) -> Array:
    """Return the values with 0.0 in place of -0.0, for grouping."""
    if not pa.types.is_floating(array.type):
        return array
    result: Array = pc.add(array, pa.scalar(0.0, array.type))
    return result


def _equal_texts(values: Array, positions: Codes, texts: Array, rows: Codes) -> Mask:
    equal: Any = pc.equal(values.take(pa.array(positions)), texts.take(pa.array(rows)))
    mask: Mask = equal.to_numpy(zero_copy_only=False)
    return mask
