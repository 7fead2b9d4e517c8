"""Adjacency as one object below `__graph_index/`: a header, and the arrays one after another.

Everything here is derived: an object that is missing, damaged, of another version or of another layout is as good as
none, and is built again from the edge table. The header names the table, the Lance branch, the version and the number
of edges, and has checksums of the names of the table's files and of the arrays; all of it is verified before an array
is used. The names tell the version from the same number in a backup that was restored. Objects are created, never
changed: two writers of one version write the same.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.adjacency import Adjacency, Side
from omnigraph.engine.domain import Array, Domain
from omnigraph.graph.layout import GRAPH_INDEX
from omnigraph.graph.records import TableRecord
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

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
    one_type = adjacency.sources is adjacency.targets
    domains = [adjacency.sources] if one_type else [adjacency.sources, adjacency.targets]
    arrays: list[npt.NDArray[Any]] = []
    for domain in domains:
        arrays.extend(_text_arrays(domain.array))
    for side in (adjacency.by_source, adjacency.by_target):
        arrays.extend((side.starts, side.far, side.rows))
    payload = b"".join(_padded(array.tobytes()) for array in arrays)
    header = {
        **_identity(table),
        "one_type": one_type,
        "arrays": [[array.dtype.str, len(array)] for array in arrays],
        "checksum": zlib.crc32(payload),
    }
    head = _padded(json.dumps(header).encode())
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
        one_type, described, checksum = bool(header["one_type"]), header["arrays"], header["checksum"]
    except (ValueError, KeyError, TypeError):
        return None
    payload = memoryview(data)[start + size :]
    if not is_ours or zlib.crc32(payload) != checksum:
        return None
    arrays = _arrays(payload, described)
    return None if arrays is None else _adjacency(arrays, table.record.row_count, one_type=one_type)


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


def _padded(data: bytes) -> bytes:
    return data + b" " * (-len(data) % _ALIGNED)


def _arrays(payload: memoryview, described: Any) -> list[npt.NDArray[Any]] | None:
    """The arrays that the header describes; None if they are not exactly the payload."""
    found, at = [], 0
    for kind, length in described:
        size = np.dtype(kind).itemsize * length
        if at + size > len(payload):
            return None
        found.append(np.frombuffer(payload, dtype=kind, count=length, offset=at))
        at += size + (-size % _ALIGNED)
    return found if at == len(payload) else None


def _adjacency(arrays: list[npt.NDArray[Any]], edges: int, *, one_type: bool) -> Adjacency | None:
    if len(arrays) != (8 if one_type else 10):
        return None
    sources = _domain(arrays[0], arrays[1])
    targets = sources if one_type else _domain(arrays[2], arrays[3])
    by_source = _side(arrays[-6:-3], (sources, targets), edges)
    by_target = _side(arrays[-3:], (targets, sources), edges)
    if by_source is None or by_target is None:
        return None
    return Adjacency(sources, targets, by_source, by_target)


def _side(arrays: list[npt.NDArray[Any]], ends: tuple[Domain, Domain], edges: int) -> Side | None:
    starts, far, rows = arrays
    if len(starts) != len(ends[0]) + 1 or len(far) != edges or len(rows) != edges:
        return None
    return Side(starts, far, rows, len(ends[1]))


def _domain(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> Domain:
    first: Any = offsets
    second: Any = data
    buffers = [None, pa.py_buffer(first), pa.py_buffer(second)]
    texts: Any = pa.Array.from_buffers(pa.utf8(), len(offsets) - 1, buffers)
    return Domain(texts, is_unique=True)
