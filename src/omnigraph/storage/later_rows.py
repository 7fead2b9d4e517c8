"""Rows for columns that a dataset is about to have: staged together with the transaction that gives it those columns.

In: a dataset, a staged change of its columns, and rows in the columns that follow. Out: a second `StagedTransaction`,
to be committed directly above the first. Lance knows a column by the number of its field, and the first transaction
says all numbers, so the rows can be written before it is committed. No head moves; a failure leaves only files that
nothing references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from lance.schema import LanceSchema

from omnigraph.base.effects import announce
from omnigraph.storage.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.durability import fragment_files, make_durable
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.staging import (
    Deletions,
    RowReplacement,
    Rows,
    StagedTransaction,
    field_ids,
    keep_identities,
    write_deletions,
)


def stage_later_rows(
    dataset: Dataset,
    columns: StagedTransaction,
    moved: RowReplacement | None,
    new: Rows | None,
    removed: Sequence[int],
) -> StagedTransaction:
    """Replace rows, add rows and delete those at `removed`, as one transaction right after `columns`."""
    operation: Any = columns.native.operation
    schema: LanceSchema = operation.schema
    fragments: list[FragmentMetadata] = []
    if moved is not None:
        fragments += keep_identities(_write_rows(dataset, schema, moved.rows), moved.identities)
    if new is not None:
        fragments += _write_rows(dataset, schema, new)
    gone = [*(() if moved is None else moved.addresses), *removed]
    deletions = write_deletions(dataset, gone) if gone else Deletions()
    later = getattr(operation, "fragments", None)
    updated = deletions.updated if later is None else _in_later_fragments(deletions, later)
    change = lance.LanceOperation.Update(
        removed_fragment_ids=list(deletions.removed),
        updated_fragments=list(updated),
        new_fragments=fragments,
        fields_modified=[],
        fields_for_preserving_frag_bitmap=field_ids(schema),
        update_mode="rewrite_rows",
    )
    return StagedTransaction.of(change, columns.base_version + 1)


def _write_rows(dataset: Dataset, schema: LanceSchema, rows: Rows) -> list[FragmentMetadata]:
    """Fragments for this very dataset. Lance numbers their fields from 0 on; they get the numbers of the schema."""
    announce("dataset.stage", dataset.uri)
    arrow: pa.Schema = rows.schema
    with substrate_errors("write fragments", dataset.uri):
        fragments = list(
            write_fragments(
                rows,
                dataset.native,
                schema=arrow,
                mode="overwrite",  # only so that the columns need not be those of now; nothing is overwritten
                data_storage_version=DATA_STORAGE_VERSION,
                enable_stable_row_ids=True,
            )
        )
        given = dict(zip(field_ids(LanceSchema.from_pyarrow(arrow)), field_ids(schema), strict=True))
    make_durable(dataset.place, fragment_files(fragments))
    for fragment in fragments:
        for file in fragment.files:
            file.fields = [given[number] for number in file.fields]
    return fragments


def _in_later_fragments(deletions: Deletions, later: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
    """The fragments as the first transaction leaves them, with the deletions of the second."""
    by_id = {fragment.id: fragment for fragment in later}
    return [replace(by_id[one.id], deletion_file=one.deletion_file) for one in deletions.updated]
