"""The adjacency of one version of an edge table: for each node its neighbours, in both directions; also as a file.

In: the endpoint ids of all edges, in the order of the table. Out: compressed sparse rows over dictionaries of endpoint
ids: the neighbours of node `n` are `far[starts[n] : starts[n + 1]]`, sorted, and `rows` has the table row of each edge.
An adjacency is immutable, like its version. A file is derived data: one that is truncated, or of another version, is
ignored.
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
    """The edges at each node, from one endpoint. Parallel edges are adjacent."""

    starts: Codes
    far: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    far_size: int

    @cached_property
    def distinct(self) -> Neighbours:
        """The distinct neighbours."""
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
        """The number of neighbours of each node."""
        return np.diff(self.starts)

    @cached_property
    def pairs(self) -> Codes:
        """Each pair of neighbours as one number, sorted."""
        near = np.repeat(np.arange(len(self.starts) - 1), self.degrees)
        return near * self.far_size + self.far

    def contains(self, near: Codes, far: Codes) -> Mask:
        """Return whether each pair of nodes are neighbours; -1 never is."""
        if not len(self.far):
            return np.zeros(len(near), dtype=np.bool_)
        pairs = near * self.far_size + far
        slots = np.minimum(np.searchsorted(self.pairs, pairs), len(self.pairs) - 1)
        mask: Mask = (self.pairs[slots] == pairs) & (near >= 0) & (far >= 0)
        return mask


@dataclass(frozen=True)
class Adjacency:
    """All edges of a table version. Endpoints of the same type share a dictionary."""

    sources: ValueDictionary
    targets: ValueDictionary
    by_source: AdjacencySide
    by_target: AdjacencySide

    def near(self, direction: op.Direction) -> ValueDictionary:
        """Return the dictionary of the nodes where a traversal starts."""
        return self.targets if direction is op.Direction.IN else self.sources

    def far(self, direction: op.Direction) -> ValueDictionary:
        """Return the dictionary of the nodes where a traversal ends."""
        return self.sources if direction is op.Direction.IN else self.targets

    def side(self, direction: op.Direction) -> AdjacencySide:
        """Return the edges in one of the two directions."""
        assert direction is not op.Direction.BOTH, "a side has one direction"
        return self.by_target if direction is op.Direction.IN else self.by_source

    def neighbours(self, direction: op.Direction) -> Neighbours:
        """Return the distinct neighbours in a direction, or in both."""
        if direction is op.Direction.BOTH:
            return self._undirected
        return self.side(direction).distinct

    @cached_property
    def _undirected(self) -> Neighbours:
        size = len(self.sources)
        pairs = distinct_numbers(np.concatenate([self.by_source.distinct.pairs, self.by_target.distinct.pairs]))
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
        """The bytes, including those of pairs and distinct neighbours, which are computed later."""
        dictionaries = {id(endpoints): endpoints.nbytes for endpoints in (self.sources, self.targets)}
        return 3 * (self.by_source.nbytes + self.by_target.nbytes) + sum(dictionaries.values())

    def _endpoint_codes(self, side: AdjacencySide) -> Codes:
        codes = np.empty(len(side.rows), dtype=np.int64)
        codes[side.rows] = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
        return codes


def build_adjacency(sources: Array, targets: Array, *, same_type: bool) -> Adjacency:
    """Return the adjacency of edges with these endpoints; `same_type`: both endpoints have one node type."""
    if same_type:
        both: Any = pa.chunked_array([sources, targets], type=pa.utf8())
        codes, dictionary = _encode(both)
        near, far = codes[: len(sources)], codes[len(sources) :]
        dictionaries = (dictionary, dictionary)
    else:
        near, source_ids = _encode(pa.chunked_array([sources], type=pa.utf8()))
        far, target_ids = _encode(pa.chunked_array([targets], type=pa.utf8()))
        dictionaries = (source_ids, target_ids)
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
    """Return the positions of the keys in sorted order. `np.sort` is many times faster than `np.argsort`."""
    bits = len(keys).bit_length()
    if size.bit_length() + bits > 63:
        return np.argsort(keys)
    keys_and_positions = np.sort(keys << bits | np.arange(len(keys)))
    return keys_and_positions & ((1 << bits) - 1)


def _starts(ordered: Codes, size: int) -> Codes:
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(ordered, minlength=size), out=starts[1:])
    return starts


_MAGIC: Final = b"OGADJ001"
_LENGTH_BYTES: Final = 8
_ALIGNMENT: Final = 8


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """An edge table as published, and the open dataset of that version."""

    record: TableRecord
    dataset: Dataset


def adjacency_path(record: TableRecord) -> str:
    """Return the path of the file of a published version."""
    branch = record.pin.branch or "main"
    return f"{GRAPH_INDEX}/{record.type_id}-{record.incarnation}/{branch}-{record.pin.version}.adj"


def write_adjacency(root: Location, table: PublishedTable, adjacency: Adjacency) -> bool:
    """Write the file of a version; False if it exists."""
    path, data = adjacency_path(table.record), encode_adjacency(table, adjacency)
    return ObjectStore(root).create(path, data, durable=False)


def read_adjacency(root: Location, table: PublishedTable) -> Adjacency | None:
    """Read the file of a version; None if it does not exist or is invalid."""
    data = ObjectStore(root).read(adjacency_path(table.record))
    return None if data is None else decode_adjacency(table, data)


def encode_adjacency(table: PublishedTable, adjacency: Adjacency) -> bytes:
    """Return the bytes of the file."""
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
    """Return the adjacency of a file; None if the file is incomplete or of another version."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if not data.startswith(_MAGIC) or len(data) < start:
        return None
    size = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header = json.loads(data[start : start + size])
        identity = _identity(table)
        is_this_version = {name: header[name] for name in identity} == identity
        same_type, described, checksum = bool(header["one_type"]), header["arrays"], header["checksum"]
    except (ValueError, KeyError, TypeError):
        return None
    payload = memoryview(data)[start + size :]
    if not is_this_version or zlib.crc32(payload) != checksum:
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
    """Return the offsets and the bytes of texts; the offsets start with 0."""
    untyped: Any = texts
    _, offset_buffer, data_buffer = untyped.buffers()
    if not len(texts):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[untyped.offset : untyped.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def _pad(data: bytes) -> bytes:
    return data + b" " * (-len(data) % _ALIGNMENT)


def _decode_arrays(payload: memoryview, described: Any) -> list[npt.NDArray[Any]] | None:
    """Return the arrays that the header describes; None if they are not exactly the payload."""
    arrays, offset = [], 0
    for kind, length in described:
        size = np.dtype(kind).itemsize * length
        if offset + size > len(payload):
            return None
        arrays.append(np.frombuffer(payload, dtype=kind, count=length, offset=offset))
        offset += size + (-size % _ALIGNMENT)
    return arrays if offset == len(payload) else None


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
    arrays: list[npt.NDArray[Any]], endpoints: tuple[ValueDictionary, ValueDictionary], edges: int
) -> AdjacencySide | None:
    starts, far, rows = arrays
    if len(starts) != len(endpoints[0]) + 1 or len(far) != edges or len(rows) != edges:
        return None
    return AdjacencySide(starts, far, rows, len(endpoints[1]))


def _decode_dictionary(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> ValueDictionary:
    arrays: tuple[Any, Any] = (offsets, data)
    buffers = [None, *map(pa.py_buffer, arrays)]
    texts: Any = pa.Array.from_buffers(pa.utf8(), len(offsets) - 1, buffers)
    return ValueDictionary(texts, is_unique=True)
