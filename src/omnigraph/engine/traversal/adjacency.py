"""The edges of one table version by their ends: for each node its neighbours, in both directions.

Comes in: the ids of the ends of all edges, in the order of the table. Goes out: arrays over the positions of a domain
of end ids, in compressed rows: the neighbours of node `n` are `far[starts[n] : starts[n + 1]]`, sorted, with the table
row of each edge beside them. Immutable, like the version it is made from.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.columns.dictionary import Array, Codes, Mask, ValueDictionary, distinct_numbers
from omnigraph.graph.manifest.layout import GRAPH_INDEX
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.query.plan import operators as op
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


@dataclass(frozen=True)
class AdjacencySide:
    """The edges at each node, seen from one end. Parallel edges stand beside each other."""

    starts: Codes
    far: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    far_size: int

    @cached_property
    def distinct(self) -> Neighbours:
        """Each neighbour once."""
        if len(self.far) < 2:
            return Neighbours(self.starts, self.far, self.far_size)
        first = np.empty(len(self.far), dtype=np.bool_)
        first[0] = True
        np.not_equal(self.far[1:], self.far[:-1], out=first[1:])
        begins = self.starts[:-1]
        first[begins[begins < len(first)]] = True
        if first.all():
            return Neighbours(self.starts, self.far, self.far_size)
        before = np.zeros(len(first) + 1, dtype=np.int64)
        np.cumsum(first, out=before[1:])
        return Neighbours(before[self.starts], self.far[first], self.far_size)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.far.nbytes + self.rows.nbytes


@dataclass(frozen=True)
class Neighbours:
    """The distinct neighbours of each node, sorted."""

    starts: Codes
    far: npt.NDArray[np.int32]
    far_size: int

    @cached_property
    def degrees(self) -> Codes:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    @cached_property
    def pairs(self) -> Codes:
        """Every pair of neighbours as one number, sorted."""
        near = np.repeat(np.arange(len(self.starts) - 1), self.degrees)
        return near * self.far_size + self.far

    def contains(self, near: Codes, far: Codes) -> Mask:
        """Whether each pair is one of neighbours; -1 never is."""
        if not len(self.far):
            return np.zeros(len(near), dtype=np.bool_)
        asked = near * self.far_size + far
        at = np.minimum(np.searchsorted(self.pairs, asked), len(self.pairs) - 1)
        found: Mask = (self.pairs[at] == asked) & (near >= 0) & (far >= 0)
        return found


@dataclass(frozen=True)
class Adjacency:
    """All edges of a table version. Where both ends are of one type they share a domain."""

    sources: ValueDictionary
    targets: ValueDictionary
    by_source: AdjacencySide
    by_target: AdjacencySide

    def near(self, direction: op.Direction) -> ValueDictionary:
        """The domain that a traversal starts in."""
        return self.targets if direction is op.Direction.IN else self.sources

    def far(self, direction: op.Direction) -> ValueDictionary:
        """The domain that it leads to."""
        return self.sources if direction is op.Direction.IN else self.targets

    def side(self, direction: op.Direction) -> AdjacencySide:
        """The edges in one of the two directions."""
        assert direction is not op.Direction.BOTH, "both directions are two sides"
        return self.by_target if direction is op.Direction.IN else self.by_source

    def neighbours(self, direction: op.Direction) -> Neighbours:
        """The distinct neighbours in a direction, or in both."""
        if direction is op.Direction.BOTH:
            return self._undirected
        return self.side(direction).distinct

    @cached_property
    def _undirected(self) -> Neighbours:
        size = len(self.sources)
        pairs = distinct_numbers(
            np.concatenate([self.by_source.distinct.pairs, self.by_target.distinct.pairs])
        )
        return Neighbours(_starts(pairs // max(size, 1), size), (pairs % max(size, 1)).astype(np.int32), size)

    @cached_property
    def source_codes(self) -> Codes:
        """The source of each edge, in the order of the table."""
        return self._endpoint_codes(self.by_source)

    @cached_property
    def target_codes(self) -> Codes:
        """The target of each edge, in the order of the table."""
        return self._endpoint_codes(self.by_target)

    @property
    def nbytes(self) -> int:
        """With room for what is worked out later: pairs and distinct neighbours."""
        dictionaries = {id(found): found.nbytes for found in (self.sources, self.targets)}
        return 3 * (self.by_source.nbytes + self.by_target.nbytes) + sum(dictionaries.values())

    def _endpoint_codes(self, side: AdjacencySide) -> Codes:
        found = np.empty(len(side.rows), dtype=np.int64)
        found[side.rows] = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
        return found


def build_adjacency(sources: Array, targets: Array, *, same_type: bool) -> Adjacency:
    """The adjacency of edges with these ends; `same_type` says that both ends are of the same type."""
    if same_type:
        both: Any = pa.chunked_array([sources, targets], type=pa.utf8())
        codes, dictionary = _encode(both)
        near, far = codes[: len(sources)], codes[len(sources) :]
        dictionaries = (dictionary, dictionary)
    else:
        near, first = _encode(pa.chunked_array([sources], type=pa.utf8()))
        far, second = _encode(pa.chunked_array([targets], type=pa.utf8()))
        dictionaries = (first, second)
    return Adjacency(
        *dictionaries,
        by_source=_make_side(near, far, (len(dictionaries[0]), len(dictionaries[1]))),
        by_target=_make_side(far, near, (len(dictionaries[1]), len(dictionaries[0]))),
    )


def _encode(texts: Any) -> tuple[Codes, ValueDictionary]:
    encoded: Any = texts.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.utf8()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, ValueDictionary(encoded.dictionary, is_unique=True)


def _make_side(near: Codes, far: Codes, sizes: tuple[int, int]) -> AdjacencySide:
    order = _sort_order(near * max(sizes[1], 1) + far, sizes[0] * sizes[1])
    starts = _starts(near[order], sizes[0])
    return AdjacencySide(starts, far[order].astype(np.int32), order.astype(np.int32), sizes[1])


def _sort_order(keys: Codes, size: int) -> Codes:
    """The places of the keys in order. Sorting numbers is many times faster than sorting places by numbers."""
    bits = len(keys).bit_length()
    if size.bit_length() + bits > 63:
        return np.argsort(keys)
    packed = np.sort(keys << bits | np.arange(len(keys)))
    return packed & ((1 << bits) - 1)


def _starts(ordered: Codes, size: int) -> Codes:
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(ordered, minlength=size), out=starts[1:])
    return starts


_MAGIC: Final = b"OGADJ001"
_LENGTH_BYTES: Final = 8
_ALIGNED: Final = 8


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """An edge table as published, and the open dataset of that version."""

    record: TableRecord
    dataset: Dataset


def adjacency_path(record: TableRecord) -> str:
    """Where the adjacency of a published version lies."""
    branch = record.pin.branch or "main"
    return f"{GRAPH_INDEX}/{record.type_id}-{record.incarnation}/{branch}-{record.pin.version}.adj"


def write_adjacency(root: Location, table: PublishedTable, adjacency: Adjacency) -> bool:
    """Persist the adjacency of a version; False if it is there already."""
    path, data = adjacency_path(table.record), encode_adjacency(table, adjacency)
    return ObjectStore(root).create(path, data, durable=False)


def read_adjacency(root: Location, table: PublishedTable) -> Adjacency | None:
    """The persisted adjacency of a version, verified; None if there is none that can be believed."""
    data = ObjectStore(root).read(adjacency_path(table.record))
    return None if data is None else decode_adjacency(table, data)


def encode_adjacency(table: PublishedTable, adjacency: Adjacency) -> bytes:
    """The object of an adjacency."""
    same_type = adjacency.sources is adjacency.targets
    dictionaries = [adjacency.sources] if same_type else [adjacency.sources, adjacency.targets]
    arrays: list[npt.NDArray[Any]] = []
    for dictionary in dictionaries:
        arrays.extend(_text_arrays(dictionary.array))
    for side in (adjacency.by_source, adjacency.by_target):
        arrays.extend((side.starts, side.far, side.rows))
    payload = b"".join(_pad(array.tobytes()) for array in arrays)
    header = {
        **_identity(table),
        "one_type": same_type,
        "arrays": [[array.dtype.str, len(array)] for array in arrays],
        "checksum": zlib.crc32(payload),
    }
    head = _pad(json.dumps(header).encode())
    return _MAGIC + len(head).to_bytes(_LENGTH_BYTES, "little") + head + payload


def decode_adjacency(table: PublishedTable, data: bytes) -> Adjacency | None:
    """The adjacency that an object holds, or None if it is not that of this version or not whole."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if not data.startswith(_MAGIC) or len(data) < start:
        return None
    size = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header = json.loads(data[start : start + size])
        identity = _identity(table)
        is_ours = {name: header[name] for name in identity} == identity
        same_type, described, checksum = bool(header["one_type"]), header["arrays"], header["checksum"]
    except (ValueError, KeyError, TypeError):
        return None
    payload = memoryview(data)[start + size :]
    if not is_ours or zlib.crc32(payload) != checksum:
        return None
    arrays = _decode_arrays(payload, described)
    return None if arrays is None else _make_adjacency(arrays, table.record.row_count, same_type=same_type)


