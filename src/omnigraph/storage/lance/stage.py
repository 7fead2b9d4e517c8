"""Stages transactions: writes files, but moves no head.

In: a dataset handle and rows, fragments or addresses. Out: a `StagedTransaction`, which has its uuid before it is
committed, carries our properties and can be pickled. A failure or crash leaves only files that no version references.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.schema import LanceSchema

from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.lance.durability import fragment_files, make_durable, operation_files

Rows = pa.Table | pa.RecordBatchReader
NO_PARENT: Final = -1


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """One Lance transaction that is ready to be committed on top of `base_version`."""

    uuid: str
    base_version: int
    operation: str
    native: lance.Transaction

    @classmethod
    def of(cls, operation: lance.LanceOperation.BaseOperation, base_version: int) -> StagedTransaction:
        """Return an operation as a transaction with a new uuid."""
        native = lance.Transaction(read_version=base_version, operation=operation)
        return cls(native.uuid, base_version, type(operation).__name__, native)

    def with_properties(self, properties: Mapping[str, str]) -> StagedTransaction:
        """Return the same transaction with `properties`."""
        return replace(self, native=replace(self.native, transaction_properties=dict(properties)))


def stage_fragments(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> StagedTransaction:
    """Add fragments that another process wrote for this dataset."""
    return StagedTransaction.of(lance.LanceOperation.Append(list(fragments)), dataset.version)


def stage_overwrite_with(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> StagedTransaction:
    """Replace every row by fragments that another process wrote for this dataset."""
    return StagedTransaction.of(lance.LanceOperation.Overwrite(dataset.schema, list(fragments)), dataset.version)


def stage_upsert(dataset: Dataset, rows: pa.Table) -> StagedTransaction:
    """Insert rows, replacing those whose id exists; row identities do not change. Ids must be distinct."""
    builder = dataset.native.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return _stage_merge_insert(dataset, builder, rows)


def stage_update(dataset: Dataset, rows: pa.Table) -> StagedTransaction:
    """Set only the columns of `rows` in the rows with their ids; row identities do not change.

    Every id must exist, and ids must be distinct.
    """
    return _stage_merge_insert(dataset, dataset.native.merge_insert("id").when_matched_update_all(), rows)


def _stage_merge_insert(dataset: Dataset, builder: Any, rows: pa.Table) -> StagedTransaction:
    announce("dataset.stage", dataset.uri)
    with translate_errors("stage rows", dataset.uri):
        native, _ = builder.execute_uncommitted(rows)
    make_durable(dataset.directory, operation_files(dataset.native, native.operation))
    return StagedTransaction(native.uuid, dataset.version, type(native.operation).__name__, native)


def stage_restore(dataset: Dataset, version: int) -> StagedTransaction:
    """Restore the content of an older version. Lance never rejects it, even after other commits."""
    return StagedTransaction.of(lance.LanceOperation.Restore(version), dataset.version)


def stage_settings_removal(dataset: Dataset, prefix: str) -> StagedTransaction | None:
    """Remove every setting whose name starts with `prefix`; return None if there is none."""
    keys = [key for key in dataset.config() if key.startswith(prefix)]
    if not keys:
        return None
    removed = lance.LanceOperation.UpdateMap(updates=dict.fromkeys(keys))
    return StagedTransaction.of(lance.LanceOperation.UpdateConfig(config_updates=removed), dataset.version)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Fragments with new deletions, and the ids of fragments that would be empty. No version references them yet."""

    updated: tuple[FragmentMetadata, ...] = ()
    removed: tuple[int, ...] = ()


def write_deletions(dataset: Dataset, addresses: Sequence[int]) -> Deletions:
    """Mark rows of this version as deleted, by their addresses."""
    announce("dataset.stage", dataset.uri)
    deletions = write_deletion_files(dataset, addresses)
    make_durable(dataset.directory, fragment_files(deletions.updated, dataset.native))
    return deletions


def write_deletion_files(dataset: Dataset, addresses: Iterable[int]) -> Deletions:
    """Write deletion files that are not checked and not synced yet."""
    offsets: dict[int, list[int]] = {}
    for address in addresses:
        offsets.setdefault(address >> 32, []).append(address & 0xFFFFFFFF)
    updated: list[FragmentMetadata] = []
    removed: list[int] = []
    with translate_errors("write deletions", dataset.uri):
        for fragment_id, rows in sorted(offsets.items()):
            fragment = dataset.native.get_fragment(fragment_id)
            assert fragment is not None, "the address is one of this version"
            remaining = fragment.delete_rows(rows)
            if remaining is None:
                removed.append(fragment_id)
            else:
                updated.append(remaining)
    return Deletions(tuple(updated), tuple(removed))


