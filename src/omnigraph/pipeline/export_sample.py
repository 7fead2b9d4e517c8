"""What a worker does before a large table is cut into parts: read its ids once.

In: slices of a table. Out: a `Sample`. Only the id column is read, and the whole of a few rows, chosen by the hashes of
their ids as the cuts are. Safe to repeat: nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.integrity.raw import ID, Column
from omnigraph.integrity.text_hash import hash_texts
from omnigraph.pipeline.export_plan import ExportTable, Sample, Zone, cut_distance, zone_rows
from omnigraph.pipeline.export_rows import measured_bytes
from omnigraph.schema import arrow_schema
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.row_slices import RowSlice, read_slice

_ROWS_AT_ONCE: Final = 256
_CUTS_PER_WEIGHED: Final = np.uint64(4)


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Slices of one table to look at."""

    table: ExportTable
    slices: tuple[RowSlice, ...]


def sample_ids(task: SampleTask) -> Sample:
    """Look at the ids of some slices."""
    dataset = task.table.version.open()
    distance = np.uint64(cut_distance(task.table.rows))
    zones: list[Zone] = []
    cuts: list[str] = []
    places: list[int] = []
    for piece in task.slices:
        done = 0
        for batch in read_slice(dataset, piece, [ID], limits.EXPORT_BATCH_ROWS_MAX):
            ids = batch.column(ID)
            here = RowSlice(piece.fragment, piece.start + done, len(ids), piece.index + done)
            zones += _zones(ids, here, zone_rows(task.table.rows))
            hashes = hash_texts(ids)
            chosen = pa.array(np.flatnonzero(hashes % distance == 0))
            cuts += [str(cut) for cut in ids.take(chosen).to_pylist()]
            places += (np.flatnonzero(hashes % (distance * _CUTS_PER_WEIGHED) == 0) + here.index).tolist()
            done += len(ids)
    weight = _text_bytes(dataset, task.table, places)
    return Sample(tuple(zones), tuple(cuts), len(places), weight)


def _zones(ids: Column, here: RowSlice, rows: int) -> Iterator[Zone]:
    for at in range(0, len(ids), rows):
        some = ids.slice(at, rows)
        extremes = pc.min_max(some).as_py()
        piece = RowSlice(here.fragment, here.start + at, len(some), here.index + at)
        yield Zone(piece, extremes["min"], extremes["max"])


def _text_bytes(dataset: Dataset, table: ExportTable, places: Sequence[int]) -> int:
    """How long the lines of these rows are, all together."""
    columns = arrow_schema(table.entity).names
    total = 0
    for start in range(0, len(places), _ROWS_AT_ONCE):
        rows = dataset.take(places[start : start + _ROWS_AT_ONCE], columns)
        total += sum(measured_bytes(table.entity, batch) for batch in rows.to_batches())
    return total
