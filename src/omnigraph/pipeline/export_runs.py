"""Runs: the rows of a table whose ids lie in no order, sorted a piece at a time and cut where the parts are.

In: slices that fit memory together, and the bounds of the parts. Out: one file in scratch, which has the rows of each
part in one place, and where that is. Rows are read from the table once and written once; a part then reads its pieces
of all runs. Safe to repeat: a second attempt writes another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import IOBase
from itertools import pairwise
from typing import cast

import pyarrow as pa

from omnigraph.base.ids import new_ulid
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.raw import ID
from omnigraph.pipeline.export_plan import ExportTable
from omnigraph.pipeline.export_rows import ordered, read_slices
from omnigraph.pipeline.id_order import place_of
from omnigraph.storage.byte_sink import write_file
from omnigraph.storage.row_slices import RowSlice


@dataclass(frozen=True, slots=True)
class RunTask:
    """Rows to sort, and where the second part begins and each after it."""

    table: ExportTable
    slices: tuple[RowSlice, ...]
    batch_rows: int
    bounds: tuple[str, ...]
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class RunPiece:
    """The rows of one part in one run: some bytes of a file in scratch."""

    name: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Run:
    """The pieces of one run by the number of their part."""

    pieces: dict[int, RunPiece]


def write_run(task: RunTask) -> Run:
    """Sort some rows."""
    rows = ordered(list(read_slices(task.table.version.open(), task.table, task.slices, task.batch_rows)))
    if rows is None:
        return Run({})
    ids = rows.column(ID)
    places = [0, *(place_of(ids, bound) for bound in task.bounds), rows.num_rows]
    name = f"run-{new_ulid()}"
    pieces = {}
    with write_file(task.scratch.location.child(name)) as file:
        for part, (start, end) in enumerate(pairwise(places)):
            if end > start:
                begin, sink = file.tell(), cast(IOBase, file)
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_batch(rows.slice(start, end - start))
                pieces[part] = RunPiece(name, begin, file.tell() - begin)
    return Run(pieces)


def read_runs(scratch: Scratch, pieces: Iterable[RunPiece]) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, each in its own order."""
    for piece in pieces:
        stream = pa.ipc.open_stream(scratch.read(piece.name, piece.start, piece.length))
        yield from stream
