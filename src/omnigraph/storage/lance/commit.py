"""The functions that move a dataset's head. Only the write path, recovery and the manifest may call them.

In: a handle that the caller opened before its last check, and a change. Out: the handle of the new version. Each
function commits once, without Lance's retries. Lance may still rebase an append over another commit, and an object
store may apply a write whose acknowledgement is lost, so `commit_staged` checks in which version its transaction is. A
crash leaves either the new version or files that no version references.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, RewriteResult

from omnigraph.base.errors import ConflictError, OmnigraphError, StorageError
from omnigraph.base.failpoints import announce
from omnigraph.base.hints import action, hint
from omnigraph.storage.errors import CommitRaceError, translate_errors
from omnigraph.storage.lance import durability
from omnigraph.storage.lance.dataset import ADDRESS, DATA_STORAGE_VERSION, Dataset, any_of
from omnigraph.storage.lance.stage import Deletions, StagedTransaction, stage_restore, write_deletion_files
from omnigraph.storage.lance.transactions import find_transaction
from omnigraph.storage.location import Location

AUTO_CLEANUP_PREFIX: Final = "lance.auto_cleanup."
LOST_COMMIT_SEARCH_VERSIONS_MAX: Final = 64
_UNESCAPED: Final = "/ !$&'()+,;=@:"
"""The characters that Lance's object store does not escape, in addition to letters, digits, `-`, `.` and `_`."""


class DisplacedCommitError(ConflictError):
    """A transaction was committed, but another change was committed between its base and it."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows to upsert by `key`, and the keys of rows to delete."""

    key: str
    rows: pa.Table
    removed: tuple[str, ...] = ()

    def keys(self) -> frozenset[str]:
        """Return every key whose existing row is replaced or deleted."""
        return frozenset((*map(str, self.rows.column(self.key).to_pylist()), *self.removed))

    def addresses(self, before: pa.Table) -> list[int]:
        """Return the addresses of the rows to replace or delete. `before` has at least these rows, with addresses."""
        keys = self.keys()
        pairs = zip(before.column(self.key).to_pylist(), before.column(ADDRESS).to_numpy().tolist(), strict=True)
        return [address for name, address in pairs if name in keys]


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """The handle after an in-place compaction, and how many fragments it removed and added."""

    dataset: Dataset
    fragments_removed: int
    fragments_added: int


def commit_staged(dataset: Dataset, staged: StagedTransaction) -> Dataset:
    """Commit directly above the staged base; return the handle of the new version.

    Raises:
        CommitRaceError: Lance rejected the commit; nothing was written.
        DisplacedCommitError: The new version is not the one directly above its base.
        StorageError: The store did not answer, and it is unknown whether the commit was applied.
    """
    try:
        committed = _commit(dataset, staged.native)
    except (CommitRaceError, StorageError):
        applied = _find_applied(dataset, staged)
        if applied is None:
            raise
        committed = applied
    _require_directly_above_base(committed, staged)
    durability.make_version_durable(committed.directory, committed.version)
    return committed


def commit_restore(dataset: Dataset, version: int, properties: Mapping[str, str]) -> Dataset:
    """Make the newest version equal to `version`. Lance never rejects it: the caller checks what it would undo."""
    restored = _commit(dataset, stage_restore(dataset, version).with_properties(properties).native)
    durability.make_version_durable(restored.directory, restored.version)
    return restored


def commit_replacement(dataset: Dataset, change: Replacement, before: pa.Table | None = None) -> Dataset:
    """Upsert and delete as one new version. `before` has the existing rows with their addresses, if already read."""
    announce("dataset.stage", dataset.uri)
    if before is None:
        before = dataset.read([change.key], any_of(change.key, sorted(change.keys())), with_addresses=True)
    deletions = _delete_rows(dataset, change.addresses(before))
    with translate_errors("stage a replacement", dataset.uri):
        added = write_fragments(
            change.rows, dataset.native, schema=dataset.schema, data_storage_version=DATA_STORAGE_VERSION
        )
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=list(deletions.removed),
        updated_fragments=list(deletions.updated),
        new_fragments=list(added),
        fields_modified=[],
        update_mode="rewrite_rows",
    )
    durability.make_durable(dataset.directory, durability.operation_files(dataset.native, operation))
    return commit_staged(dataset, StagedTransaction.of(operation, dataset.version))


def commit_compaction(
    dataset: Dataset, rows_per_fragment: int, excluded_fragment_ids: tuple[int, ...] = ()
) -> CompactionOutcome:
    """Merge small fragments in place, in this process. The rows do not change."""
    announce("dataset.compact", dataset.uri)
    durability.delete_empty_version_files(dataset.directory, dataset.version + 1)
    native = dataset.native_copy()
    with translate_errors("compact the dataset", dataset.uri):
        options: Any = {
            "target_rows_per_fragment": rows_per_fragment,
            "excluded_fragment_ids": list(excluded_fragment_ids),
        }
        plan = Compaction.plan(native, options)
        rewrites = [task.execute(native) for task in plan.tasks]
        durability.make_durable(dataset.directory, [file for rewrite in rewrites for file in _rewritten_files(rewrite)])
        metrics = Compaction.commit(native, rewrites)
    # Lance reserves the ids of the new fragments in a version before the compaction.
    for version in range(dataset.version + 1, native.version + 1):
        durability.make_version_durable(dataset.directory, version)
    compacted = Dataset(dataset.location, dataset.branch, native)
    return CompactionOutcome(compacted, metrics.fragments_removed, metrics.fragments_added)


