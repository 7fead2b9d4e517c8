"""Key files: workers sort rows into hash buckets, so that one later task gets all rows with the same key.

In: batches, each of a named section and with the text column that chooses the bucket. Out: files in the scratch
directory, and for each a `KeyFile` with the offsets of every bucket of every section. Rows of one bucket keep their
order. A writer holds a bounded number of bytes before it starts another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import Column, Rows, whole_array
from omnigraph.arrow.hashing import bucket_of
from omnigraph.arrow.ipc import encode_batches
from omnigraph.base import limits
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.set_rules import unique_keys
from omnigraph.schema.catalog import Cardinality, EdgeType, Entity


@dataclass(frozen=True, slots=True)
class Buckets:
    """A scratch directory for keys, and the number of buckets."""

    scratch: Scratch
    count: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The piece of an input file that the rows of a key file are from; empty for rows of the graph."""

    name: str = ""
    part: int = 0


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One file. For each section the offsets of its buckets as 64-bit numbers, one more than there are buckets."""

    origin: Origin
    path: str
    offsets: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class KeySlice:
    """The rows of one section and one bucket in one file."""

    origin: Origin
    path: str
    start: int
    length: int


@dataclass(slots=True, kw_only=True)
class KeyWriter:
    """Writes rows to key files. `finish` returns all of them."""

    buckets: Buckets
    origin: Origin = Origin()  # a frozen value
    files: list[KeyFile] = field(default_factory=list)
    pending: dict[str, list[tuple[pa.RecordBatch, Rows]]] = field(default_factory=dict)
    pending_bytes: int = 0

    def add(self, section: str, keys: Column, rows: pa.RecordBatch) -> None:
        """Add rows of a section. Rows with a null key belong to bucket 0."""
        where = np.where(np.asarray(keys.is_valid()), bucket_of(keys, self.buckets.count), 0)
        self.add_to(section, where.astype(np.int64), rows)

    def add_to(self, section: str, buckets: Rows, rows: pa.RecordBatch) -> None:
        """Add rows of a section, each to the given bucket."""
        if not rows.num_rows:
            return
        self.pending.setdefault(section, []).append((rows, buckets))
        self.pending_bytes += rows.nbytes
        if self.pending_bytes >= limits.LOAD_KEY_FILE_BYTES:
            self._flush()

    def finish(self) -> tuple[KeyFile, ...]:
        if self.pending:
            self._flush()
        return tuple(self.files)

    def _flush(self) -> None:
        data = bytearray()
        offsets = {}
        for section in sorted(self.pending):
            offsets[section] = _append_section(data, self.pending[section], self.buckets)
        path = self.buckets.scratch.write("keys", bytes(data))
        self.files.append(KeyFile(self.origin, path, offsets))
        self.pending, self.pending_bytes = {}, 0


def _append_section(data: bytearray, parts: Sequence[tuple[pa.RecordBatch, Rows]], buckets: Buckets) -> bytes:
    """Append the buckets, each as one Arrow stream; return their offsets."""
    compressed = not buckets.scratch.location.is_local
    table = pa.Table.from_batches([rows for rows, _ in parts]).combine_chunks()
    where = np.concatenate([buckets_of_rows for _, buckets_of_rows in parts])
    order = np.argsort(where, kind="stable")
    ordered = table.take(pa.array(order))
    ends = np.cumsum(np.bincount(where, minlength=buckets.count))
    offsets, first = [len(data)], 0
    for last in ends.tolist():
        if last > first:
            part = ordered.slice(first, last - first)
            data += encode_batches(part.schema, part.to_batches(), compressed=compressed)
        offsets.append(len(data))
        first = last
    return np.array(offsets, dtype=np.int64).tobytes()


def read_slices(scratch: Scratch, slices: Iterable[KeySlice]) -> Iterator[tuple[Origin, pa.Table]]:
    """Read the rows of slices, in their order."""
    for key_slice in slices:
        data = scratch.read(key_slice.path, key_slice.start, key_slice.length)
        yield key_slice.origin, pa.ipc.open_stream(data).read_all()


def slices_of(files: Iterable[KeyFile], section: str, bucket: int) -> tuple[KeySlice, ...]:
    """Return where the rows of a section and a bucket are, in the order of the files."""
    slices = []
    for file in files:
        if section in file.offsets:
            start, end = np.frombuffer(file.offsets[section], dtype=np.int64)[bucket : bucket + 2].tolist()
            if end > start:
                slices.append(KeySlice(file.origin, file.path, start, end - start))
    return tuple(slices)


LINE: Final = "omnigraph:line"
KEY: Final = "key"
ENDPOINTS: Final = ("src", "dst")


def input_section(alias: str, content: str) -> str:
    """Return the section for rows of the input. `content`: `id`, `src`, `dst`, or `unique` and a number."""
    return f"input {content} {alias}"


def graph_section(alias: str, content: str) -> str:
    """Return the section for rows of the graph. `moved` has the addresses of rows that a merge replaces."""
    return f"graph {content} {alias}"


def compared_columns(entity: Entity) -> list[str]:
    """Return the columns of graph rows that the rules compare with rows of the same type."""
    sources = ["src"] if has_edge_limit(entity) else []
    uniques = [name for names in entity.rules.uniques for name in names]
    return list(dict.fromkeys(["id", *sources, *uniques]))


def has_edge_limit(entity: Entity) -> bool:
    """Return whether the schema limits the number of edges per source."""
    return isinstance(entity, EdgeType) and entity.cardinality != Cardinality()


def unique_key(entity: Entity, number: int, rows: pa.RecordBatch | pa.Table) -> Column:
    """Return the values that a `@unique` of the type compares."""
    return unique_keys([whole_array(rows.column(name)) for name in entity.rules.uniques[number]])


def add_input_keys(
    writer: KeyWriter, entity: Entity, rows: pa.RecordBatch, lines: np.ndarray[Any, Any], *, whole: bool
) -> None:
    """Add the keys of input rows, each with its line; with `whole`, the complete rows with their ids."""
    alias = entity.alias
    numbers = pa.array(lines, pa.int64())
    ids = rows.column("id")
    with_ids = (rows if whole else rows.select(["id"])).append_column(LINE, numbers)
    # A row without an id gets a new one, which is unique.
    compared = with_ids if whole or not ids.null_count else with_ids.filter(ids.is_valid())
    writer.add(input_section(alias, "id"), compared.column("id"), compared)
    for end in ENDPOINTS if isinstance(entity, EdgeType) else ():
        writer.add(input_section(alias, end), rows.column(end), make_key_batch(rows.column(end), LINE, numbers))
    for number in range(len(entity.rules.uniques)):
        keys = unique_key(entity, number, rows)
        writer.add(input_section(alias, f"unique{number}"), keys, make_key_batch(keys, LINE, numbers))


def make_key_batch(keys: Column, name: str, values: Column) -> pa.RecordBatch:
    """Return a batch of keys with one value for each."""
    return pa.RecordBatch.from_arrays([keys, values], names=[KEY, name])


def whole_column(table: pa.Table, name: str) -> Column:
    """Return a column of a table as one array."""
    return whole_array(table.column(name))
