"""The functions that move a dataset's head. Only the write path, recovery and the manifest may call them.

Each commits once, without Lance's own retries, through a handle that the caller opened before its last check.
Lance may still rebase an append over one that landed in between, and an object store may apply a write whose
answer is lost, so `commit_staged` looks where its transaction really is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import lance
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, RewriteResult

from omnigraph.base.effects import announce
from omnigraph.base.errors import ConflictError, OmnigraphError, StorageError
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.durability import (
    StagedFile,
    delete_torn_references,
    delete_torn_versions,
    fragment_files,
    make_branch_durable,
    make_durable,
    make_version_durable,
)
from omnigraph.storage.failures import CommitRaceError, substrate_errors
from omnigraph.storage.operations import find_transaction
from omnigraph.storage.staging import StagedTransaction
from omnigraph.storage.stray_folders import no_strays

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
    with substrate_errors("create the Lance branch", dataset.uri), no_strays(dataset.location):
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
