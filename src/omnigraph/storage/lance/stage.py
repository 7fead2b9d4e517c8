"""Uncommitted transactions: files are written, no head moves.

In: a dataset handle and rows or predicates. Out: a `StagedTransaction`, which knows its uuid before it is
committed, carries our properties and pickles. A failure leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.schema import LanceSchema

from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.lance.durability import fragment_files, make_durable, operation_files

Rows = pa.Table | pa.RecordBatchReader


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """One Lance transaction that is ready to be committed on top of `base_version`."""

    uuid: str
    base_version: int
    operation: str
    native: lance.Transaction

    @classmethod
    def of(cls, operation: lance.LanceOperation.BaseOperation, base_version: int) -> StagedTransaction:
        """An operation as a transaction with a uuid of its own."""
        native = lance.Transaction(read_version=base_version, operation=operation)
        return cls(native.uuid, base_version, type(operation).__name__, native)

    def with_properties(self, properties: Mapping[str, str]) -> StagedTransaction:
        """The same transaction carrying `properties`."""
        native = lance.Transaction(
            read_version=self.native.read_version,
            operation=self.native.operation,
            uuid=self.native.uuid,
            transaction_properties=dict(properties),
        )
        return replace(self, native=native)


def stage_fragments(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> StagedTransaction:
    """Add fragments that were written elsewhere for this dataset."""
    return StagedTransaction.of(lance.LanceOperation.Append(list(fragments)), dataset.version)


def stage_overwrite_with(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> StagedTransaction:
    """Replace every row by fragments that were written elsewhere for this dataset."""
    return StagedTransaction.of(
        lance.LanceOperation.Overwrite(dataset.schema, list(fragments)), dataset.version
    )


def stage_upsert(dataset: Dataset, rows: pa.Table) -> StagedTransaction:
    """Insert rows, replacing those whose id exists; row identity is kept. Ids must be distinct."""
    announce("dataset.stage", dataset.uri)
    with substrate_errors("stage an upsert", dataset.uri):
        builder = dataset.native.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        native, _ = builder.execute_uncommitted(rows)
    make_durable(dataset.place, operation_files(dataset.native, native.operation))
    return StagedTransaction(native.uuid, dataset.version, type(native.operation).__name__, native)


def stage_update(dataset: Dataset, rows: pa.Table) -> StagedTransaction:
    """Set the columns of `rows`, and no others, in the rows with their ids; row identity is kept.

    Every id is there, and no two are the same.
    """
    announce("dataset.stage", dataset.uri)
    with substrate_errors("stage an update", dataset.uri):
        native, _ = dataset.native.merge_insert("id").when_matched_update_all().execute_uncommitted(rows)
    make_durable(dataset.place, operation_files(dataset.native, native.operation))
    return StagedTransaction(native.uuid, dataset.version, type(native.operation).__name__, native)


def stage_restore(dataset: Dataset, version: int) -> StagedTransaction:
    """Give the dataset the content of an older version. Lance never refuses it, whatever lands in between."""
    return StagedTransaction.of(lance.LanceOperation.Restore(version), dataset.version)


def stage_settings_removal(dataset: Dataset, prefix: str) -> StagedTransaction | None:
    """Remove every setting whose name begins so; None when there is none."""
    keys = [key for key in dataset.config() if key.startswith(prefix)]
    if not keys:
        return None
    removed = lance.LanceOperation.UpdateMap(updates=dict.fromkeys(keys))
    return StagedTransaction.of(lance.LanceOperation.UpdateConfig(config_updates=removed), dataset.version)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Fragments without some of their rows, and those that would be empty. Nothing references them yet."""

    updated: tuple[FragmentMetadata, ...] = ()
    removed: tuple[int, ...] = ()


def write_deletions(dataset: Dataset, addresses: Sequence[int]) -> Deletions:
    """Mark rows, by their addresses, as deleted from this very version."""
    announce("dataset.stage", dataset.uri)
    offsets: dict[int, list[int]] = {}
    for address in addresses:
        offsets.setdefault(address >> 32, []).append(address & 0xFFFFFFFF)
    updated: list[FragmentMetadata] = []
    removed: list[int] = []
    with substrate_errors("write deletions", dataset.uri):
        for fragment_id, rows in sorted(offsets.items()):
            fragment = dataset.native.get_fragment(fragment_id)
            assert fragment is not None, "the address is of this version"
            kept = fragment.delete_rows(rows)
            if kept is None:
                removed.append(fragment_id)
            else:
                updated.append(kept)
    make_durable(dataset.place, fragment_files(updated, dataset.native))
    return Deletions(tuple(updated), tuple(removed))


def stage_delete_rows(dataset: Dataset, addresses: Sequence[int]) -> StagedTransaction:
    """Delete the rows at these addresses of this very version."""
    found = write_deletions(dataset, addresses)
    where = f"{len(addresses)} rows by address"  # a note for people; Lance keeps it and does not read it
    return StagedTransaction.of(
        lance.LanceOperation.Delete(list(found.updated), list(found.removed), where), dataset.version
    )


def write_moved_rows(dataset: Dataset, rows: Rows, identities: Sequence[int]) -> list[FragmentMetadata]:
    """Write rows that replace others and keep their identities, as fragments for this very dataset."""
    return keep_identities(write_rows(dataset, rows), identities)


def keep_identities(fragments: list[FragmentMetadata], identities: Sequence[int]) -> list[FragmentMetadata]:
    """Fragments whose rows, in their order, have these identities."""
    assert sum(one.physical_rows for one in fragments) == len(identities), "each row has its identity"
    at = 0
    for fragment in fragments:
        until = at + fragment.physical_rows
        fragment.row_id_meta = RowIdSequence(list(identities[at:until])).to_inline_metadata()
        at = until
    return fragments


def stage_replacement(
    dataset: Dataset, deletions: Deletions, fragments: Sequence[FragmentMetadata]
) -> StagedTransaction:
    """Replace rows: those in `deletions` go, those in `fragments`, moved and new ones, come."""
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=list(deletions.removed),
        updated_fragments=list(deletions.updated),
        new_fragments=list(fragments),
        fields_modified=[],
        # Every field, so that no index is believed to know the rows that moved.
        fields_for_preserving_frag_bitmap=sorted(field_ids(dataset.native.lance_schema)),
        update_mode="rewrite_rows",
    )
    return StagedTransaction.of(operation, dataset.version)


@dataclass(frozen=True, slots=True)
class RowReplacement:
    """Rows that take the place of others: what they are, whose identities they keep, and where the others lie."""

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
    gone = [*([] if moved is None else moved.addresses), *removed]
    if not gone:
        return stage_fragments(dataset, fragments)
    return stage_replacement(dataset, write_deletions(dataset, gone), fragments)


def field_ids(schema: LanceSchema) -> list[int]:
    """The number of every field, each before those in it."""
    found: list[int] = []
    waiting = list(reversed(schema.fields()))
    while waiting:
        field = waiting.pop()
        found.append(int(field.id()))
        waiting += reversed(field.children())
    return found


def write_rows(dataset: Dataset, rows: Rows) -> list[FragmentMetadata]:
    """Write rows as fragments for this very dataset and Lance branch; nothing references them yet."""
    announce("dataset.stage", dataset.uri)
    with substrate_errors("write fragments", dataset.uri):
        fragments = list(
            write_fragments(
                rows,
                dataset.native,
                schema=dataset.schema,
                data_storage_version=DATA_STORAGE_VERSION,
                enable_stable_row_ids=True,
            )
        )
    make_durable(dataset.place, fragment_files(fragments))
    return fragments
