"""The functions that move a dataset's head. Only the write path, recovery and the manifest may call them.

Each commits once, without Lance's own retries, through a handle that the caller opened before its last check.
Lance may still rebase an append over one that landed in between, and an object store may apply a write whose
answer is lost, so `commit_staged` looks where its transaction really is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, RewriteResult

from omnigraph.base.errors import ConflictError, OmnigraphError, StorageError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import CommitRaceError, substrate_errors
from omnigraph.storage.lance.dataset import ADDRESS, DATA_STORAGE_VERSION, Dataset, any_of
from omnigraph.storage.lance.durability import (
    StagedFile,
    delete_torn_references,
    delete_torn_versions,
    fragment_files,
    make_branch_durable,
    make_durable,
    make_version_durable,
    operation_files,
)
from omnigraph.storage.lance.stage import StagedTransaction
from omnigraph.storage.lance.transactions import find_transaction
from omnigraph.storage.location import Location

_UNESCAPED: Final = "/ !$&'()+,;=@:"
"""What Lance's object store leaves as it is, beside letters, digits, `-`, `.` and `_`."""


@contextmanager
def remove_escaped_dirs(location: Location) -> Iterator[None]:
    """Leave no empty folder at the escaped spelling of a local path."""
    escaped = Path(quote(location.uri, safe=_UNESCAPED).replace("~", "%7E"))
    if not location.is_local or str(escaped) == location.uri:
        yield
        return
    refs = escaped / "_refs" / "branches"
    new = [folder for folder in (refs, *refs.parents) if not folder.exists()]
    try:
        yield
    finally:
        for folder in new:
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106  # refuses what is not empty


AUTO_CLEANUP_PREFIX: Final = "lance.auto_cleanup."
LOST_COMMIT_SEARCH_VERSIONS_MAX: Final = 64


class DisplacedCommitError(ConflictError):
    """A transaction was committed, but something else landed between its base and it."""


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What an in-place compaction did, and the handle after it."""

    dataset: Dataset
    fragments_removed: int
    fragments_added: int


def commit_staged(dataset: Dataset, staged: StagedTransaction) -> Dataset:
    """Commit directly above the staged base; the handle of the new version.

    Raises `CommitRaceError` when Lance refused it (nothing happened), `DisplacedCommitError` when it is not the
    version after its base, and `StorageError` when the store did not answer and it is unknown what happened.
    """
    try:
        committed = _commit(dataset, staged.native)
    except (CommitRaceError, StorageError):
        landed = _find_landed(dataset, staged)
        if landed is None:
            raise
        committed = landed
    _verify(committed, staged)
    make_version_durable(committed.place, committed.version)
    return committed


def commit_restore(dataset: Dataset, version: int, properties: Mapping[str, str]) -> Dataset:
    """Make the newest version equal `version`. Lance never refuses it: the caller checks what lies below."""
    operation = lance.LanceOperation.Restore(version)
    transaction = lance.Transaction(
        read_version=dataset.version, operation=operation, transaction_properties=dict(properties)
    )
    restored = _commit(dataset, transaction)
    make_version_durable(restored.place, restored.version)
    return restored


def commit_compaction(
    dataset: Dataset, rows_per_fragment: int, excluded_fragment_ids: tuple[int, ...] = ()
) -> CompactionOutcome:
    """Merge small fragments in place, in this process. The contents stay the same."""
    announce("dataset.compact", dataset.uri)
    delete_torn_versions(dataset.place, dataset.version + 1)
    native = dataset.movable()
    with substrate_errors("compact the dataset", dataset.uri):
        options: Any = {
            "target_rows_per_fragment": rows_per_fragment,
            "excluded_fragment_ids": list(excluded_fragment_ids),
        }
        plan = Compaction.plan(native, options)
        rewrites = [task.execute(native) for task in plan.tasks]
        make_durable(dataset.place, [file for rewrite in rewrites for file in _rewritten_files(rewrite)])
        metrics = Compaction.commit(native, rewrites)
    for version in range(
        dataset.version + 1, native.version + 1
    ):  # Lance reserves the numbers in one of its own
        make_version_durable(dataset.place, version)
    moved = Dataset(dataset.location, dataset.branch, native)
    return CompactionOutcome(moved, metrics.fragments_removed, metrics.fragments_added)


def _rewritten_files(rewrite: RewriteResult) -> tuple[StagedFile, ...]:
    native: Any = rewrite
    described: dict[str, Any] = json.loads(native.json())
    fragments = (FragmentMetadata.from_json(json.dumps(new)) for new in described["new_fragments"])
    return fragment_files(fragments)


def commit_strip_auto_cleanup(dataset: Dataset) -> Dataset | None:
    """Remove every setting that would let a commit delete old versions; None when there was none.

    This very commit deletes nothing either: Lance looks at the settings of the version that it makes.
    """
    keys = _auto_cleanup_keys(dataset)
    if not keys:
        return None
    announce("dataset.config", dataset.uri)
    delete_torn_versions(dataset.place, dataset.version + 1)
    native = dataset.movable()
    with substrate_errors("strip the automatic cleanup", dataset.uri):
        native.delete_config_keys(keys)
    make_version_durable(dataset.place, native.version)
    return Dataset(dataset.location, dataset.branch, native)


def has_auto_cleanup(dataset: Dataset) -> bool:
    """Whether some setting lets a commit delete old versions."""
    return bool(_auto_cleanup_keys(dataset))


def _auto_cleanup_keys(dataset: Dataset) -> list[str]:
    return [key for key in dataset.config() if key.startswith(AUTO_CLEANUP_PREFIX)]


def commit_schema_metadata(dataset: Dataset, values: Mapping[str, str]) -> Dataset:
    """Set schema-level metadata; a version of its own."""
    announce("dataset.metadata", dataset.uri)
    delete_torn_versions(dataset.place, dataset.version + 1)
    native = dataset.movable()
    with substrate_errors("write the metadata", dataset.uri):
        native.update_schema_metadata(dict(values))
    make_version_durable(dataset.place, native.version)
    return Dataset(dataset.location, dataset.branch, native)


def commit_branch(dataset: Dataset, name: str) -> Dataset:
    """Make the Lance branch `name` from the handle's version. The caller never uses a name twice."""
    announce("dataset.branch", f"{dataset.uri}#{name}")
    delete_torn_references(dataset.location)
    with substrate_errors("create the Lance branch", dataset.uri), remove_escaped_dirs(dataset.location):
        native = dataset.native.create_branch(name, (dataset.branch, dataset.version))
    created = Dataset(dataset.location, name, native)
    make_branch_durable(created.location, name, created.place, created.version)
    return created