def stage_delete_rows(dataset: Dataset, addresses: Sequence[int]) -> StagedTransaction:
    """Delete the rows at these addresses of this version."""
    deletions = write_deletions(dataset, addresses)
    where = f"{len(addresses)} rows by address"  # for readers; Lance stores it and does not evaluate it
    return StagedTransaction.of(
        lance.LanceOperation.Delete(list(deletions.updated), list(deletions.removed), where), dataset.version
    )


def write_moved_rows(dataset: Dataset, rows: Rows, identities: Sequence[int]) -> list[FragmentMetadata]:
    """Write rows that replace others and have their identities, as fragments of this dataset."""
    return keep_identities(write_rows(dataset, rows), identities)


def keep_identities(fragments: list[FragmentMetadata], identities: Sequence[int]) -> list[FragmentMetadata]:
    """Give the rows of fragments, in their order, these identities."""
    assert sum(fragment.physical_rows for fragment in fragments) == len(identities), "one identity per row"
    start = 0
    for fragment in fragments:
        end = start + fragment.physical_rows
        fragment.row_id_meta = RowIdSequence(list(identities[start:end])).to_inline_metadata()
        start = end
    return fragments


def stage_replacement(
    dataset: Dataset, deletions: Deletions, fragments: Sequence[FragmentMetadata]
) -> StagedTransaction:
    """Replace rows: delete those in `deletions` and add those in `fragments`, moved and new ones."""
    operation = replacement_operation(deletions, fragments, dataset.native.lance_schema)
    return StagedTransaction.of(operation, dataset.version)


def replacement_operation(
    deletions: Deletions, fragments: Sequence[FragmentMetadata], schema: LanceSchema
) -> lance.LanceOperation.Update:
    """Return the operation that deletes rows and adds fragments of moved and new rows."""
    return lance.LanceOperation.Update(
        removed_fragment_ids=list(deletions.removed),
        updated_fragments=list(deletions.updated),
        new_fragments=list(fragments),
        fields_modified=[],
        # Every field, so that no index counts as covering the rows that moved.
        fields_for_preserving_frag_bitmap=sorted(field_ids(schema)),
        update_mode="rewrite_rows",
    )


@dataclass(frozen=True, slots=True)
class RowReplacement:
    """Rows that replace others: the new rows, and the identities and addresses of the rows that they replace."""

    rows: Rows
    identities: Sequence[int]
    addresses: Sequence[int]


def stage_row_changes(
    dataset: Dataset, moved: RowReplacement | None, new: Rows | None, removed: Sequence[int]
) -> StagedTransaction:
    """Replace rows, add rows, and delete the rows at the addresses `removed`, as one transaction."""
    if moved is None and new is None:
        return stage_delete_rows(dataset, removed)
    fragments = [] if moved is None else write_moved_rows(dataset, moved.rows, moved.identities)
    fragments += [] if new is None else write_rows(dataset, new)
    deleted = [*([] if moved is None else moved.addresses), *removed]
    if not deleted:
        return stage_fragments(dataset, fragments)
    return stage_replacement(dataset, write_deletions(dataset, deleted), fragments)


def field_ids(schema: LanceSchema) -> list[int]:
    """Return the id of every field, each before those of its children."""
    return [number for field in schema.fields() for number, _ in ids_and_parents(field)]


def ids_and_parents(field: Any, parent: int = NO_PARENT) -> Iterator[tuple[int, int]]:
    """Yield the ids of a field and of all fields in it, depth first, each with the id of its parent."""
    own = int(field.id())
    yield own, parent
    for child in field.children():
        yield from ids_and_parents(child, own)


def write_rows(dataset: Dataset, rows: Rows, *, with_other_columns: bool = False) -> list[FragmentMetadata]:
    """Write rows as fragments of this dataset and Lance branch; no version references them yet.

    `with_other_columns`: the columns are those of the rows, and their field ids start at 0.
    """
    announce("dataset.stage", dataset.uri)
    with translate_errors("write fragments", dataset.uri):
        fragments = list(
            write_fragments(
                rows,
                dataset.native,
                schema=rows.schema if with_other_columns else dataset.schema,
                # "overwrite" only lets the columns differ from the present ones: nothing is overwritten.
                mode="overwrite" if with_other_columns else "append",
                data_storage_version=DATA_STORAGE_VERSION,
                enable_stable_row_ids=True,
            )
        )
    make_durable(dataset.directory, fragment_files(fragments))
    return fragments
