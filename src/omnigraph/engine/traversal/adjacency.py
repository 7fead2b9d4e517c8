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

from omnigraph.arrow.columns import text_buffers
from omnigraph.engine.columns.dictionary import (
    Array,
    Codes,
    Mask,
    ValueDictionary,
    distinct_numbers,
    encode_values,
    in_sorted,
)
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
        first, starts = self._first_edges
        return Neighbours(starts, self.far if starts is self.starts else self.far[first], self.far_size)

    @cached_property
    def degrees(self) -> Codes:
        """The number of distinct neighbours of each node."""
        return np.diff(self._first_edges[1])

    @cached_property
    def _first_edges(self) -> tuple[Mask, Codes]:
        """Return which edges are the first ones to their neighbour, and the starts of nodes among those."""
        first = np.ones(len(self.far), dtype=np.bool_)
        np.not_equal(self.far[1:], self.far[:-1], out=first[1:])
        begins = self.starts[:-1]
        first[begins[begins < len(first)]] = True
        repeated = np.flatnonzero(~first)
        return first, self.starts - np.searchsorted(repeated, self.starts) if len(repeated) else self.starts

    @cached_property
    def near(self) -> Codes:
        """The node of each edge, in the order of the table."""
        codes = np.empty(len(self.rows), dtype=np.int64)
        codes[self.rows] = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return codes

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
        return in_sorted(near * self.far_size + far, self.pairs) & (near >= 0) & (far >= 0)


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

    def degrees(self, direction: op.Direction) -> Codes:
        """Return the number of distinct neighbours of each node in a direction, or in both."""
        return self._undirected.degrees if direction is op.Direction.BOTH else self.side(direction).degrees

    @cached_property
    def _undirected(self) -> Neighbours:
        size = len(self.sources)
        pairs = distinct_numbers(np.concatenate([self.by_source.distinct.pairs, self.by_target.distinct.pairs]))
        return Neighbours(_starts(pairs // max(size, 1), size), (pairs % max(size, 1)).astype(np.int32), size)

    @property
    def nbytes(self) -> int:
        """The bytes, including those of pairs and distinct neighbours, which are computed later."""
        dictionaries = {id(endpoints): endpoints.nbytes for endpoints in (self.sources, self.targets)}
        return 3 * (self.by_source.nbytes + self.by_target.nbytes) + sum(dictionaries.values())


def build_adjacency(sources: Array, targets: Array, *, same_type: bool) -> Adjacency:
    """Return the adjacency of edges with these endpoints; `same_type`: both endpoints have one node type."""
    if same_type:
        codes, source_ids = encode_values(pa.chunked_array([sources, targets], type=pa.utf8()))
        near, far = codes[: len(sources)], codes[len(sources) :]
        target_ids = source_ids
    else:
        near, source_ids = encode_values(sources)
        far, target_ids = encode_values(targets)
    return Adjacency(
        source_ids,
        target_ids,
        by_source=_make_side(near, far, len(source_ids), len(target_ids)),
        by_target=_make_side(far, near, len(target_ids), len(source_ids)),
    )


def _make_side(near: Codes, far: Codes, near_size: int, far_size: int) -> AdjacencySide:
    order = _sort_order(near * max(far_size, 1) + far, near_size * far_size)
    starts = _starts(near[order], near_size)
    return AdjacencySide(starts, far[order].astype(np.int32), order.astype(np.int32), far_size)


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


def adjacency_path(record: TableRecord) -> str:
    """Return the path of the file of a published version."""
    branch = record.pin.branch or "main"
    return f"{GRAPH_INDEX}/{record.type_id}-{record.incarnation}/{branch}-{record.pin.version}.adj"


def write_adjacency(root: Location, record: TableRecord, dataset: Dataset, adjacency: Adjacency) -> bool:
    """Write the file of a published version, whose dataset is open; False if the file exists."""
    data = encode_adjacency(record, dataset, adjacency)
    return ObjectStore(root).create(adjacency_path(record), data, durable=False)


def read_adjacency(root: Location, record: TableRecord, dataset: Dataset) -> Adjacency | None:
    """Read the file of a published version, whose dataset is open; None if the file does not exist or is invalid."""
    data = ObjectStore(root).read(adjacency_path(record))
    return None if data is None else decode_adjacency(record, dataset, data)


def encode_adjacency(record: TableRecord, dataset: Dataset, adjacency: Adjacency) -> bytes:
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
        **_identity(record, dataset),
        "one_type": same_type,
        "arrays": [[array.dtype.str, len(array)] for array in arrays],
        "checksum": zlib.crc32(payload),
    }
    head = _pad(json.dumps(header).encode())
    return _MAGIC + len(head).to_bytes(_LENGTH_BYTES, "little") + head + payload


def decode_adjacency(record: TableRecord, dataset: Dataset, data: bytes) -> Adjacency | None:
    """Return the adjacency of a file; None if the file is incomplete or of another version."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if not data.startswith(_MAGIC) or len(data) < start:
        return None
    size = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header = json.loads(data[start : start + size])
        identity = _identity(record, dataset)
        is_this_version = {name: header[name] for name in identity} == identity
        same_type, described, checksum = bool(header["one_type"]), header["arrays"], header["checksum"]
    except (ValueError, KeyError, TypeError):
        return None
    payload = memoryview(data)[start + size :]
    if not is_this_version or zlib.crc32(payload) != checksum:
        return None
    arrays = _decode_arrays(payload, described)
    if arrays is None or len(arrays) != (8 if same_type else 10):
        return None
    sources = _decode_dictionary(arrays[0], arrays[1])
    targets = sources if same_type else _decode_dictionary(arrays[2], arrays[3])
    by_source = AdjacencySide(arrays[-6], arrays[-5], arrays[-4], len(targets))
    by_target = AdjacencySide(arrays[-3], arrays[-2], arrays[-1], len(sources))
    for side, near in ((by_source, sources), (by_target, targets)):
        if len(side.starts) != len(near) + 1 or {len(side.far), len(side.rows)} != {record.row_count}:
            return None
    return Adjacency(sources, targets, by_source, by_target)


def _identity(record: TableRecord, dataset: Dataset) -> dict[str, str | int | None]:
    return {
        "table": record.id,
        "branch": record.pin.branch,
        "version": record.pin.version,
        "edges": record.row_count,
        "files": hashlib.sha256("\n".join(dataset.row_files()).encode()).hexdigest(),
    }


def _text_arrays(texts: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the offsets and the bytes of texts; the offsets start with 0."""
    offsets, data = text_buffers(texts)
    return (offsets - offsets[0]).astype(np.int32), data[offsets[0] : offsets[-1]]


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


def _decode_dictionary(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> ValueDictionary:
    arrays: tuple[Any, Any] = (offsets, data)
    buffers = [None, *map(pa.py_buffer, arrays)]
    texts: Any = pa.Array.from_buffers(pa.utf8(), len(offsets) - 1, buffers)
    return ValueDictionary(texts, is_unique=True)
