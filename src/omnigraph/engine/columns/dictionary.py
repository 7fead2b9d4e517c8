"""An immutable array that columns refer to by position, and the way from a value back to its position.

The ids of a table version are a domain, and so are the ids of the ends of an edge table; a position there is the dense
id of a node. Lookups go through sorted 64-bit hashes (16 bytes per value) and compare the texts at the end.
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

    Array = pa.Array[Any]
    Scalar = pa.Scalar[Any]
else:
    Array = pa.Array
    Scalar = pa.Scalar
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_FEW: Final = 16


class ValueDictionary:
    """Values by position.

    `is_unique` says that no value occurs twice, as for ids, and that none is null; `is_own` that the values belong to
    the query that made them and not to a cache.
    """

    __slots__ = (
        "__weakref__",
        "_factors",
        "_hashes",
        "_order",
        "_text_index",
        "_translations",
        "array",
        "is_own",
        "is_unique",
        "on_growth",
    )

    def __init__(self, array: Array, *, is_unique: bool = False, is_own: bool = False) -> None:
        self.array = array
        self.is_unique = is_unique
        self.is_own = is_own
        self._hashes: npt.NDArray[np.uint64] | None = None
        self._order: Codes | None = None
        self._factors: tuple[Codes, ValueDictionary] | None = None
        self._text_index: TextIndex | None = None
        self._translations: WeakKeyDictionary[ValueDictionary, Codes] | None = None
        self.on_growth: Callable[[ValueDictionary], None] | None = None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def nbytes(self) -> int:
        """The bytes of the values, of the lookup that they may get, of their words and of the translations."""
        words = 0 if self._text_index is None else self._text_index.nbytes
        translations = 0 if self._translations is None else 8 * len(self.array) * len(self._translations)
        return int(self.array.nbytes) + (16 if self.is_unique else 8) * len(self.array) + words + translations

    def find(self, texts: Array) -> Codes:
        """The position of each text, -1 where it is null or not there. Only for domains of unique texts."""
        assert self.is_unique, "only unique values have one position"
        found = np.full(len(texts), -1, dtype=np.int64)
        if not len(texts) or not len(self.array):
            return found
        hashes, order = self._lookup()
        asked = _hashes_of(texts)
        if len(texts) <= _FEW:
            return self._find_few(texts, asked)
        open_rows = np.arange(len(texts))
        if texts.null_count:
            open_rows = open_rows[texts.is_valid().to_numpy(zero_copy_only=False)]
        at = np.searchsorted(hashes, asked[open_rows])
        while len(open_rows):
            inside = at < len(hashes)
            inside[inside] = hashes[at[inside]] == asked[open_rows[inside]]
            open_rows, at = open_rows[inside], at[inside]
            candidates = order[at]
            same = _equal_texts(self.array, candidates, texts, open_rows)
            found[open_rows[same]] = candidates[same]
            # Two texts with one hash: look at the next one.
            open_rows, at = open_rows[~same], at[~same] + 1
        return found

    def _find_few(self, texts: Array, asked: npt.NDArray[np.uint64]) -> Codes:
        """The same for a few texts, which whole-column operations would take longer for."""
        hashes, order = self._lookup()
        found = np.full(len(texts), -1, dtype=np.int64)
        for row, text in enumerate(texts.to_pylist()):
            at = int(hashes.searchsorted(asked[row]))
            while text is not None and at < len(hashes) and hashes[at] == asked[row]:
                if self.array[int(order[at])].as_py() == text:
                    found[row] = order[at]
                    break
                at += 1
        return found

    def factors(self) -> tuple[Codes, ValueDictionary]:
        """For each position the position of its value among the distinct ones (-1 for null), and those."""
        if self._factors is None:
            encoded: Any = without_negative_zero(self.array).dictionary_encode()
            indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            self._factors = (indices.astype(np.int64), ValueDictionary(encoded.dictionary, is_unique=True))
        return self._factors

    def text_index(self) -> TextIndex:
        """The words of the texts, split once; whoever keeps this domain is told that it has grown."""
        if self._text_index is None:
            from omnigraph.engine.columns.text_index import TextIndex

            self._text_index = TextIndex(self.array)
            if self.on_growth is not None:
                self.on_growth(self)
        return self._text_index

    def translation(self, other: ValueDictionary) -> Codes | None:
        """Return for each position the one in `other`, -1 where it is missing, if `translate` computed it."""
        return None if self._translations is None else self._translations.get(other)

    def translate(self, other: ValueDictionary) -> Codes:
        """Compute and keep the translation, for as long as both domains are in use; report that this one has grown."""
        codes = other.find(self.array)
        if self._translations is None:
            self._translations = WeakKeyDictionary()
        self._translations[other] = codes
        if self.on_growth is not None:
            self.on_growth(self)
        return codes

    @property
    def has_words(self) -> bool:
        """Whether the texts are split already."""
        return self._text_index is not None

    def _lookup(self) -> tuple[npt.NDArray[np.uint64], Codes]:
        if self._hashes is None or self._order is None:
            hashes = _hashes_of(self.array)
            order = np.argsort(hashes)
            self._order = order
            self._hashes = hashes[order]
        return self._hashes, self._order


def _hashes_of(texts: Array) -> npt.NDArray[np.uint64]:
    # Late, because most short runs of the command line look up nothing, and the room has many modules.
    from omnigraph.arrow.hashing import hash_texts

    return hash_texts(texts)


def distinct_numbers(numbers: Codes) -> Codes:
    """The distinct numbers, sorted. `np.unique` hashes them, which takes many times as long as sorting."""
    if len(numbers) < 2:
        return numbers
    ordered = np.sort(numbers)
    kept = np.empty(len(ordered), dtype=np.bool_)
    kept[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered if kept.all() else ordered[kept]


def compact_codes(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """The distinct positions below a bound, sorted, and for each code its place among them; -1 stays -1."""
    if size > 8 * len(codes) + 1024:
        used, inverse = np.unique(codes, return_inverse=True)
        positions: Codes = inverse.reshape(-1)
        return (used[1:], positions - 1) if len(used) and used[0] < 0 else (used, positions)
    there = np.zeros(size + 1, dtype=np.bool_)
    there[codes] = True
    there[size] = False
    used = np.flatnonzero(there)
    rank = np.full(size + 1, -1, dtype=np.int64)
    rank[used] = np.arange(len(used))
    return used, rank[codes]


def without_negative_zero(array: Array) -> Array:
    """The same values, for grouping: -0.0 is equal to 0.0."""
    if not pa.types.is_floating(array.type):
        return array
    answer: Array = pc.add(array, pa.scalar(0.0, array.type))
    return answer


def _equal_texts(values: Array, at: Codes, texts: Array, rows: Codes) -> Mask:
    mine, theirs = values.take(pa.array(at)), texts.take(pa.array(rows))
    equal: Any = pc.equal(mine, theirs)
    mask: Mask = equal.to_numpy(zero_copy_only=False)
    return mask
