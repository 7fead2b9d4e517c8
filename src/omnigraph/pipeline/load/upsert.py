"""A merge that workers write: rows of one bucket replace those of the graph with the same ids, and the others are new.

A row that replaces another keeps its identity, as it does in Lance's own upsert. Moved and new rows are in fragments of
their own, and the rows that they replace are marked as deleted by other tasks, a group of the graph's fragments each.
Nothing references any of it before the one commit. Safe to repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.hashing import HashPrefilter
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.keys import KeySlice, KeyWriter, Section, read_slices
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, DatasetVersion
from omnigraph.storage.lance.read import make_address_table
from omnigraph.storage.lance.stage import (
    Deletions,
    StagedTransaction,
    stage_fragments,
    stage_replacement,
    write_deletions,
    write_moved_rows,
    write_rows,
)


@dataclass(frozen=True, slots=True)
class UpsertPart:
    """What a bucket wrote of one type, and how many of its rows replace others."""

    replaced: int
    fragments: tuple[Any, ...]


def upsert_bucket(
    target: DatasetVersion, alias: str, rows: pa.Table, graph: pa.Table | None, writer: KeyWriter
) -> UpsertPart:
    """Write the rows; the addresses of those that they replace go to the writer."""
    dataset = target.open()
    if graph is None:
        return UpsertPart(0, tuple(write_rows(dataset, rows)))
    at = pc.index_in(_whole(rows, "id"), value_set=_whole(graph, "id"))
    replaced = graph.take(at.drop_null())
    moved, new = rows.filter(at.is_valid()), rows.filter(at.is_null())
    fragments = []
    if moved.num_rows:
        identities = _whole(replaced, IDENTITY).to_pylist()
        fragments += write_moved_rows(dataset, moved, identities)
        addresses = replaced.select([ADDRESS]).combine_chunks().to_batches()[0]
        groups = (np.asarray(addresses.column(0)).astype(np.int64) >> 32) % writer.buckets.count
        writer.add_to(Section(alias, of_graph=True).moved, groups, addresses)
    if new.num_rows:
        fragments += write_rows(dataset, new)
    return UpsertPart(moved.num_rows, tuple(fragments))


def replace_rows(dataset: Dataset, rows: pa.Table) -> tuple[StagedTransaction, int]:
    """The same in this process: the staged rows, and how many of them replace others."""
    ids = _whole(rows, "id")
    every = dataset.read_fragments(list(dataset.fragment_rows()), ["id"], with_identities=True)
    sieve = HashPrefilter(ids)
    likely = [batch.filter(pa.array(sieve.may_have(batch.column("id")))) for batch in every]
    graph = make_address_table(likely)
    at = pc.index_in(ids, value_set=_whole(graph, "id"))
    if at.null_count == len(at):
        return stage_fragments(dataset, write_rows(dataset, rows)), 0
    replaced = graph.take(at.drop_null())
    moved, new = rows.filter(at.is_valid()), rows.filter(at.is_null())
    fragments = write_moved_rows(dataset, moved, _whole(replaced, IDENTITY).to_pylist())
    if new.num_rows:
        fragments += write_rows(dataset, new)
    deletions = write_deletions(dataset, _whole(replaced, ADDRESS).to_pylist())
    return stage_replacement(dataset, deletions, fragments), moved.num_rows


@dataclass(frozen=True, slots=True)
class DeletionTask:
    """Rows of some fragments to mark as deleted."""

    target: DatasetVersion
    alias: str
    scratch: Scratch
    slices: tuple[KeySlice, ...]


def mark_replaced(task: DeletionTask) -> Deletions:
    """Write the deletions of the rows."""
    found = [np.asarray(table.column(ADDRESS)) for _, table in read_slices(task.scratch, task.slices)]
    return write_deletions(task.target.open(), np.concatenate(found).tolist())


def _whole(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()
