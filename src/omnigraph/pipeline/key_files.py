"""Key files: rows that workers sort into hash buckets, so that all rows with one key meet in one task later.

In: batches, each of a named section and with the column of text that decides the bucket. Out: files in the scratch
folder of the operation, and for each a `KeyFile` that says where every section has the rows of every bucket. Rows of
one bucket keep their order. A writer holds a bounded number of bytes before it begins another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.raw import Column, Rows
from omnigraph.integrity.text_hash import bucket_of
from omnigraph.pipeline.packed_stream import packed_stream


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where keys go: a scratch folder and the number of buckets."""

    scratch: Scratch
    count: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What the rows of a key file are of: a piece of an input file, or nothing that has lines."""

    name: str = ""
    part: int = 0


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One file. For each section the offsets of its buckets as 64-bit numbers, one more than there are buckets."""

    origin: Origin
    path: str
    offsets: Mapping[str, bytes]

    def slice_of(self, section: str, bucket: int) -> KeySlice | None:
        """Where the rows of a bucket are; None when there are none."""
        packed = self.offsets.get(section)
        if packed is None:
            return None
        start, end = np.frombuffer(packed, dtype=np.int64)[bucket : bucket + 2].tolist()
        return KeySlice(self.origin, self.path, start, end - start) if end > start else None


@dataclass(frozen=True, slots=True)
class KeySlice:
    """The rows of one section and one bucket in one file."""

    origin: Origin
    path: str
    start: int
    length: int


@dataclass(slots=True)
class KeyWriter:
    """Writes rows as key files. `finish` gives all of them."""

    buckets: Buckets
    origin: Origin = Origin()  # a frozen value
    files: list[KeyFile] = field(default_factory=list)
    waiting: dict[str, list[tuple[pa.RecordBatch, Rows]]] = field(default_factory=dict)
    waiting_bytes: int = 0

    def add(self, section: str, keys: Column, rows: pa.RecordBatch) -> None:
        """Rows of a section; the row with a null key belongs to bucket 0."""
        where = np.where(np.asarray(keys.is_valid()), bucket_of(keys, self.buckets.count), 0)
        self.add_to(section, where.astype(np.int64), rows)

    def add_to(self, section: str, buckets: Rows, rows: pa.RecordBatch) -> None:
        """Rows of a section whose buckets are known."""
        if not rows.num_rows:
            return
        self.waiting.setdefault(section, []).append((rows, buckets))
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= limits.LOAD_KEY_FILE_BYTES:
            self._flush()

    def finish(self) -> tuple[KeyFile, ...]:
        if self.waiting:
            self._flush()
        return tuple(self.files)

    def _flush(self) -> None:
        data = bytearray()
        offsets = {}
        for section in sorted(self.waiting):
            offsets[section] = _append_section(data, self.waiting[section], self.buckets.count)
        path = self.buckets.scratch.write("keys", bytes(data))
        self.files.append(KeyFile(self.origin, path, offsets))
        self.waiting, self.waiting_bytes = {}, 0


def _append_section(data: bytearray, parts: Sequence[tuple[pa.RecordBatch, Rows]], buckets: int) -> bytes:
    """Write the buckets one after the other, each an Arrow stream of its own; where each begins."""
    table = pa.Table.from_batches([rows for rows, _ in parts]).combine_chunks()
    where = np.concatenate([found for _, found in parts])
    order = np.argsort(where, kind="stable")
    ordered = table.take(pa.array(order))
    ends = np.cumsum(np.bincount(where, minlength=buckets))
    offsets, first = [len(data)], 0
    for last in ends.tolist():
        if last > first:
            part = ordered.slice(first, last - first)
            data += packed_stream(part.schema, part.to_batches())
        offsets.append(len(data))
        first = last
    return np.array(offsets, dtype=np.int64).tobytes()


def read_slices(scratch: Scratch, slices: Iterable[KeySlice]) -> Iterator[tuple[Origin, pa.Table]]:
    """The rows of slices, in their order."""
    for found in slices:
        data = scratch.read(found.path, found.start, found.length)
        yield found.origin, pa.ipc.open_stream(data).read_all()


def slices_of(files: Iterable[KeyFile], section: str, bucket: int) -> tuple[KeySlice, ...]:
    """Where the rows of a section and a bucket are, in the order of the files."""
    found = (file.slice_of(section, bucket) for file in files)
    return tuple(one for one in found if one is not None)