def _identity(table: PublishedTable) -> dict[str, str | int | None]:
    record = table.record
    return {
        "table": record.id,
        "branch": record.pin.branch,
        "version": record.pin.version,
        "edges": record.row_count,
        "files": hashlib.sha256("\n".join(table.dataset.row_files()).encode()).hexdigest(),
    }


def _text_arrays(texts: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The offsets and the bytes of texts, from the first one on."""
    whole: Any = texts
    _, offset_buffer, data_buffer = whole.buffers()
    if not len(texts):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[whole.offset : whole.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def _pad(data: bytes) -> bytes:
    return data + b" " * (-len(data) % _ALIGNED)


def _decode_arrays(payload: memoryview, described: Any) -> list[npt.NDArray[Any]] | None:
    """The arrays that the header describes; None if they are not exactly the payload."""
    found, at = [], 0
    for kind, length in described:
        size = np.dtype(kind).itemsize * length
        if at + size > len(payload):
            return None
        found.append(np.frombuffer(payload, dtype=kind, count=length, offset=at))
        at += size + (-size % _ALIGNED)
    return found if at == len(payload) else None


def _make_adjacency(arrays: list[npt.NDArray[Any]], edges: int, *, same_type: bool) -> Adjacency | None:
    if len(arrays) != (8 if same_type else 10):
        return None
    sources = _decode_dictionary(arrays[0], arrays[1])
    targets = sources if same_type else _decode_dictionary(arrays[2], arrays[3])
    by_source = _decode_side(arrays[-6:-3], (sources, targets), edges)
    by_target = _decode_side(arrays[-3:], (targets, sources), edges)
    if by_source is None or by_target is None:
        return None
    return Adjacency(sources, targets, by_source, by_target)


def _decode_side(
    arrays: list[npt.NDArray[Any]], ends: tuple[ValueDictionary, ValueDictionary], edges: int
) -> AdjacencySide | None:
    starts, far, rows = arrays
    if len(starts) != len(ends[0]) + 1 or len(far) != edges or len(rows) != edges:
        return None
    return AdjacencySide(starts, far, rows, len(ends[1]))


def _decode_dictionary(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> ValueDictionary:
    first: Any = offsets
    second: Any = data
    buffers = [None, pa.py_buffer(first), pa.py_buffer(second)]
    texts: Any = pa.Array.from_buffers(pa.utf8(), len(offsets) - 1, buffers)
    return ValueDictionary(texts, is_unique=True)
