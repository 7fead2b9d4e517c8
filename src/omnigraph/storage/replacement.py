"""Replace and remove rows by key in one commit that collides with every other one of its kind.

Lance's upsert inserts and updates; a delete is another commit. This writes the one Update transaction that does
both. Row identity is not kept: for small control tables only.

Lance finds a conflict between two transactions by the fragments they change, and it looks only at the versions
that are still there. A writer that slept while versions were collected would pass unseen and leave rows twice. So
every replacement also names one fragment that all of them name, the *anchor*: whatever is left of the history,
its newest version is enough to be refused. The anchor is the oldest fragment, which compaction leaves alone.
"""

from __future__ import annotations

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.base.effects import announce
from omnigraph.storage.commit import commit_staged
from omnigraph.storage.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.staging import StagedTransaction


def commit_replacement(dataset: Dataset, rows: pa.Table, key: str, removed: tuple[str, ...] = ()) -> Dataset:
    """Upsert `rows` by `key` and delete the rows whose key is in `removed`, as one new version."""
    announce("dataset.stage", dataset.uri)
    with substrate_errors("stage a replacement", dataset.uri):
        keys = [str(value) for value in rows.column(key).to_pylist()]
        updated, emptied = _delete(dataset, key, [*keys, *removed])
        added = write_fragments(
            rows, dataset.native, schema=dataset.schema, data_storage_version=DATA_STORAGE_VERSION
        )
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=emptied,
        updated_fragments=updated,
        new_fragments=list(added),
        fields_modified=[],
        update_mode="rewrite_rows",
    )
    native = lance.Transaction(read_version=dataset.version, operation=operation)
    return commit_staged(dataset, StagedTransaction(native.uuid, dataset.version, "Update", native))


def anchor_of(dataset: Dataset) -> int | None:
    """The fragment that every replacement names; None when there is none."""
    return min((fragment.fragment_id for fragment in dataset.native.get_fragments()), default=None)


def _delete(dataset: Dataset, key: str, keys: list[str]) -> tuple[list[FragmentMetadata], list[int]]:
    """The fragments that have one of the keys, and the anchor, without those rows; and those with nothing left."""
    where = f"{key} IN ({', '.join(map(_quoted, keys))})"
    found = dataset.native.scanner(columns=[key], filter=where, with_row_address=True).to_table()
    having = {int(address) >> 32 for address in found.column("_rowaddr").to_numpy()}
    updated: list[FragmentMetadata] = []
    emptied: list[int] = []
    anchor = anchor_of(dataset)
    for fragment in dataset.native.get_fragments():
        if fragment.fragment_id in having:
            kept = fragment.delete(where)
            updated += [] if kept is None else [kept]
            emptied += [fragment.fragment_id] if kept is None else []
        elif fragment.fragment_id == anchor:
            updated.append(fragment.metadata)
    return updated, emptied


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
