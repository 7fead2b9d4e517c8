"""A merge: rows replace rows of the graph that have the same id, and the other rows are new.

In: rows, and the ids, identities and addresses of the rows of the graph. Out: fragments with moved and with new rows,
and deletions of the replaced rows. A row that replaces another keeps its identity, as in Lance's own upsert. Workers do
this per bucket, and mark rows as deleted in other tasks, one group of fragments each; `replace_rows` does it in this
process. Rows whose digests are equal are counted as unchanged, but written too, because a digest does not prove that
rows are equal. Nothing references the files before the commit. Safe to repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.hashing import Hashes, HashPrefilter, digest_rows
from omnigraph.base import limits
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.keys import KeySlice, KeyWriter, graph_section, read_slices, whole_column
from omnigraph.pipeline.load.written import note_written
from omnigraph.pipeline.runner import task
from omnigraph.schema.catalog import Entity
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.storage.lance import stage
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, DatasetVersion

DIGEST: Final = "omnigraph:digest"
"""The column with the digest of each row of the graph."""


@dataclass(frozen=True, slots=True)
class UpsertPart:
    """What was written of one type, how many of its rows replace others, and how many of those are equal to them."""

    replaced: int = 0
    unchanged: int = 0
    fragments: tuple[Any, ...] = ()

    def __add__(self, other: UpsertPart) -> UpsertPart:
        return UpsertPart(
            self.replaced + other.replaced, self.unchanged + other.unchanged, (*self.fragments, *other.fragments)
        )


def can_digest(entity: Entity) -> bool:
    """Return whether rows of the type can be compared: the contents of blobs are not read for it."""
    return all(definition.type != ScalarType(Scalar.BLOB) for definition in entity.properties)


def add_digests(rows: pa.RecordBatch, retained_columns: list[str]) -> pa.RecordBatch:
    """Return some columns of rows of the graph, with the digest of all columns of the table."""
    values = rows.select([name for name in rows.schema.names if name not in (IDENTITY, ADDRESS)])
    return rows.select(retained_columns).append_column(DIGEST, pa.array(digest_rows(values, "id")))


def digest_table(rows: pa.Table) -> Hashes:
    """Return the digest of each row, without its id."""
    digests = [digest_rows(batch, "id") for batch in rows.to_batches()]
    return np.concatenate([np.empty(0, dtype=np.uint64), *digests])


def count_bucket(rows: pa.Table, graph: pa.Table | None) -> UpsertPart:
    """Return what `upsert_bucket` would do with the rows, without their fragments."""
    return UpsertPart() if graph is None else _match_rows(rows, graph).part()


def upsert_bucket(
    target: DatasetVersion, alias: str, rows: pa.Table, graph: pa.Table | None, writer: KeyWriter
) -> UpsertPart:
    """Write the rows. The writer receives the addresses of the rows that they replace."""
    dataset, notes = target.open(), writer.buckets.scratch
    if graph is None:
        fragments = stage.write_rows(dataset, rows)
        note_written(notes, alias, dataset, fragments)
        return UpsertPart(0, 0, tuple(fragments))
    matches = _match_rows(rows, graph)
    fragments = _write_matches(dataset, matches)
    note_written(notes, alias, dataset, fragments)
    if matches.moved.num_rows:
        addresses = matches.replaced.select([ADDRESS]).combine_chunks().to_batches()[0]
        groups = (np.asarray(addresses.column(0)).astype(np.int64) >> 32) % writer.buckets.count
        writer.add_to(graph_section(alias, "moved"), groups, addresses)
    return matches.part(tuple(fragments))


def replace_rows(dataset: Dataset, entity: Entity, rows: pa.Table) -> tuple[stage.StagedTransaction, UpsertPart]:
    """Stage the rows from this process; return also what was written."""
    matches = _match_table(dataset, entity, rows)
    if matches is None:
        part = UpsertPart(0, 0, tuple(stage.write_rows(dataset, rows)))
        return stage.stage_fragments(dataset, part.fragments), part
    part = matches.part(tuple(_write_matches(dataset, matches)))
    if not part.replaced:
        return stage.stage_fragments(dataset, part.fragments), part
    deletions = stage.write_deletions(dataset, np.asarray(matches.replaced.column(ADDRESS)).tolist())
    return stage.stage_replacement(dataset, deletions, part.fragments), part


def count_present(dataset: Dataset, entity: Entity, rows: pa.Table) -> UpsertPart:
    """Return how many rows replace others, and how many are equal to them; nothing is written."""
    if rows.num_rows > limits.LOAD_UPSERT_ROWS_MAX:
        table_matches = _match_table(dataset, entity, rows)
        return UpsertPart() if table_matches is None else table_matches.part()
    ids = whole_column(rows, "id")
    compares = can_digest(entity)
    present = dataset.read_by_text("id", ids, rows.column_names if compares else ["id"])
    if compares:
        digests = digest_table(present.select(rows.column_names))
        present = present.select(["id"]).append_column(DIGEST, pa.array(digests))
    return _match_rows(rows, present).part()


@dataclass(frozen=True, slots=True)
class DeletionTask:
    """Rows of some fragments to mark as deleted."""

    target: DatasetVersion
    scratch: Scratch
    slices: tuple[KeySlice, ...]


@task("check")
def mark_replaced(task: DeletionTask) -> stage.Deletions:
    """Write the deletions of the rows."""
    addresses = [np.asarray(table.column(ADDRESS)) for _, table in read_slices(task.scratch, task.slices)]
    return stage.write_deletions(task.target.open(), np.concatenate(addresses).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Matches:
    """Rows that replace others, the rows of the graph that they replace, in the same order, and new rows.

    `unchanged` is the number of rows that are equal to the rows that they replace.
    """

    moved: pa.Table
    replaced: pa.Table
    new: pa.Table
    unchanged: int

    def part(self, fragments: tuple[Any, ...] = ()) -> UpsertPart:
        return UpsertPart(self.moved.num_rows, self.unchanged, fragments)


def _match_table(dataset: Dataset, entity: Entity, rows: pa.Table) -> _Matches | None:
    """Compare the rows with all rows of a table; None if it has no fragments."""
    compares = can_digest(entity)
    columns = rows.column_names if compares else ["id"]
    batches = dataset.read_fragments(list(dataset.fragment_rows()), columns, with_identities=True)
    prefilter = HashPrefilter(whole_column(rows, "id"))
    likely = [batch.filter(pa.array(prefilter.may_contain(batch.column("id")))) for batch in batches]
    if compares:
        likely = [add_digests(batch, ["id", IDENTITY, ADDRESS]) for batch in likely]
    return _match_rows(rows, pa.Table.from_batches(likely)) if likely else None


def _match_rows(rows: pa.Table, graph: pa.Table) -> _Matches:
    positions = pc.index_in(whole_column(rows, "id"), value_set=whole_column(graph, "id"))
    replaced = graph.take(positions.drop_null())
    moved = rows.filter(positions.is_valid())
    unchanged = 0
    if DIGEST in graph.column_names:
        unchanged = int(np.count_nonzero(digest_table(moved) == np.asarray(replaced.column(DIGEST))))
    return _Matches(moved, replaced, rows.filter(positions.is_null()), unchanged)


def _write_matches(dataset: Dataset, matches: _Matches) -> list[Any]:
    fragments: list[Any] = []
    if matches.moved.num_rows:
        identities = np.asarray(matches.replaced.column(IDENTITY)).tolist()
        fragments += stage.write_moved_rows(dataset, matches.moved, identities)
    if matches.new.num_rows:
        fragments += stage.write_rows(dataset, matches.new)
    return fragments
