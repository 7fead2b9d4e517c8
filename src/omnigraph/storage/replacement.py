"""Replace and remove rows by key in one commit, where an upsert cannot remove.

Lance's upsert inserts and updates; a delete is another commit. This writes the one Update transaction that does
both, and collides with any other change of the same fragments. Row identity is not kept: for small control
tables only.
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


def commit_replacement(dataset: Dataset, rows: pa.Table, key: str, removed: tuple[str, ...]) -> Dataset:
    """Upsert `rows` by `key` and delete the rows whose key is in `removed`, as one new version."""
    announce("dataset.stage", dataset.uri)
    keys = [*rows.column(key).to_pylist(), *removed]
    where = f"{key} IN ({', '.join(_quoted(str(value)) for value in keys)})"
    updated: list[FragmentMetadata] = []
    emptied: list[int] = []
    with substrate_errors("stage a replacement", dataset.uri):
        for fragment in dataset.native.get_fragments():
            if fragment.count_rows(where):
                kept = fragment.delete(where)
                updated += [] if kept is None else [kept]
                emptied += [fragment.fragment_id] if kept is None else []
        added = write_fragments(
            rows,
            dataset.native,
            schema=dataset.schema,
            data_storage_version=DATA_STORAGE_VERSION,
            enable_stable_row_ids=True,
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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