def _find_landed(dataset: Dataset, staged: StagedTransaction) -> Dataset | None:
    """The version that the transaction made although its commit failed, as after a lost acknowledgement."""
    try:
        newest = dataset.newest()
        upto = min(newest.version, staged.base_version + LOST_COMMIT_SEARCH_VERSIONS_MAX)
        found = find_transaction(newest, staged.uuid, staged.base_version, upto)
        if found is None:
            return None
        return newest if found.version == newest.version else newest.at(found.version)
    except OmnigraphError:
        return None


def _verify(committed: Dataset, staged: StagedTransaction) -> None:
    """The version after the base must carry our uuid, read back from the store."""
    expected = staged.base_version + 1
    found = ""
    if committed.version == expected:
        with substrate_errors("verify a commit", committed.uri):
            transaction = committed.native.read_transaction(expected)
            found = transaction.uuid if transaction is not None else ""
    if found != staged.uuid:
        raise DisplacedCommitError(
            f"a foreign change landed at {committed.uri} between check and commit",
            code="commit_displaced",
            hint="run `omnigraph repair`",
            facts={"uri": committed.uri, "expected": expected, "actual": committed.version},
        )


def _commit(dataset: Dataset, transaction: lance.Transaction) -> Dataset:
    announce("dataset.commit", dataset.uri)
    delete_torn_versions(dataset.place, dataset.version + 1)
    with substrate_errors("commit", dataset.uri):
        native = lance.LanceDataset.commit(
            dataset.native, transaction, max_retries=0, storage_options=dataset.location.storage_options
        )
    return Dataset(dataset.location, dataset.branch, native)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows to upsert by `key`, and the keys of rows to delete."""

    key: str
    rows: pa.Table
    removed: tuple[str, ...] = ()

    def keys(self) -> frozenset[str]:
        """Every key whose old row goes."""
        return frozenset((*map(str, self.rows.column(self.key).to_pylist()), *self.removed))

    def fragments(self, before: pa.Table) -> frozenset[int]:
        """The fragments with a row that goes. `before` has at least those rows, with their addresses."""
        keys = self.keys()
        pairs = zip(before.column(self.key).to_pylist(), before.column(ADDRESS).to_numpy(), strict=True)
        return frozenset(int(address) >> 32 for name, address in pairs if name in keys)


def commit_replacement(dataset: Dataset, change: Replacement, before: pa.Table | None = None) -> Dataset:
    """Upsert and delete as one new version. `before` are the old rows with their addresses, if they are known."""
    announce("dataset.stage", dataset.uri)
    rows = change.rows
    where = any_of(change.key, sorted(change.keys()))
    with substrate_errors("stage a replacement", dataset.uri):
        if before is None:
            before = dataset.read([change.key], where, with_addresses=True)
        updated, emptied = _delete(dataset, where, change.fragments(before))
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
    make_durable(dataset.place, operation_files(dataset.native, operation))
    return commit_staged(dataset, StagedTransaction.of(operation, dataset.version))


def anchor_of(dataset: Dataset) -> int | None:
    """The fragment that every replacement names; None when there is none."""
    return min((fragment.fragment_id for fragment in dataset.native.get_fragments()), default=None)


def _delete(dataset: Dataset, where: str, having: frozenset[int]) -> tuple[list[FragmentMetadata], list[int]]:
    """The fragments having such rows, and the anchor, without those rows; and the ids of those with nothing left."""
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
