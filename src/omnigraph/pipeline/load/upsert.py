"""A merge: rows replace rows of the graph that have the same id, and the other rows are new.

In: rows, and the ids, identities and addresses of the rows of the graph. Out: fragments with moved and with new rows,
and deletions of the replaced rows. A row that replaces another keeps its identity, as in Lance's own upsert. Workers do
this per bucket, and mark rows as deleted in other tasks, one group of fragments each; `replace_rows` does it in this
process. Nothing references the files before the commit. Safe to repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.hashing import HashPrefilter
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.keys import KeySlice, KeyWriter, graph_section, read_slices, whole_column
from omnigraph.pipeline.runner import task
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
    """What was written of one type, and how many of its rows replace others."""

    replaced: int = 0
    fragments: tuple[Any, ...] = ()

    def __add__(self, other: UpsertPart) -> UpsertPart:
        return UpsertPart(self.replaced + other.replaced, (*self.fragments, *other.fragments))


def upsert_bucket(
    target: DatasetVersion, alias: str, rows: pa.Table, graph: pa.Table | None, writer: KeyWriter
) -> UpsertPart:
    """Write the rows. The writer receives the addresses of the rows that they replace."""
    dataset = target.open()
    if graph is None:
        return UpsertPart(0, tuple(write_rows(dataset, rows)))
    matches = _match_rows(rows, graph)
    fragments = _write_matches(dataset, matches)
    if matches.moved.num_rows:
        addresses = matches.replaced.select([ADDRESS]).combine_chunks().to_batches()[0]
        groups = (np.asarray(addresses.column(0)).astype(np.int64) >> 32) % writer.buckets.count
        writer.add_to(graph_section(alias, "moved"), groups, addresses)
    return UpsertPart(matches.moved.num_rows, tuple(fragments))


def replace_rows(dataset: Dataset, rows: pa.Table) -> tuple[StagedTransaction, int]:
    """Stage the rows from this process; return also how many of them replace others."""
    ids = whole_column(rows, "id")
    every = dataset.read_fragments(list(dataset.fragment_rows()), ["id"], with_identities=True)
    prefilter = HashPrefilter(ids)
    likely = [batch.filter(pa.array(prefilter.may_contain(batch.column("id")))) for batch in every]
    matches = _match_rows(rows, make_address_table(likely))
    fragments = _write_matches(dataset, matches)
    if not matches.moved.num_rows:
        return stage_fragments(dataset, fragments), 0
    deletions = write_deletions(dataset, np.asarray(matches.replaced.column(ADDRESS)).tolist())
    return stage_replacement(dataset, deletions, fragments), matches.moved.num_rows


@dataclass(frozen=True, slots=True)
class DeletionTask:
    """Rows of some fragments to mark as deleted."""

    target: DatasetVersion
    scratch: Scratch
    slices: tuple[KeySlice, ...]


@task("check")
def mark_replaced(task: DeletionTask) -> Deletions:
    """Write the deletions of the rows."""
    addresses = [np.asarray(table.column(ADDRESS)) for _, table in read_slices(task.scratch, task.slices)]
    return write_deletions(task.target.open(), np.concatenate(addresses).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Matches:
    """Rows that replace others, the rows of the graph that they replace, in the same order, and new rows."""

    moved: pa.Table
    replaced: pa.Table
    new: pa.Table


def _match_rows(rows: pa.Table, graph: pa.Table) -> _Matches:
    positions = pc.index_in(whole_column(rows, "id"), value_set=whole_column(graph, "id"))
    replaced = graph.take(positions.drop_null())
    return _Matches(rows.filter(positions.is_valid()), replaced, rows.filter(positions.is_null()))


def _write_matches(dataset: Dataset, matches: _Matches) -> list[Any]:
    fragments: list[Any] = []
    if matches.moved.num_rows:
        identities = np.asarray(matches.replaced.column(IDENTITY)).tolist()
        fragments += write_moved_rows(dataset, matches.moved, identities)
    if matches.new.num_rows:
        fragments += write_rows(dataset, matches.new)
    return fragments