def commit_strip_auto_cleanup(dataset: Dataset) -> Dataset | None:
    """Remove every setting with which a commit deletes old versions; return None if there is none.

    This commit deletes nothing either: Lance reads the settings of the version that it creates.
    """
    keys = _auto_cleanup_keys(dataset)
    if not keys:
        return None
    announce("dataset.config", dataset.uri)
    return _commit_with(dataset, "remove the automatic cleanup", lambda native: native.delete_config_keys(keys))


def commit_schema_metadata(dataset: Dataset, values: Mapping[str, str]) -> Dataset:
    """Set schema-level metadata in one new version."""
    announce("dataset.metadata", dataset.uri)
    return _commit_with(dataset, "write the metadata", lambda native: native.update_schema_metadata(dict(values)))


def commit_branch(dataset: Dataset, name: str) -> Dataset:
    """Create the Lance branch `name` from the handle's version. The caller never reuses a name."""
    announce("dataset.branch", f"{dataset.uri}#{name}")
    durability.delete_empty_references(dataset.location)
    with translate_errors("create the Lance branch", dataset.uri), remove_escaped_dirs(dataset.location):
        native = dataset.native.create_branch(name, (dataset.branch, dataset.version))
    created = Dataset(dataset.location, name, native)
    durability.make_branch_durable(created.location, name, created.directory, created.version)
    return created


def has_auto_cleanup(dataset: Dataset) -> bool:
    """Return whether a setting makes commits delete old versions."""
    return bool(_auto_cleanup_keys(dataset))


def anchor_fragment(dataset: Dataset) -> int | None:
    """Return the fragment that every replacement names, so that two of them conflict; None without fragments."""
    return min((fragment.fragment_id for fragment in dataset.native.get_fragments()), default=None)


@contextmanager
def remove_escaped_dirs(location: Location) -> Iterator[None]:
    """Remove the empty directories that Lance creates at the escaped spelling of a local path within the block."""
    escaped = Path(quote(location.uri, safe=_UNESCAPED).replace("~", "%7E"))
    if not location.is_local or str(escaped) == location.uri:
        yield
        return
    refs = escaped / "_refs" / "branches"
    missing = [directory for directory in (refs, *refs.parents) if not directory.exists()]
    try:
        yield
    finally:
        for directory in missing:
            with suppress(OSError):
                os.rmdir(directory)  # noqa: PTH106  # fails for a directory that is not empty


def _commit(dataset: Dataset, transaction: lance.Transaction) -> Dataset:
    announce("dataset.commit", dataset.uri)
    durability.delete_empty_version_files(dataset.directory, dataset.version + 1)
    with translate_errors("commit", dataset.uri):
        native = lance.LanceDataset.commit(
            dataset.native, transaction, max_retries=0, storage_options=dataset.location.storage_options
        )
    return Dataset(dataset.location, dataset.branch, native)


def _commit_with(dataset: Dataset, operation: str, commit: Callable[[lance.LanceDataset], object]) -> Dataset:
    """Call a function that commits with a copy of the handle, which becomes the new version."""
    durability.delete_empty_version_files(dataset.directory, dataset.version + 1)
    native = dataset.native_copy()
    with translate_errors(operation, dataset.uri):
        commit(native)
    durability.make_version_durable(dataset.directory, native.version)
    return Dataset(dataset.location, dataset.branch, native)


def _find_applied(dataset: Dataset, staged: StagedTransaction) -> Dataset | None:
    """Return the version of a transaction whose commit failed but was applied, such as after a lost acknowledgement."""
    try:
        newest = dataset.newest()
        upto = min(newest.version, staged.base_version + LOST_COMMIT_SEARCH_VERSIONS_MAX)
        record = find_transaction(newest, staged.uuid, staged.base_version, upto)
        if record is None:
            return None
        return newest if record.version == newest.version else newest.at_version(record.version)
    except OmnigraphError:
        return None


def _require_directly_above_base(committed: Dataset, staged: StagedTransaction) -> None:
    """Require that the version above the base has the uuid of the transaction, as read from the store."""
    expected = staged.base_version + 1
    uuid = ""
    if committed.version == expected:
        with translate_errors("verify a commit", committed.uri):
            transaction = committed.native.read_transaction(expected)
            uuid = transaction.uuid if transaction is not None else ""
    if uuid != staged.uuid:
        raise displaced_commit(committed, staged.base_version)


def displaced_commit(committed: Dataset, base: int) -> DisplacedCommitError:
    """Return the error for a commit with a version above its base that the write did not make."""
    return DisplacedCommitError(
        f"an external tool changed {committed.uri} during the write: expected only our commits above version {base}, "
        f"got others up to version {committed.version}",
        code="commit_displaced",
        hint=hint("Run {}.", action("repair")),
        facts={"uri": committed.uri, "base": base, "expected": base + 1, "actual": committed.version},
    )


def _delete_rows(dataset: Dataset, addresses: list[int]) -> Deletions:
    """Delete the rows at these addresses. The anchor fragment counts as updated."""
    deletions = write_deletion_files(dataset, addresses)
    anchor = anchor_fragment(dataset)
    changed = {*deletions.removed, *(fragment.id for fragment in deletions.updated)}
    if anchor is None or anchor in changed:
        return deletions
    return replace(deletions, updated=(dataset.fragments([anchor])[0].metadata, *deletions.updated))


def _rewritten_files(rewrite: RewriteResult) -> tuple[durability.StagedFile, ...]:
    native: Any = rewrite
    description: dict[str, Any] = json.loads(native.json())
    fragments = (FragmentMetadata.from_json(json.dumps(new)) for new in description["new_fragments"])
    return durability.fragment_files(fragments)


def _auto_cleanup_keys(dataset: Dataset) -> list[str]:
    return [key for key in dataset.config() if key.startswith(AUTO_CLEANUP_PREFIX)]
